"""The commands of `fa-tui`: functions named ``NAME_command``, and shared modules.

Imported by `fa_tui.typer_app` by name; no command imports another.
"""
