"""Plans of training runs, training, and the commands of published experiments.

`train` and `run_files` import torch, the other modules do not. Commands and `reporting` import it.
"""
