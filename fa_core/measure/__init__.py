"""Measuring a network: taps, passes, norms, drift, accuracy, credit.

Imports torch; imported by `audit`, `training`, `monitor` and `pitfalls`,
never by the explorer.
"""
