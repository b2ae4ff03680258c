"""The commands of `fa-tui`: functions named ``NAME_command``, and what they share.

Imported by `fa_tui.typer_app` by name; no command imports another.
"""
