"""Data sets by SPEC, and the evaluation batches that every audit of a run shares."""

from fa_core.data.dataset import DataSet, eval_batches, eval_order
from fa_core.data.sources import SPECS, load_data

__all__ = ["SPECS", "DataSet", "eval_batches", "eval_order", "load_data"]
