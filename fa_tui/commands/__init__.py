"""The commands of `fa-tui`: functions named ``NAME_command``. Imports none."""
