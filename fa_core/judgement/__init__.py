"""From measured numbers to verdicts: thresholds, diagnostics, intervals, baselines. No torch, no
input or output."""
