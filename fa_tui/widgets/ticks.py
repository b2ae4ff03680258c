"""The numbers beside an axis: round, and never two alike."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fa_tui.widgets.numbers import short
from fa_tui.widgets.scale import Scale

_LINES_PER_LABEL = 2
_LINES_PER_DECADE = 3
_ROUND = (1, 2, 5)


def tick_labels(scale: Scale, lines: int, width: int) -> dict[int, str]:
    """Line (from the top) → label, for an axis of so many lines; labels have at most `width` cells.

    >>> tick_labels(Scale(0.61, 0.62), 5, 6)
    {4: '0.610', 2: '0.615', 0: '0.620'}
    >>> tick_labels(Scale(1.0, 1e4, log=True), 6, 6)
    {5: '1', 0: '10000', 3: '100'}
    """
    ticks = _decades(scale, lines) if scale.log else _multiples(scale, lines)
    labels: dict[int, str] = {}
    for value, text in ticks:
        line = lines - 1 - scale.cell(value, lines)
        if text not in labels.values() and len(text) <= width:
            labels.setdefault(line, text)
    return labels


def _decades(scale: Scale, lines: int) -> Iterator[tuple[float, str]]:
    """The ends, and powers of ten as far apart as there is room."""
    low, high = round(math.log10(scale.lo)), round(math.log10(scale.hi))
    stride = max(1, math.ceil(_LINES_PER_DECADE * (high - low) / max(1, lines)))
    between = (10.0**exponent for exponent in range(low, high + 1) if exponent % stride == 0)
    yield from ((value, short(value, 2)) for value in (scale.lo, scale.hi, *between))


def _multiples(scale: Scale, lines: int) -> Iterator[tuple[float, str]]:
    """Multiples of 1, 2 or 5 times a power of ten; both ends where fewer than two of them lie on the axis."""
    step, decimals = _step((scale.hi - scale.lo) / max(1, (lines - 1) // _LINES_PER_LABEL))
    first, last = math.ceil(scale.lo / step - 1e-9), math.floor(scale.hi / step + 1e-9)
    if first >= last:
        yield from ((value, short(value, 4)) for value in (scale.lo, scale.hi))
        return
    for count in range(first, last + 1):
        value = float(f"{count * step:.12g}")
        text = f"{value:.{decimals}f}"
        yield value, text if 1e-4 < step < 1e6 else short(value, 3)


def _step(least: float) -> tuple[float, int]:
    """The smallest round step that is not below `least`, and the decimals that its multiples need."""
    exponent = math.floor(math.log10(least))
    for power in (exponent, exponent + 1):
        for mantissa in _ROUND:
            step = float(f"{mantissa}e{power}")
            if step >= least * (1 - 1e-9):
                return step, max(0, -power)
    raise AssertionError(least)
