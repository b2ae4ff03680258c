"""The explorer in a browser on the same machine. Needs the extra `web` (textual-serve)."""
