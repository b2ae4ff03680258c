"""Comparison of trained runs with the published figures of their experiment."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from fa_core.analysis.timeline import timeline
from fa_core.decode import Json
from fa_core.facts.manifest import Manifest, read_manifest
from fa_core.formats import Scan, Trace
from fa_core.judgement.diagnostics import LOGARITHMIC
from fa_core.judgement.gamma import AGGREGATIONS, aggregations, deep_gamma, null_gamma
from fa_core.option_values import split_place
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.training.experiments import Experiment, document
from fa_core.training.plan import RunPlan

OF_AUDITS = ("acc", "growth", "h_L", "g_L", "drift")
"""Numbers of a run in a published audit file."""

SEEDS = 3
"""Number of seeds of every published deviation."""

COMPARED_LETTERS = "abd"
"""Diagnostics compared by their firing; (c) is bimodal over seeds and compared as a number."""

CONTROL_OPTIONS: Mapping[str, Json] = {"random_init": {"epochs": 0}, "shallow": {"L": 0}}
"""Fixed options of controls, which override those of the command."""


class PublishedFigure(NamedTuple):
    """A published figure (fields: see `replication.toml`)."""

    run: str
    number: str
    values: list[Any]


class FinishedRun(msgspec.Struct, frozen=True):
    """The report of a finished run, and its trace if it has epochs."""

    report: DiagnosticReport
    trace: Trace | None = None


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A published figure and the same number of the runs here.

    Attributes:
        run: method and axes; ``"all"`` for an order of runs.
        number: its name.
        published: a mean and possibly its deviation; or one value per seed: a number, an epoch (0
            for never) or the diagnostics that fire; or an order as text.
        here: one value per planned seed, None without a finished run; for an order, the mean of
            each run.
        mean: of `here`, geometric for `LOGARITHMIC`; None for diagnostics and incomplete seeds.
        band: allowed range of the mean; None = the values must be equal.
        unchecked: why the figure is only shown.
        agrees: the result; None for incomplete seeds or a figure that is only shown.
    """

    run: str
    number: str
    published: tuple[Any, ...]
    here: tuple[str | float | None, ...]
    mean: float | None = None
    band: tuple[float, float] | None = None
    unchecked: str = ""
    agrees: bool | None = None

    @property
    def outcome(self) -> str:
        """The result of the comparison as text."""
        present = len(self.here) - self.here.count(None)
        if present == 0:
            return "no figure yet"
        if present < len(self.here):
            unit = "seeds"
            if self.number == "order":
                unit = "runs"
            return f"{present} of {len(self.here)} {unit}"
        if self.agrees is None:
            return "not checked"
        if self.agrees:
            return "agrees"
        return "differs"


def finished(chosen: Experiment, found: Scan) -> tuple[dict[str, FinishedRun], list[str]]:
    """The finished runs of an experiment by folder name, and why other runs are not compared.

    Args:
        chosen: the experiment.
        found: its run folders.
    """
    rows = {row.key: row for row in found.rows if row.checkpoint}
    traces = {trace.key: trace for trace in found.traces}
    runs = {}
    left_out = []
    for name, plan in chosen.plans().items():
        row = rows.get(name)
        if row is None:
            continue
        manifest = read_manifest(Path(row.checkpoint or ""))
        why = _why_not_compared(chosen, plan, manifest, row.report)
        if why:
            left_out.append(f"{name} is not compared: {why}")
        else:
            runs[name] = FinishedRun(row.report, traces.get(name))
    return runs, left_out


def _why_not_compared(
    chosen: Experiment, plan: RunPlan, found: Manifest, report: DiagnosticReport
) -> str:
    """Why a run is not compared: other settings, unfinished, not measured; ``""`` = compare it."""
    data = found.data
    if "{" in plan.data:
        kind, _, place = found.data.partition(":")
        data = kind + split_place(place)[1]
    has = found.recipe | found.arch_args | found.method_args
    has |= {"arch": found.arch, "data": data}
    planned: Json = {"arch": plan.arch, "data": plan.data.strip("{}")}
    planned |= msgspec.to_builtins(plan.recipe)
    planned |= plan.arch_args | plan.method_args | CONTROL_OPTIONS.get(plan.method, {})
    differences = []
    for name, value in planned.items():
        if has.get(name) != value:
            differences.append(f"{name} {has.get(name)}, not {value}")
    if differences:
        return "; ".join(differences)
    stopped = found.stopped or ""
    ended = bool(stopped) and (chosen.stops_early or stopped.startswith("diverged"))
    if found.epochs_done < planned["epochs"] and not ended:
        return f"{found.epochs_done} of {planned['epochs']} epochs"
    if report.coverage:
        return ""
    return "not measured"


def compared(
    chosen: Experiment, runs: Mapping[str, FinishedRun], published: Scan | None = None
) -> list[Compared]:
    """Compare every published figure of an experiment with the runs here.

    A figure agrees if the mean over all planned seeds lies within three standard deviations of the
    difference between two such means, 3·s·√(2/n); s is the published deviation over n seeds.
    `LOGARITHMIC` numbers are compared by logarithms, and epochs within at least one. A figure
    without a deviation has the band of its number. A diagnostic must fire on as many seeds as
    published; (a), (b) and (d) on the same seeds. If the experiment has an `order`, only that is
    checked.

    Args:
        chosen: the experiment.
        runs: its finished runs by folder name.
        published: the audit file of its `table`, if any.

    Source: docs/protocol.md §11; the bands are this project's.
    """
    planned: dict[str, list[FinishedRun | None]] = defaultdict(list)
    for name, plan in chosen.plans().items():
        planned[name_of(plan)].append(runs.get(name))
    figures = [PublishedFigure(run, number, values) for run, number, *values in chosen.published]
    if published:
        figures += _figures_of_audit(published.rows)
    found = []
    for figure in figures:
        if figure.number == "fires":
            found.append(_compared_letters(figure, planned[figure.run]))
        else:
            found.append(_compared_number(figure, planned[figure.run]))
    if not chosen.order:
        return found
    means = {one.run: one.mean for one in found}
    shown = []
    for one in found:
        shown.append(replace(one, band=None, agrees=None, unchecked="the order is checked"))
    return [*shown, _compared_order(chosen.order, means)]


def _figures_of_audit(rows: Sequence[AuditRow]) -> list[PublishedFigure]:
    """An audit file as published figures: one per method and number, with a value per seed."""
    by_method: dict[str, list[DiagnosticReport]] = defaultdict(list)
    for row in rows:
        by_method[row.method].append(row.report)
    figures = []
    for method, reports in by_method.items():
        for number in OF_AUDITS:
            values = [_number(report, number) for report in reports]
            if None not in values:
                figures.append(PublishedFigure(method, number, values))
        coverage = reports[0].coverage
        measured = "".join(letter for letter in COMPARED_LETTERS if letter in coverage)
        letters = [_letters(report, measured) for report in reports]
        figures.append(PublishedFigure(method, "fires", [*letters, measured]))
    return figures


def _compared_letters(figure: PublishedFigure, runs: Sequence[FinishedRun | None]) -> Compared:
    """Compare the diagnostics that fire seed by seed; one published entry counts for all seeds."""
    *letters, measured = figure.values
    if len(letters) == 1:
        letters = letters * len(runs)
    here = []
    for run in runs:
        here.append(_letters(run.report, measured) if run else None)
    agrees = None
    if None not in here:
        agrees = here == letters
    return Compared(
        run=figure.run,
        number=f"fires of {measured}",
        published=tuple(letters),
        here=tuple(here),
        agrees=agrees,
    )


def _compared_number(figure: PublishedFigure, runs: Sequence[FinishedRun | None]) -> Compared:
    """Compare a number by its mean over the seeds; a first epoch over the seeds that fire."""
    number = figure.number
    here = []
    for run in runs:
        here.append(_value(run, number) if run else None)
    known = [value for value in here if value is not None]
    complete = len(known) == len(here)
    if not complete:
        known = []
    one = Compared(
        run=figure.run,
        number=number,
        published=tuple(figure.values),
        here=tuple(here),
    )
    expected = figure.values
    first_epochs = number.startswith("first_")
    if first_epochs:
        expected = list(filter(None, expected))
        known = list(filter(None, known))
    if not expected:
        return replace(one, agrees=not known if complete else None)

    with np.errstate(all="ignore"):
        middle, width = _band(number, [_on_scale(number, value) for value in expected])
        low = _off_scale(number, middle - width)
        high = _off_scale(number, middle + width)
        mean = None
        if known:
            scaled = [_on_scale(number, value) for value in known]
            mean = _off_scale(number, float(np.mean(scaled)))
    one = replace(one, mean=mean, band=(low, high))
    if width > _on_scale(number, _limit(document().too_wide, number)):
        return replace(one, unchecked="the published seeds differ too much")
    if not complete:
        return one
    as_many = len(known) == len(expected) or not first_epochs
    inside = mean is not None and low <= mean <= high
    return replace(one, agrees=as_many and inside)


def _on_scale(number: str, value: float) -> float:
    """A value on the scale of its mean."""
    if number in LOGARITHMIC:
        return float(np.log(value))
    return float(value)


def _off_scale(number: str, value: float) -> float:
    """The inverse of `_on_scale`."""
    if number in LOGARITHMIC:
        return float(np.exp(value))
    return float(value)


def _band(number: str, figures: list[float]) -> tuple[float, float]:
    """The allowed range of the mean over the seeds, on its scale: its middle and half its width."""
    if len(figures) == 1:
        return figures[0], _on_scale(number, _limit(document().without_spread, number))
    if len(figures) == 2:
        mean, std = figures
    else:
        mean = float(np.mean(figures))
        std = float(np.std(figures, ddof=1))
    width = 3 * std * math.sqrt(2 / SEEDS)
    if number.startswith("first_"):
        width = max(width, 1.0)
    return mean, width


def _limit(limits: Mapping[str, float], number: str) -> float:
    """The limit for the kind of a number; infinity if there is none."""
    kind = number
    if number in LOGARITHMIC:
        kind = "norms"
    elif "gamma" in number:
        kind = "gamma"
    return limits.get(kind, math.inf)


def _compared_order(order: list[list[str]], means: Mapping[str, float | None]) -> Compared:
    """Compare an order: every run must be better than all runs of the next group."""
    here = tuple(means[run] for run in chain.from_iterable(order))
    agrees = None
    if None not in here:
        agrees = True
        for above, below in pairwise(order):
            lowest = min(means[run] or 0.0 for run in above)
            highest = max(means[run] or 0.0 for run in below)
            agrees = agrees and lowest > highest
    bands = " > ".join(", ".join(band) for band in order)
    return Compared(run="all", number="order", published=(bands,), here=here, agrees=agrees)


def name_of(run: RunPlan | AuditRow) -> str:
    """Method and axes in the form of `replication.toml`, without the experiment's network."""
    name = run.method
    for axis, value in run.axes.items():
        if axis == "arch":
            continue
        if isinstance(value, float):
            value = f"{value:g}"
        name += f" {axis}={value}"
    return name


def _letters(report: DiagnosticReport, measured: str) -> str | None:
    """Which of these diagnostics fire; None unless the report has all of them."""
    if not set(measured) <= set(report.coverage):
        return None
    return "".join(letter for letter in measured if letter in report.flags)


def _value(run: FinishedRun, number: str) -> float | None:
    """A number of a run, with 0 for the first epoch of a diagnostic that never fires; None = not
    measured."""
    if not number.startswith("first_"):
        return _number(run.report, number)
    if run.trace is None:
        return None
    first_fire = timeline(run.trace).first_fire
    letter = number.removeprefix("first_")
    if letter not in first_fire:
        return None
    return first_fire[letter] or 0


def _number(report: DiagnosticReport, number: str) -> float | None:
    """A number of a report; `gamma_0`, `gamma_1`, … are Γ of a layer; None = not measured."""
    numbers = {
        "acc": report.headline_acc,
        "growth": report.max_per_block_growth,
        "h_L": report.h_L,
        "g_L": report.g_L,
        "drift": report.cross_batch_stability,
        "margin_pp": report.margin_pp,
    }
    if number in numbers:
        return numbers[number]
    if number == "deep_gamma":
        return _finite(deep_gamma(report.credit, report.method_name))
    if number == "deep_gamma_with_free":
        return _finite(aggregations(report.credit)[AGGREGATIONS.index("mean, l ≥ 1")])
    if number == "null_gamma":
        return _finite(null_gamma(report.credit, report.method_name)[0])
    layers = (report.credit or {}).get("gamma") or []
    layer = int(number.removeprefix("gamma_"))
    if layer < len(layers):
        value: float | None = layers[layer]
        return value
    return None


def _finite(gamma: float) -> float | None:
    """Γ, or None for NaN, which means not measured."""
    if math.isfinite(gamma):
        return gamma
    return None
