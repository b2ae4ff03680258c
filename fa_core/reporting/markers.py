"""Runs as markers in the panels of a figure, and the numbers of the panels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fa_core.analysis.method_groups import Condition, conditions
from fa_core.analysis.seeds import stat_of
from fa_core.formats.table import Floats, Indices, Mask
from fa_core.report.diagnostics import BIT
from fa_core.report.method_style import MethodStyle
from fa_core.report.quantities import BY_NAME, Quantity, named
from fa_core.report.thresholds import DiagnosticThresholds
from fa_core.reporting import panels
from fa_core.reporting.panels import Look, Signs, plot, prepare, variants

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fa_core.formats.table import AuditTable


ACCURACY = BY_NAME["acc"]

COURSES = named("acc", "growth", "g_L")
"""Panels of figures over an axis, conditions or epochs."""


class Markers(NamedTuple):
    """Runs as markers.

    Attributes:
        table: the runs.
        thresholds: of their verdicts.
        names: of the drawn runs, by index.
        styles: by name.
        xs: horizontal position of every run of the table.
        rows: indices of the drawn runs.
    """

    table: AuditTable
    thresholds: DiagnosticThresholds
    names: Mapping[int, str]
    styles: Mapping[str, MethodStyle]
    xs: Floats
    rows: Indices

    def draw(self, panel: Axes, what: Quantity, also: Sequence[float] = ()) -> None:
        """Draw a marker per run: filled if its diagnostic fires, a star if undecided.

        It is grey if the diagnostic was not measured. Accuracies have marks at the frozen baseline
        and at the accuracy that passes (d).

        Args:
            panel: where to draw.
            what: the number.
            also: further values on the axis.
        """
        table, rows, bit = self.table, self.rows, BIT[what.marks]
        values = column_of(table, what)
        marks = {}
        if what is ACCURACY:
            margin = self.thresholds.frozen_acc_margin_pp / 100
            marks = {panels.MUTED: table.baseline, panels.LIMIT: table.baseline + margin}
        shown = [*values[rows], *also]
        for mark in marks.values():
            shown += [*mark[rows]]
        prepare(panel, shown, what, self.thresholds, table.kinds)
        look: Look = {"linestyle": "none", "marker": "_", "markersize": 5, "zorder": 1.5}
        for colour, mark in marks.items():
            known = rows[np.isfinite(mark[rows])]
            panel.plot(self.xs[known], mark[known], **{**look, "color": colour})
        finite = rows[np.isfinite(values[rows])]
        for name, style in self.styles.items():
            mine = finite[[self.names[i] == name for i in finite.tolist()]]
            for look, are in self._looks(style, bit):
                some = mine[are[mine]]
                plot(panel, self.xs[some], values[some], style, linestyle="none", **look)
        broken = (table.nonfinite[rows] & bit) != 0
        for x in self.xs[rows[broken & ~np.isfinite(values[rows])]].tolist():
            word = panel.text(x, 0.02, "NaN/inf", transform=panel.get_xaxis_transform())
            word.set(color=panels.LIMIT, fontsize=6, rotation=90, ha="center", va="bottom")

    def _looks(self, style: MethodStyle, bit: int) -> Iterator[tuple[Look, Mask]]:
        """Faces of a method's markers, each with the runs that have it."""
        table = self.table
        fires = (table.flags(self.thresholds) & bit) != 0
        measured = (table.coverage & bit) != 0
        undecided = (table.undecided(self.thresholds) & bit) != 0
        yield {"markerfacecolor": panels.UNMEASURED}, ~measured
        yield {"markerfacecolor": "white"}, measured & ~fires & ~undecided
        yield {"markerfacecolor": style.colour}, fires
        yield panels.STAR, undecided


def faces(table: AuditTable, thresholds: DiagnosticThresholds | None) -> Signs:
    """Legend of the faces of markers; stars and grey accuracies only if they occur."""
    signs: Signs = dict(panels.FILLED)
    if table.undecided(thresholds).any():
        signs |= panels.UNDECIDED
    without_baseline = (table.coverage & BIT["d"]) == 0
    if (np.isfinite(table.acc) & without_baseline).any():
        signs |= panels.UNJUDGED
    return signs


def variants_of(
    table: AuditTable, rows: Sequence[int]
) -> tuple[dict[int, str], dict[str, MethodStyle]]:
    """Names and styles of some runs: one for the seeds of one method (`conditions`)."""
    found: dict[int, Condition] = {}
    for one, members in conditions(table.select(rows)):
        found |= dict.fromkeys((rows[i] for i in members), one)
    ordered = {i: found[i] for i in rows}
    names, styles = variants((one.method, one.all_axes) for one in ordered.values())
    return dict(zip(ordered, names, strict=True)), styles


def side_by_side(names: Mapping[int, str], places: Sequence[str], rows: Indices) -> Floats:
    """Position of every run: the place of its name, runs of one name spread by ±0.28."""
    xs = np.zeros(int(rows.max(initial=0)) + 1)
    for position, name in enumerate(places):
        mine = [i for i in rows.tolist() if names[i] == name]
        xs[mine] = position
        if len(mine) > 1:
            xs[mine] += np.linspace(-0.28, 0.28, len(mine))
    return xs


def mean_of(values: Floats, log: bool = False) -> float:
    """The mean of the finite values, on a log axis the geometric one; NaN without one, or if one is
    not positive there."""
    stat = stat_of(values, log)
    mean = stat.geometric_mean if log else stat.mean
    return math.nan if mean is None else mean


def column_of(table: AuditTable, what: Quantity) -> Floats:
    """A number of every run."""
    values: Floats = getattr(table, what.column)
    return values
