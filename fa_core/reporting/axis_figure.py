"""The figure along a second axis: accuracy, growth and ‖g_L‖ against the penalty λ, width, depth, …"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fa_core.analysis.groups import Family, families
from fa_core.columns import Floats
from fa_core.report import DiagnosticThresholds
from fa_core.reporting import svg
from fa_core.reporting.figures import Look, styles
from fa_core.reporting.numbers import brief
from fa_core.reporting.scale import Scale, fitted

if TYPE_CHECKING:
    from fa_core.table import AuditTable

AXIS_NAMES = {"lam": "penalty λ", "d": "width d", "L": "depth L", "arch": "architecture"}
"""What a second axis is called under a figure."""

_COLUMNS = (
    ("acc", "accuracy", "fraction", False),
    ("growth", "(a) growth per block", "ratio", True),
    ("g_L", "(b) deepest BP gradient norm", "median ‖g_L‖", True),
)
_WIDTH, _HEIGHT, _LEFT, _TOP = 283.8, 205.0, 66.0, 34.0


def axis_figure(
    table: AuditTable, axis: str, thresholds: DiagnosticThresholds | None = None, look: Look | None = None
) -> str:
    """Accuracy, growth and ‖g_L‖ against a second axis (the penalty λ, width, depth).

    One line per family: runs that differ along this axis and in nothing else (see `families`); it joins the
    means over their seeds. Families with a single point are left out. Runs without the axis stand at the left
    (no penalty, for λ). ``look``: colours and markers that other figures share.
    """
    thresholds = thresholds or DiagnosticThresholds()
    drawn = families(table, axis)
    look = styles(map(str, table.method), look)
    kinds = _kinds(drawn, look)
    places = _places(table, axis, drawn)
    rows = [i for family in drawn for i in family.rows]
    limits = {"growth": thresholds.h_norm_explosion_ratio, "g_L": thresholds.g_norm_floor}
    shapes: list[str] = []
    for number, (column, title, unit, log) in enumerate(_COLUMNS):
        values: Floats = np.asarray(getattr(table, column), dtype=np.float64)
        left = _LEFT + number * (_WIDTH + 84)
        limit = limits.get(column)
        panel = svg.Panel(
            left,
            _TOP,
            _WIDTH,
            _HEIGHT,
            Scale(-0.4, max(len(places), 1) - 0.6, left, left + _WIDTH),
            fitted([*values[rows].tolist(), *([] if limit is None else [limit])], _TOP + _HEIGHT, _TOP, log=log),
            title,
            AXIS_NAMES.get(axis, axis),
            unit,
        )
        panel.x_ticks([(float(i), _tick(value, axis)) for i, value in enumerate(places)])
        for family, kind in zip(drawn, kinds, strict=True):
            _curve(panel, table, values, family, axis, places, look[family.method][0], kind)
        if limit is not None:
            panel.limit(limit, f"{'limit' if column == 'growth' else 'floor'} {brief(limit)}", column == "growth")
        if not drawn:
            panel.note(f"no two runs differ in {axis} alone")
        elif not np.isfinite(values[rows]).any():
            panel.note("not measured on any run")
        shapes += panel.shapes()
    width = _LEFT + 3 * (_WIDTH + 84)
    bottom = _TOP + _HEIGHT + 49
    names = [(_name(one, drawn), look[one.method][0], kind) for one, kind in zip(drawn, kinds, strict=True)]
    key, height = svg.legend(_LEFT, bottom, names, width - 2 * _LEFT)
    return svg.document(width, bottom + height, [*shapes, *key], f"Audit against {axis}")


def _kinds(drawn: Sequence[Family], look: Look) -> list[str]:
    """A marker per family: the method's for its first one, then the next ones."""
    kinds, seen = [], dict.fromkeys(look, 0)
    for family in drawn:
        first = svg.MARKERS.index(look[family.method][1])
        kinds.append(svg.MARKERS[(first + seen[family.method]) % len(svg.MARKERS)])
        seen[family.method] += 1
    return kinds


def _name(family: Family, drawn: Sequence[Family]) -> str:
    """The method, and the axes in which its families differ."""
    rivals = [one.axes for one in drawn if one.method == family.method]
    told = sorted(name for name in {n for axes in rivals for n in axes} if len({repr(a.get(name)) for a in rivals}) > 1)
    words = ", ".join(f"{name} {family.axes.get(name, 'unset')}" for name in told)
    return f"{family.method} ({words})" if words else family.method


def _tick(value: object, axis: str) -> str:
    # a run without λ has no penalty; one without another axis has whatever its default is
    return ("none" if axis == "lam" else "unset") if value is None else str(value)


def _places(table: AuditTable, axis: str, drawn: Sequence[Family]) -> list[object]:
    found = {table.axes[i].get(axis) for family in drawn for i in family.rows}
    numbers = sorted(v for v in found if isinstance(v, (int, float)))
    words = sorted(str(v) for v in found if v is not None and not isinstance(v, (int, float)))
    return [*([None] if None in found else []), *numbers, *words]


def _curve(
    panel: svg.Panel,
    table: AuditTable,
    values: Floats,
    family: Family,
    axis: str,
    places: Sequence[object],
    colour: str,
    kind: str,
) -> None:
    xs, means = [], []
    for position, place in enumerate(places):
        mine = [float(values[i]) for i in family.rows if table.axes[i].get(axis) == place and math.isfinite(values[i])]
        for value in mine:
            panel.point(position, value, colour, kind, hollow=True, size=2.4)
        if mine:
            xs.append(float(position))
            means.append(sum(mine) / len(mine))
    panel.curve(xs, means, colour, kind)
