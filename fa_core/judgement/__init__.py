"""Verdicts from measured numbers: thresholds, diagnostics, intervals, baselines. No torch."""
