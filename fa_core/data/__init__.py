"""Data sets and the evaluation batches of an audit."""

from fa_core.data.dataset import (
    SPECS,
    DataSet,
    GivenBatches,
    eval_batches,
    eval_order,
    load_data,
    load_test_data,
)

__all__ = [
    "SPECS",
    "DataSet",
    "GivenBatches",
    "eval_batches",
    "eval_order",
    "load_data",
    "load_test_data",
]
