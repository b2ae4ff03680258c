"""Runs that the explorer measures, commands that it starts, and what they report.

Imports `fa_core.engine` and no torch; imported by the App, its screens and `audit`.
"""
