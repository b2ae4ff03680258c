"""Data sets and the evaluation batches of an audit."""

from fa_core.data.dataset import SPECS, DataSet, eval_batches, eval_order, load_data

__all__ = ["SPECS", "DataSet", "eval_batches", "eval_order", "load_data"]
