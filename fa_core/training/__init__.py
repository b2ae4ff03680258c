"""Plans of training runs, the training itself, and comparison with published figures.

`train` imports torch, the other modules do not; imported by commands and `reporting`.
"""
