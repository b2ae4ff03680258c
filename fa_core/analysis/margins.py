"""How far each diagnostic is from changing its mind, and what was measured at all."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from fa_core.analysis.result import Result
from fa_core.columns import Floats
from fa_core.diagnostics import BIT, DIAGNOSTICS, LETTERS, DiagnosticThresholds, letters_of
from fa_core.table import AuditTable


class Margin(Result, frozen=True, kw_only=True):
    """One diagnostic of one run: how far from flipping.

    Attributes:
        letter: the diagnostic.
        unit: of value, threshold and room.
        value: the number; None if not measured.
        threshold: what it is compared with.
        fires: None if not measured.
        room: signed distance to the threshold in the diagnostic's unit: positive = passes with this much
            to spare, negative = fires by this much; None if not measured or non-finite.
        factor: how many times the value would have to change, ≥ 1 (max(v/t, t/v)); only for the ratio
            scales (a) and (b), and None where value or threshold is not positive.
    """

    letter: str
    unit: str
    value: float | None
    threshold: float
    fires: bool | None
    room: float | None = None
    factor: float | None = None


class RunMargins(Result, frozen=True, kw_only=True):
    """All four margins of one run.

    Attributes:
        margins: in the order a, b, c, d.
        to_flip: letters whose flag would have to change for the verdict to flip: for a walk-back all that
            fire, for a trustworthy run any one of those measured.
        flips_with: ``"all"`` or ``"any"`` of these; ``"nothing"`` for an unmeasured run, or one with a
            non-finite number, which no change of threshold rescues.
    """

    margins: tuple[Margin, ...]
    to_flip: str
    flips_with: str


def margins_to_flip(table: AuditTable, index: int, thresholds: DiagnosticThresholds | None = None) -> RunMargins:
    """Margins of one run.

    Args:
        table: n runs.
        index: which one.
        thresholds: default: the protocol's.

    Source: docs/protocol.md §8; room = (t − v) for a diagnostic that fires above t,
    (v − t) for one that fires below.
    """
    thresholds = thresholds or DiagnosticThresholds()
    row = table.select(np.array([index]))
    margins = tuple(_margin(row, letter, thresholds) for letter in LETTERS)
    fired = "".join(m.letter for m in margins if m.fires)
    passed = "".join(m.letter for m in margins if m.fires is False)
    if int(row.nonfinite[0]) or not (fired or passed):
        return RunMargins(margins=margins, to_flip=fired, flips_with="nothing")
    return RunMargins(margins=margins, to_flip=fired or passed, flips_with="all" if fired else "any")


def rooms(table: AuditTable, letter: str, thresholds: DiagnosticThresholds | None = None) -> Floats:
    """`Margin.room` of every run as a column (n,); NaN where not measured or non-finite."""
    diagnostic = DIAGNOSTICS[letter]
    values, finite, _ = table.judged(letter)
    limit = diagnostic.limit(thresholds or DiagnosticThresholds())
    room = limit - values if diagnostic.fires_above else values - limit
    return np.where(finite, room, np.nan)


def _margin(row: AuditTable, letter: str, thresholds: DiagnosticThresholds) -> Margin:
    diagnostic = DIAGNOSTICS[letter]
    limit = diagnostic.limit(thresholds)
    values, finite, always = row.judged(letter)
    value = float(values[0])
    if always[0]:
        return Margin(letter=letter, unit=diagnostic.unit, value=value, threshold=limit, fires=True)
    if not finite[0]:
        fires = bool(diagnostic.beyond(values, limit)[0]) if math.isinf(value) else None
        shown = value if math.isinf(value) else None
        return Margin(letter=letter, unit=diagnostic.unit, value=shown, threshold=limit, fires=fires)
    return Margin(
        letter=letter,
        unit=diagnostic.unit,
        value=value,
        threshold=limit,
        fires=bool(diagnostic.beyond(values, limit)[0]),
        room=limit - value if diagnostic.fires_above else value - limit,
        factor=max(value / limit, limit / value) if diagnostic.log and value > 0 and limit > 0 else None,
    )


class Coverage(Result, frozen=True, kw_only=True):
    """What was measured over a whole table.

    Attributes:
        runs: rows.
        measured: letter → rows it was measured on.
        patterns: coverage such as ``"abc"`` → rows; ``""`` = nothing.
        nonfinite: letter → rows with NaN or ±inf in it.
        missing: method → letters missing on all of its runs.
    """

    runs: int
    measured: dict[str, int]
    patterns: dict[str, int]
    nonfinite: dict[str, int]
    missing: dict[str, str]


def coverage(table: AuditTable) -> Coverage:
    """Counts of what was measured.

    Source: docs/protocol.md §3: every verdict carries its coverage.
    """
    bits = table.coverage
    marks = table.nonfinite
    methods = table.method
    seen = {
        str(method): int(np.bitwise_or.reduce(bits[methods == method])) for method in dict.fromkeys(methods.tolist())
    }
    return Coverage(
        runs=len(bits),
        measured={x: int(((bits & bit) != 0).sum()) for x, bit in BIT.items()},
        patterns={letters_of(int(pattern)): count for pattern, count in Counter(bits.tolist()).items()},
        nonfinite={x: int(((marks & bit) != 0).sum()) for x, bit in BIT.items()},
        missing={method: letters_of(0b1111 & ~union) for method, union in seen.items() if union != 0b1111},
    )
