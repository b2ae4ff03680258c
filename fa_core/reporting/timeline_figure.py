"""The timeline figure: growth, ‖g_L‖ and accuracy over epochs, thresholds dashed, first fires marked."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fa_core.analysis.timeline import Timeline
from fa_core.report import DiagnosticThresholds
from fa_core.reporting import svg
from fa_core.reporting.figures import Look, styles
from fa_core.reporting.numbers import brief
from fa_core.reporting.scale import Scale, fitted

_COLUMNS = (
    ("growth", "a", "(a) growth per block", "ratio", True),
    ("g_L", "b", "(b) deepest BP gradient norm", "median ‖g_L‖", True),
    ("acc", "", "test accuracy", "fraction", False),
)
_WIDTH, _HEIGHT, _LEFT, _TOP = 284.0, 205.0, 66.0, 34.0


def timeline_figure(
    timelines: Sequence[Timeline], thresholds: DiagnosticThresholds | None = None, look: Look | None = None
) -> str:
    """Curves over epochs, one per run; a dotted upright where a run's diagnostic first fires.

    ``look``: colours and markers that other figures share (see `styles`).
    """
    thresholds = thresholds or DiagnosticThresholds()
    limits = {"growth": thresholds.h_norm_explosion_ratio, "g_L": thresholds.g_norm_floor}
    look = styles((one.method for one in timelines), look)
    epochs = [point.epoch for one in timelines for point in one.points]
    shapes: list[str] = []
    for number, (name, letter, title, unit, log) in enumerate(_COLUMNS):
        left = _LEFT + number * (_WIDTH + 84)
        values = [_number(getattr(point, name)) for one in timelines for point in one.points]
        known = [value for value in values if math.isfinite(value)]
        limit = limits.get(name)
        panel = svg.Panel(
            left,
            _TOP,
            _WIDTH,
            _HEIGHT,
            Scale(min(epochs, default=0) - 0.5, max(epochs, default=1) + 0.5, left, left + _WIDTH),
            fitted([*known, *([limit] if limit is not None and known else [])], _TOP + _HEIGHT, _TOP, log),
            title,
            "epoch",
            unit,
        )
        for one in timelines:
            colour, kind = look[one.method]
            panel.curve([p.epoch for p in one.points], [_number(getattr(p, name)) for p in one.points], colour)
            if one.points:
                panel.point(one.points[-1].epoch, _number(getattr(one.points[-1], name)), colour, kind, size=3)
            fire = one.first_fire.get(letter)
            if fire is not None:
                panel.upright(fire, colour)
        if limit is not None and known:
            panel.limit(limit, f"{'limit' if name == 'growth' else 'floor'} {brief(limit)}", name == "growth")
        if not known:
            panel.note("not in these traces")
        shapes += panel.shapes()
    width = _LEFT + 3 * (_WIDTH + 84)
    bottom = _TOP + _HEIGHT + 54
    key, height = svg.legend(_LEFT, bottom, [(m, *style) for m, style in look.items()], width - 2 * _LEFT)
    return svg.document(width, bottom + height, [*shapes, *key], "Diagnostics over epochs")


def _number(value: float | None) -> float:
    return math.nan if value is None else value
