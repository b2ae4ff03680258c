"""Columns of the audit table: rows of unequal length, numbers that may be missing, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from operator import is_
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from fa_core.report import NORM_RATIO_EPS

Floats: TypeAlias = NDArray[np.float64]
Bits: TypeAlias = NDArray[np.uint8]
Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Objects: TypeAlias = NDArray[np.object_]

_Array = TypeVar("_Array", bound=NDArray[Any])
_PLACES = 9
_NEAR_TIE = 1e-3
_INT32 = np.iinfo(np.int32).max


class Ragged:
    """Rows of unequal length in one flat array: row i is ``flat[offsets[i]:offsets[i + 1]]``."""

    __slots__ = ("flat", "offsets")

    def __init__(self, flat: Floats, offsets: Indices) -> None:
        self.flat = read_only(flat)
        self.offsets = read_only(narrow(offsets))

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> Ragged:
        """Rows given as sequences."""
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=offsets[1:])
        return cls(np.fromiter(chain.from_iterable(rows), np.float64, int(offsets[-1])), offsets)

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of all parts, one after another."""
        lengths = np.concatenate([np.zeros(1, np.int64), *(part.lengths for part in parts)])
        return cls(np.concatenate([np.zeros(0), *(part.flat for part in parts)]), np.cumsum(lengths))

    @property
    def lengths(self) -> Indices:
        """The number of values in each row."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Floats:
        index = range(len(self))[index]
        row: Floats = self.flat[self.offsets[index] : self.offsets[index + 1]]
        return row

    def take(self, indices: Indices) -> Ragged:
        """Some of the rows, in the order given."""
        lengths = self.lengths[indices]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        positions = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][indices] - offsets[:-1], lengths)
        return Ragged(self.flat[positions], offsets)

    def last(self) -> Floats:
        """The last value of each row; NaN for an empty one."""
        filled = self.lengths > 0
        values = np.full(len(self), np.nan)
        values[filled] = self.flat[self.offsets[1:][filled] - 1]
        return values

    def any_nonfinite(self) -> Mask:
        """Which rows hold a NaN or ±inf."""
        finite = np.isfinite(self.flat)
        if finite.all():  # the usual case, and three times as fast
            return np.zeros(len(self), np.bool_)
        bad = np.concatenate([np.zeros(1, np.int64), np.cumsum(~finite)])
        return np.diff(bad[self.offsets]) > 0


def read_only(array: _Array) -> _Array:
    """The same array, from now on not to be written."""
    array.setflags(write=False)
    return array


def narrow(places: Indices) -> Indices:
    """Rising places or counts in four bytes each, where that is enough: the last is the largest."""
    return places.astype(np.int32) if len(places) and places[-1] <= _INT32 else places


def optional(values: Sequence[float | None]) -> tuple[Floats, Mask]:
    """Numbers with NaN for None, and where they are not None (a NaN that was measured is there)."""
    if values.count(None) == len(values):
        return np.full(len(values), np.nan), np.zeros(len(values), np.bool_)
    numbers = np.fromiter(values, np.float64, len(values))  # None becomes NaN
    present = ~np.isnan(numbers)
    if not present.all():
        present = np.fromiter((value is not None for value in values), np.bool_, len(values))
    return numbers, present


def objects(values: Sequence[object]) -> Objects:
    """The objects themselves in an array (``np.array`` would unpack dicts and lists of equal length).

    One object in all places takes the memory of one; such an array cannot be written.
    """
    if len(values) > 1 and all(map(is_, values, repeat(values[0]))):
        return _everywhere(values[0], len(values))
    return np.fromiter(values, object, len(values))


def joined(parts: Sequence[_Array]) -> _Array:
    """Columns one after another; see `objects`."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if all(part.dtype == object and _is_everywhere(part) and part[0] is parts[0][0] for part in parts if len(part)):
        return _everywhere(parts[0][0], sum(map(len, parts))) if len(parts[0]) else parts[0]  # type: ignore[return-value]
    return np.concatenate(parts)  # type: ignore[return-value]


def _everywhere(value: object, count: int) -> Objects:
    one = np.empty((), object)
    one[()] = value
    return np.broadcast_to(one, count)


def _is_everywhere(column: NDArray[Any]) -> bool:
    return len(column) == 1 or column.strides == (0,)


def growth_of(norms: Ragged, bounds: Floats) -> Floats:
    """Diagnostic (a)'s number per row, as `DiagnosticReport.max_per_block_growth`.

    growth = max_l ‖h_{l+1}‖/max(‖h_l‖, 1e-30).

    Args:
        norms: ‖h_l‖, l = 0..L, per row.
        bounds: per row, what stands in where there are fewer than two norms; NaN for nothing.

    Returns:
        Ratios; NaN where not measured and where a norm is non-finite.
    """
    growth: Floats = bounds.copy()
    several = norms.lengths >= 2
    if several.any():
        ratios = np.full(len(norms.flat), -np.inf)
        with np.errstate(over="ignore", invalid="ignore"):
            ratios[:-1] = norms.flat[1:] / np.maximum(norms.flat[:-1], NORM_RATIO_EPS)
        ratios[norms.offsets[1:][norms.lengths > 0] - 1] = -np.inf  # from one row's end to the next row's start
        growth[several] = np.maximum.reduceat(ratios, norms.offsets[:-1][several])
    growth[norms.any_nonfinite()] = np.nan
    return growth


def margin_of(headline: Floats, baseline: Floats) -> Floats:
    """Diagnostic (d)'s number per row, as `DiagnosticReport.margin_pp`: 100·(headline − baseline), rounded to 1e-9.

    NumPy rounds by scaling and Python correctly; the two can part next to a tie, so there Python decides.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        margin = 100.0 * (headline - baseline)
        scaled = margin * 10.0**_PLACES
        rounded = np.rint(scaled) / 10.0**_PLACES
        doubtful = (np.abs(scaled - np.floor(scaled) - 0.5) < _NEAR_TIE) | (np.abs(scaled) > 2.0**40)
    for index in np.flatnonzero(doubtful).tolist():
        rounded[index] = round(float(margin[index]), _PLACES)
    return rounded
