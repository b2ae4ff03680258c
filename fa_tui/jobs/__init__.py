"""Runs that the explorer measures, commands that it starts, and what they report."""
