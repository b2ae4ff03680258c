"""The terminal explorer and the command line over `fa_core`."""
