"""One module per command of `fa-tui`; each registers itself on the Typer app."""
