"""Data sets and the evaluation batches of an audit.

Imports torch; imported by `audit`, `training`, `pitfalls` and commands.
"""

from fa_core.zoo.data.dataset import DataSet, GivenBatches, eval_batches, eval_order
from fa_core.zoo.data.load import DATA_LOADERS, load_data, load_test_data

__all__ = [
    "DATA_LOADERS",
    "DataSet",
    "GivenBatches",
    "eval_batches",
    "eval_order",
    "load_data",
    "load_test_data",
]
