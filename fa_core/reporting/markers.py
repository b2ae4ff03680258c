"""Runs as markers in the panels of a figure, and the numbers of the panels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fa_core.facts.method_style import MethodStyle
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import BIT, BOUND, PROXY
from fa_core.reporting import panels
from fa_core.reporting.panels import (
    Look,
    Panel,
    Signs,
    plot,
    prepare,
    variants,
)
from fa_core.table import Floats, Indices, Mask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fa_core.table import AuditTable


POINTS_AT_MOST = 200
"""More runs of one method are drawn as this many order statistics, with both extremes."""

NAMED_AT_MOST = 45
"""Up to this many runs side by side have names and notes of missing numbers."""

GROWTH = Panel(attrgetter("growth"), "(a) growth per block", "ratio", "a")

GRADIENT = Panel(attrgetter("g_L"), "(b) deepest BP gradient norm", "median ‖g_L‖", "b")

DRIFT = Panel(
    attrgetter("stability"), "(c) drift between batches", "mean pairwise cosine", "c", log=False
)

ACCURACY = Panel(
    attrgetter("acc"), "(d) accuracy over frozen blocks", "fraction", "d", limit=False, log=False
)

MARGIN = Panel(
    attrgetter("margin_pp"), "(d) margin over frozen blocks", "percentage points", "d", log=False
)

JUDGED = (GROWTH, GRADIENT, DRIFT, MARGIN)

STREAM = Panel(
    attrgetter("h_L"), "residual norm at the last layer", "median ‖h_L‖", "a", limit=False
)

COURSES = (ACCURACY._replace(title="(d) accuracy"), GROWTH, GRADIENT)
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

    def draw(
        self,
        panel: Axes,
        what: Panel,
        also: Sequence[float] | Floats = (),
        baselines: bool = True,
        absent: bool = False,
    ) -> None:
        """Draw a marker per run: filled if its diagnostic fires, half filled if undecided.

        It is grey if the diagnostic was not measured. Missing numbers are noted.

        Args:
            panel: where to draw.
            what: the panel's number.
            also: further values on the axis.
            baselines: whether (d) has marks at frozen baselines and at accuracies that pass.
            absent: whether nothing is noted where a number was not measured.
        """
        table, rows, bit = self.table, self.rows, BIT[what.letter]
        values = column_of(table, what)
        marks = {}
        if what.letter == "d" and baselines:
            margin = self.thresholds.frozen_acc_margin_pp / 100
            marks = {panels.MUTED: table.baseline, panels.LIMIT: table.baseline + margin}
        shown = [*values[rows], *also]
        for mark in marks.values():
            shown += [*mark[rows]]
        named = as_known(what, table.kinds)
        prepare(panel, shown, named, self.thresholds, f"({what.letter}) not measured on any run")
        for colour, mark in marks.items():
            known = rows[np.isfinite(mark[rows])]
            panel.plot(
                self.xs[known],
                mark[known],
                color=colour,
                linestyle="none",
                marker="_",
                markersize=5,
                zorder=1.5,
            )
        finite = rows[np.isfinite(values[rows])]
        for name, style in self.styles.items():
            is_mine = [self.names[i] == name for i in finite.tolist()]
            mine = at_most(values, finite[is_mine])
            for look, are in self._looks(style, bit):
                some = mine[are[mine]]
                plot(panel, self.xs[some], values[some], style, linestyle="none", **look)
        if len(finite) and len(rows) <= NAMED_AT_MOST:
            for i in rows[~np.isfinite(values[rows])].tolist():
                if not absent or table.nonfinite[i] & bit:
                    self._note_missing(panel, i, bit)

    def _looks(self, style: MethodStyle, bit: int) -> Iterator[tuple[Look, Mask]]:
        """Faces of a method's markers, each with the runs that have it."""
        table = self.table
        fires = (table.flags(self.thresholds) & bit) != 0
        measured = (table.coverage & bit) != 0
        undecided = (table.undecided(self.thresholds) & bit) != 0
        yield {"markerfacecolor": panels.UNMEASURED}, ~measured & ~undecided
        yield {"markerfacecolor": "white"}, measured & ~fires & ~undecided
        yield {"markerfacecolor": style.colour}, fires & ~undecided
        yield panels.HALF, undecided

    def _note_missing(self, panel: Axes, run: int, bit: int) -> None:
        """Note a missing number: N/A, or NaN/inf if it was measured."""
        note = "N/A"
        colour = panels.MUTED
        if self.table.nonfinite[run] & bit:
            note = "NaN/inf"
            colour = panels.LIMIT
        word = panel.text(self.xs[run], 0.02, note, transform=panel.get_xaxis_transform())
        word.set(color=colour, fontsize=6, rotation=90, ha="center", va="bottom")


def as_known(what: Panel, kinds: Mapping[str, str]) -> Panel:
    """A panel whose title, or else unit, mentions bounds and proxies among a judged number."""
    kind = kinds.get(what.letter)
    if not what.limit or kind not in (BOUND, PROXY):
        return what
    title = what.title.replace("deepest ", "")
    unit = what.unit.replace("‖g_L‖", "‖g‖")
    if title:
        title += f", or its {kind}"
    elif unit:
        unit += f", or its {kind}"
    return what._replace(title=title, unit=unit)


def faces(table: AuditTable, thresholds: DiagnosticThresholds | None) -> Signs:
    """Legend of the faces of markers; half filled and grey ones only if they can occur."""
    signs: Signs = dict(panels.FILLED)
    if table.undecided(thresholds).any():
        signs |= panels.UNDECIDED
    numbers = {"a": table.h_L, "b": table.g_L, "c": table.stability, "d": table.acc}
    for letter, values in numbers.items():
        unmeasured = (table.coverage & BIT[letter]) == 0
        # e.g. an accuracy without a baseline
        if (np.isfinite(values) & unmeasured).any():
            return signs | panels.UNJUDGED
    return signs


def variants_of(
    table: AuditTable, rows: Iterable[int], without: str = ""
) -> tuple[dict[int, str], dict[str, MethodStyle]]:
    """Names and styles of some runs, from `variants`; one axis may be ignored."""
    runs = {}
    for i in rows:
        axes = dict(table.axes[i])
        axes.pop(without, None)
        runs[i] = (str(table.method[i]), axes)
    names, styles = variants(runs.values())
    return dict(zip(runs, names, strict=True)), styles


def side_by_side(names: Mapping[int, str], places: Sequence[str], rows: Indices) -> Floats:
    """Position of every run: the place of its name, runs of one name spread by ±0.28."""
    xs = np.zeros(int(rows.max(initial=0)) + 1)
    for position, name in enumerate(places):
        mine = [i for i in rows.tolist() if names[i] == name]
        xs[mine] = position
        if len(mine) > 1:
            xs[mine] += np.linspace(-0.28, 0.28, len(mine))
    return xs


def mean_of(values: Floats) -> float:
    known = values[np.isfinite(values)]
    if len(known):
        return float(known.mean())
    return math.nan


def assumed_text(table: AuditTable) -> str:
    """``, baseline assumed``, if some are."""
    runs = int(table.assumed.sum())
    judged_by_it = int(table.measured("margin_pp").sum())
    if not runs:
        return ""
    if runs == judged_by_it:
        return ", baseline assumed"
    return f", baseline assumed on {runs} of {judged_by_it} runs"


def at_most(values: Floats, rows: Indices) -> Indices:
    """All rows, or `POINTS_AT_MOST` evenly spaced order statistics of them."""
    if len(rows) <= POINTS_AT_MOST:
        return rows
    kept = np.linspace(0, len(rows) - 1, POINTS_AT_MOST).round().astype(int)
    ranked: Indices = rows[np.argsort(values[rows], kind="stable")][kept]
    return ranked


def column_of(table: AuditTable, what: Panel) -> Floats:
    """A panel's number of every run."""
    return np.asarray(what.of(table), dtype=np.float64)
