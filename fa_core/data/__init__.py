"""Data sets and the evaluation batches of an audit.

It imports torch and `measure`. `training`, `engine`, `pitfalls` and commands import it.
"""

from fa_core.data.dataset import DataSet, GivenBatches, eval_batches, eval_order
from fa_core.data.load import DATA_LOADERS, load_data, load_test_data

__all__ = [
    "DATA_LOADERS",
    "DataSet",
    "GivenBatches",
    "eval_batches",
    "eval_order",
    "load_data",
    "load_test_data",
]
