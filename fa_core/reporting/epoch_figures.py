"""Figures over epochs, drawn from traces."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from fa_core.formats.table import Floats
from fa_core.formats.trace import common_unit
from fa_core.report.method_style import MethodStyle
from fa_core.report.quantities import named
from fa_core.report.thresholds import DiagnosticThresholds
from fa_core.reporting import panels
from fa_core.reporting.panels import (
    Signs,
    finish,
    fixed_style,
    laid_out,
    page,
    plot,
    prepare,
    variants,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fa_core.analysis.timeline import Timeline


@fixed_style()
def timeline_figure(
    timelines: Sequence[Timeline], thresholds: DiagnosticThresholds | None = None
) -> Figure:
    """Accuracy, ‖h_L‖, growth and ‖g_L‖ over epochs, a curve per run; dotted: first fires."""
    thresholds = thresholds or DiagnosticThresholds()
    names, styles = variants((one.method, one.axes) for one in timelines)
    kinds: dict[str, str] = {}
    for one in timelines:
        kinds |= one.evidence
    signs: Signs = {"first fires": {"linestyle": ":"}}
    figure, axes = page(f"Diagnostics over {_unit(timelines)}s", styles, 2, 2, signs)
    for panel, what in zip(axes, named("acc", "h_L", "growth", "g_L"), strict=True):
        curves = []
        for one in timelines:
            curves.append(_numbers(map(attrgetter(what.column), one.points)))
        prepare(panel, what, kinds)
        _over_epochs(panel, timelines, curves, [styles[name] for name in names])
        finish(panel, what, thresholds)
        for one, name in zip(timelines, names, strict=True):
            if (fire := one.first_fire.get(what.letter)) is not None:
                panel.axvline(fire, color=styles[name].colour, linewidth=0.8, linestyle=":")
    return laid_out(figure)


@fixed_style()
def gamma_figure(timelines: Sequence[Timeline]) -> Figure:
    """Deep Γ and Γ_l over epochs, a curve per run; dotted: the same of that run under random
    feedback.

    Runs with a single logged Γ are left out.
    """
    drawn = [one for one in timelines if one.gamma_per_layer]
    names, styles = variants((one.method, one.axes) for one in drawn)
    # deep Γ, then Γ_l
    shown = range(1 + max((len(point.gamma) for one in drawn for point in one.points), default=0))
    signs: Signs = {}
    if any(one.null or one.null_gamma for one in drawn):
        signs["under random feedback"] = {"linestyle": ":"}
    figure, axes = page(f"Γ over {_unit(drawn)}s", styles, math.ceil(len(shown) / 3), 3, signs)
    for panel in axes[len(shown) :]:
        panel.set_visible(False)
    for panel, place in zip(axes, shown, strict=False):
        curves = []
        for one in drawn:
            gammas = ((point.deep_gamma, *point.gamma) for point in one.points)
            curves.append(_numbers(_at(layers, place) for layers in gammas))
        nulls = _numbers(_at(((one.null or [None])[0], *one.null_gamma), place) for one in drawn)
        panel.set(title=f"Γ at l = {place - 1}")
        if not place:
            panel.set(title="deep Γ", ylabel="cosine")
        for name, null in zip(names, nulls, strict=True):
            if math.isfinite(null):
                panel.axhline(null, color=styles[name].colour, linewidth=0.8, linestyle=":")
        _over_epochs(panel, drawn, curves, [styles[name] for name in names])
    return laid_out(figure)


def _over_epochs(
    panel: Axes,
    timelines: Sequence[Timeline],
    curves: Sequence[Floats],
    styles: Sequence[MethodStyle],
) -> None:
    """Draw a curve per run, with its last point marked."""
    panel.set_xlabel(_unit(timelines))
    panel.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    for one, ys, style in zip(timelines, curves, styles, strict=True):
        xs = [point.epoch for point in one.points]
        plot(panel, xs, ys, style, alpha=panels.FAINT, markevery=slice(-1, None))


def _at(values: Sequence[float | None], place: int) -> float | None:
    if place < len(values):
        return values[place]
    return None


def _numbers(values: Iterable[object]) -> Floats:
    """Numbers as an array, NaN for None."""
    return np.array([*values], dtype=np.float64)


def _unit(timelines: Sequence[Timeline]) -> str:
    return common_unit(one.unit for one in timelines)
