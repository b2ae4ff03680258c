"""The four diagnostics as columns: which number, which threshold, which side fires."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from fa_core.report import LETTERS, DiagnosticThresholds

if TYPE_CHECKING:
    from fa_core.table import AuditTable

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """One diagnostic as data.

    Attributes:
        letter: ``"a"`` to ``"d"``.
        name: what it looks at, in words.
        column: the `AuditTable` column its number stands in.
        threshold: the field of `DiagnosticThresholds` it is compared with.
        fires_above: True if it fires for value > threshold, False for value < threshold.
        unit: of number and threshold.
        log: whether differences are ratios (a, b) or distances (c, d).
    """

    letter: str
    name: str
    column: str
    threshold: str
    fires_above: bool
    unit: str
    log: bool

    def limit(self, thresholds: DiagnosticThresholds) -> float:
        """Its threshold in a threshold set."""
        value: float = getattr(thresholds, self.threshold)
        return value

    def moved(self, thresholds: DiagnosticThresholds, limit: float) -> DiagnosticThresholds:
        """The threshold set with this one threshold moved."""
        return msgspec.structs.replace(thresholds, **{self.threshold: limit})

    def fires(self, values: Floats, limit: float) -> Mask:
        """Elementwise verdict of finite values; strict, so a value equal to the limit does not fire."""
        return values > limit if self.fires_above else values < limit


DIAGNOSTICS: dict[str, Diagnostic] = {
    d.letter: d
    for d in (
        Diagnostic(
            letter="a",
            name="residual stream growth per block",
            column="growth",
            threshold="h_norm_explosion_ratio",
            fires_above=True,
            unit="x",
            log=True,
        ),
        Diagnostic(
            letter="b",
            name="deepest BP gradient norm",
            column="g_L",
            threshold="g_norm_floor",
            fires_above=False,
            unit="norm",
            log=True,
        ),
        Diagnostic(
            letter="c",
            name="cross-batch drift cosine",
            column="stability",
            threshold="stability_drift_ceiling",
            fires_above=True,
            unit="cosine",
            log=False,
        ),
        Diagnostic(
            letter="d",
            name="margin over the frozen baseline",
            column="margin_pp",
            threshold="frozen_acc_margin_pp",
            fires_above=False,
            unit="pp",
            log=False,
        ),
    )
}
"""The diagnostics by letter."""

BITS: dict[str, int] = {letter: 1 << position for position, letter in enumerate(LETTERS)}
"""Letter → its bit in the table's ``coverage``, ``nonfinite`` and ``flags``."""


def letters_of(bits: int) -> str:
    """The letters of a bitmask.

    >>> letters_of(0b0101)
    'ac'
    """
    return "".join(letter for letter, bit in BITS.items() if bits & bit)


def judged(table: AuditTable, letter: str) -> tuple[Floats, Mask, Mask]:
    """A diagnostic's numbers and who can be judged by them.

    Returns:
        values (n,); finite: measured, and a threshold decides; always: measured as NaN or ±inf in some
        layer, which fires at every threshold.
    """
    diagnostic = DIAGNOSTICS[letter]
    values = np.asarray(getattr(table, diagnostic.column), dtype=np.float64)
    bit = BITS[letter]
    measured = (np.asarray(table.coverage) & bit) != 0
    always = (np.asarray(table.nonfinite) & bit) != 0
    return values, measured & ~always & np.isfinite(values), always
