"""Verdicts from measured numbers: thresholds, diagnostics, intervals, baselines.

Imports only `facts`, and no torch.
"""
