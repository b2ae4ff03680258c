"""Verdicts from measured numbers: thresholds, diagnostics, intervals, baselines.

Imports `facts` alone and no torch; any folder but `facts` may import it.
"""
