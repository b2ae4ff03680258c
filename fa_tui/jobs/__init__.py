"""Measurements of the explorer, their progress and results.

Imports `fa_core.audit` and no torch; imported by the App, its screens and `audit`.
"""
