"""Plans of training runs, and training.

`train` and `run_files` import torch, the other modules do not. Commands and `reporting` import it.
"""
