"""Rows of runs that are named by their keys, as reading a folder gives them."""

from fa_core.formats.rows import AuditRow
from fa_core.report.names import split_key


def row_of(key, source="", checkpoint=None, **fields):
    """A row; a checkpoint of `...` is its source."""
    method, seed, axes = split_key(key)
    place = source if checkpoint is ... else checkpoint
    named = {"method": method, "seed": seed, "axes": axes, **fields}
    return AuditRow(source=str(source), key=key, checkpoint=place and str(place), **named)
