"""Measuring a network: taps, passes, norms, drift, accuracy, credit.

Imports torch; imported by `data`, `engine`, `training`, `monitor` and `pitfalls`,
never by the explorer.
"""
