"""Output for papers: the reporting form, figures, Markdown, HTML, LaTeX, CSV and Parquet.

Imports `analysis` and no torch; imported by `fa_tui`.
"""
