"""The four diagnostics as columns: which number, which threshold, which side fires."""

from __future__ import annotations

import msgspec
import numpy as np

from fa_core.columns import Floats, Mask
from fa_core.report import DiagnosticThresholds
from fa_core.table import BIT, AuditTable


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
            name="growth per block",
            column="growth",
            threshold="h_norm_explosion_ratio",
            fires_above=True,
            unit="x",
            log=True,
        ),
        Diagnostic(
            letter="b",
            name="deepest ‖g_L‖",
            column="g_L",
            threshold="g_norm_floor",
            fires_above=False,
            unit="norm",
            log=True,
        ),
        Diagnostic(
            letter="c",
            name="drift cosine",
            column="stability",
            threshold="stability_drift_ceiling",
            fires_above=True,
            unit="cosine",
            log=False,
        ),
        Diagnostic(
            letter="d",
            name="margin over frozen",
            column="margin_pp",
            threshold="frozen_acc_margin_pp",
            fires_above=False,
            unit="pp",
            log=False,
        ),
    )
}
"""The diagnostics by letter."""


def judged(table: AuditTable, letter: str) -> tuple[Floats, Mask, Mask]:
    """A diagnostic's numbers and who can be judged by them.

    Returns:
        values (n,); finite: measured, and a threshold decides; always: measured as NaN or ±inf in some
        layer, which fires at every threshold.
    """
    diagnostic = DIAGNOSTICS[letter]
    values: Floats = getattr(table, diagnostic.column)
    measured = (table.coverage & BIT[letter]) != 0
    always = (table.nonfinite & BIT[letter]) != 0
    return values, measured & ~always & np.isfinite(values), always
