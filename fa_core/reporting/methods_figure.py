"""The figure of many runs: methods on x, seeds as markers, the 95 % interval of their mean."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fa_core.analysis.student import student_quantile
from fa_core.facts.published_names import published_name
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import BIT, LETTERS
from fa_core.reporting import panels
from fa_core.reporting.panels import (
    Look,
    Panel,
    fixed_style,
    laid_out,
    page,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fa_core.table import AuditTable
from fa_core.reporting.markers import (
    GROWTH,
    JUDGED,
    Markers,
    assumed_text,
    column_of,
    faces,
    side_by_side,
    variants_of,
)

_LETTERS = 48
"""Letters below a panel; methods, where their names stand upright."""

_BAR: Look = {"linestyle": "-", "linewidth": 3, "alpha": 0.35, "zorder": 1.5}


@fixed_style()
def methods_figure(
    table: AuditTable, thresholds: DiagnosticThresholds | None = None, letters: str = LETTERS
) -> Figure:
    """The four numbers of every method: a marker per seed, a bar for the 95 % interval of the mean.

    Limits are dashed, their firing sides shaded. Controls are left out; what was not measured is
    absent. Means and intervals of growth and ‖g_L‖ are of their logarithms.

    Args:
        table: n runs.
        thresholds: default: the protocol's.
        letters: the diagnostics that are drawn.

    Source: Student's t over seeds.
    """
    thresholds = thresholds or DiagnosticThresholds()
    if not table.controls.all():
        table = table.select(~table.controls)
    rows = np.arange(len(table))
    names, styles = variants_of(table, rows)
    drawn = [what for what in JUDGED if _is_drawn(what, table, letters)] or [GROWTH]
    signs = faces(table, thresholds)
    signs.pop("grey: not measured", None)
    signs["bar: 95 % interval of the mean over seeds"] = _BAR
    columns = min(len(drawn), 2)
    rows_of_panels = math.ceil(len(drawn) / columns)
    printed = _printed(table, names)
    # names that do not fit below the panels are in the legend
    fits = len(styles) <= _LETTERS * 0.8
    named = {} if fits else {printed[name]: styles[name] for name in styles}
    figure, axes = page("Diagnostics of methods", named, rows_of_panels, columns, signs)
    markers = Markers(table, thresholds, names, styles, side_by_side(names, [*styles], rows), rows)
    columns = axes[0].get_subplotspec().get_gridspec().ncols  # type: ignore[union-attr]
    for place, panel in enumerate(axes):
        panel.set_visible(place < len(drawn))
        is_lowest = place + columns >= len(drawn)
        panels.name_places(panel, [printed[name] for name in styles] if is_lowest else [], _LETTERS)
        panel.set_xlim(-0.6, max(len(styles), 1) - 0.4)
    for panel, what in zip(axes, drawn, strict=False):
        bars = [_interval(table, what, _rows_of(names, name)) for name in styles]
        markers.draw(panel, what, list(itertools.chain(*bars)), baselines=False, absent=True)
        for place, (name, ends) in enumerate(zip(styles, bars, strict=True)):
            panel.plot([place] * len(ends), ends, **{**_BAR, "color": styles[name].colour})
    last = axes[len(drawn) - 1]
    last.set_xlabel((last.get_xlabel() + assumed_text(table)).removeprefix(", "))
    return laid_out(figure)


_RANGES = {"c": (-1.0, 1.0), "d": (-100.0, 100.0)}
"""Letter → the values that its number can have: cosines, percentage points."""


def _is_drawn(what: Panel, table: AuditTable, letters: str) -> bool:
    measured = (table.coverage & BIT[what.letter]) != 0
    return what.letter in letters and bool(measured.any())


def _printed(table: AuditTable, names: Mapping[int, str]) -> dict[str, str]:
    """Name of a variant → the same with the method's name in print."""
    printed = {}
    for i, name in names.items():
        method = str(table.method[i])
        printed[name] = published_name(method) + name.removeprefix(method)
    return printed


def _rows_of(names: Mapping[int, str], name: str) -> list[int]:
    return [i for i, own in names.items() if own == name]


def _interval(table: AuditTable, what: Panel, rows: Sequence[int]) -> tuple[float, ...]:
    """The 95 % interval of a mean over runs by Student's t; of logarithms on a log scale.

    Empty for fewer than two runs, and where a number is not finite, or not positive on a log scale.
    """
    values = column_of(table, what)[rows]
    known = values[np.isfinite(values)]
    is_broken = bool((table.nonfinite[rows] & BIT[what.letter]).any())
    if is_broken or len(known) < 2 or (what.log and known.min() <= 0):
        return ()
    if what.log:
        known = np.log10(known)
    mean = float(known.mean())
    error = float(known.std(ddof=1)) / math.sqrt(len(known))
    reach = student_quantile(0.975, len(known) - 1) * error
    if not what.log:
        least, most = _RANGES[what.letter]
        return max(mean - reach, least), min(mean + reach, most)
    return 10.0 ** max(mean - reach, -300.0), 10.0 ** min(mean + reach, 300.0)


def default_figure(table: AuditTable) -> str:
    """``methods`` for runs of which some are seeds of the same method, else ``audit``."""
    names, styles = variants_of(table, range(len(table)))
    return "methods" if len(styles) < len(names) else "audit"
