"""Output for papers: the reporting form, figures, Markdown, HTML, LaTeX and CSV.

Imports `analysis` and no torch; imported by `fa_tui`.
"""
