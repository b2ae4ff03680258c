"""Plans of training runs, training, and the comparison with published figures.

`train` and `run_files` import torch, the other modules do not. Commands and `reporting` import it.
"""
