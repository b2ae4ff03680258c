"""Bars of ‖h_l‖ and ‖g_l‖ over the layers, in a line of text. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise

from fa_core.formats.rows import AuditRow
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_tui.views.glyphs import UNICODE, Glyphs
from fa_tui.views.scale import Scale, covering

MOST_BARS = 9
"""Bars of one norm in a cell."""


Scales = tuple[Scale | None, Scale | None]
"""Logarithmic scales of ‖h‖ and ‖g‖; None where nothing was measured."""


def norm_scales(rows: Iterable[AuditRow]) -> Scales:
    """One scale of ‖h‖ and one of ‖g‖ for all layers of some runs."""
    reports = [row.report for row in rows]
    h = chain.from_iterable(report.residual_norms for report in reports)
    g = chain.from_iterable(report.bp_grad_norms for report in reports)
    return covering(h, log=True), covering(g, log=True)


def norm_bars(report: DiagnosticReport, scales: Scales, glyphs: Glyphs, cells: int) -> list[str]:
    """A run's ‖h‖ and ‖g‖, each in exactly so many cells; ``·`` if not measured."""
    texts = []
    norms = (report.stream("residual_norms"), report.stream("bp_grad_norms"))
    for values, scale in zip(norms, scales, strict=True):
        text = glyphs.unmeasured
        if values and scale is not None:
            text = sparkline(values, scale, glyphs, cells)
        texts.append(text.ljust(cells))
    return texts


def sparkline(
    values: Sequence[float], scale: Scale, glyphs: Glyphs = UNICODE, width: int = 0
) -> str:
    """One bar per value; in fewer cells, one per group of values, for its largest.

    Non-finite values, which rank highest, and zeros on a log scale have their own characters.

    Args:
        values: in order.
        scale: values beyond it have the lowest or the highest bar.
        glyphs: characters to draw with.
        width: maximum number of cells; 0: one per value.

    >>> sparkline([1.0, 10.0, 1000.0, float("nan"), 0.0], Scale(1.0, 1000.0, log=True))
    '▁▃█∞0'
    """
    if width and len(values) > width:
        bounds = [len(values) * cell // width for cell in range(width + 1)]
        largest = []
        for start, end in pairwise(bounds):
            # what is not finite ranks highest
            largest.append(max(values[start:end], key=lambda one: (not math.isfinite(one), one)))
        values = largest
    return "".join([_bar(value, scale, glyphs) for value in values])


def _bar(value: float, scale: Scale, glyphs: Glyphs) -> str:
    if not math.isfinite(value):
        return glyphs.nonfinite
    if scale.log and value == 0:
        return "0"
    return glyphs.bar(scale.fraction(value))
