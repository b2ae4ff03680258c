"""The explorer in a browser on the same machine. Needs textual-serve."""
