"""Runs as a person looks at them: names, cells, axes, filters, comparisons. Pure functions, no
terminal code."""
