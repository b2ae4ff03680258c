"""What came out of a published experiment here, compared with its published figures."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fa_core.analysis.timeline import timeline
from fa_core.facts.run_names import Manifest, read_manifest
from fa_core.formats import Scan, Trace
from fa_core.judgement.diagnostics import LOGARITHMIC
from fa_core.judgement.gamma import AGGREGATIONS, aggregations, deep_gamma, null_gamma
from fa_core.option_values import split_place
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.training.experiments import Experiment, document
from fa_core.training.plan import RunPlan

OF_AUDITS = ("acc", "growth", "h_L", "g_L", "drift")
"""The numbers that a published audit file holds per run."""

SEEDS = 3
"""Behind every published deviation."""

JUDGED = "abd"
"""The diagnostics whose firing is compared; (c) is bimodal over seeds and compared as a number."""

CONTROL_OPTIONS: Mapping[str, dict[str, Any]] = {"random_init": {"epochs": 0}, "shallow": {"L": 0}}
"""Options that controls are trained with, whatever the command says."""


class FinishedRun(msgspec.Struct, frozen=True):
    """A finished run: its report, and its epochs where it has any."""

    report: DiagnosticReport
    trace: Trace | None = None


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A published figure next to the same number of the runs here.

    Attributes:
        run: method and axes; ``"all"`` of an order.
        number: which.
        published: a mean and perhaps its deviation; or of each seed the number, the epoch (0 for
            never) or the letters that fire; of an order the order.
        here: the same per planned seed, None where no finished run has it; of an order the mean of
            each run.
        mean: of `here`, a geometric one of `LOGARITHMIC`; None of letters and where a seed is
            missing.
        band: where it may lie; None for what has to be the same.
        unchecked: why a figure is only shown.
        agrees: whether they do; None where a seed is missing or the figure is only shown.
    """

    run: str
    number: str
    published: tuple[Any, ...]
    here: tuple[Any, ...]
    mean: float | None = None
    band: tuple[float, float] | None = None
    unchecked: str = ""
    agrees: bool | None = None

    @property
    def outcome(self) -> str:
        """How the figures compare with the published one, as text."""
        present = sum(value is not None for value in self.here)
        if present == 0:
            return "no figure yet"
        if present < len(self.here):
            if self.number == "order":
                unit = "runs"
            else:
                unit = "seeds"
            return f"{present} of {len(self.here)} {unit}"
        if self.agrees is None:
            return "not checked"
        if self.agrees:
            return "agrees"
        return "differs"


def finished(chosen: Experiment, found: Scan) -> tuple[dict[str, FinishedRun], list[str]]:
    """Finished runs of an experiment by the names of their folders, and why other runs are not
    compared.

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
    """Why a run is not compared: not the planned one, or not finished; ``""`` for a run to
    compare."""
    data = found.data
    if "{" in plan.data:
        kind, _, place = found.data.partition(":")
        data = kind + split_place(place)[1]
    has = {"arch": found.arch, "data": data, **found.recipe, **found.arch_args, **found.method_args}
    asked = {"arch": plan.arch, "data": plan.data.strip("{}"), **msgspec.to_builtins(plan.recipe)}
    asked |= plan.arch_args | plan.method_args | CONTROL_OPTIONS.get(plan.method, {})
    unlike = []
    for name, value in asked.items():
        if has.get(name) != value:
            unlike.append(f"{name} {has.get(name)}, not {value}")
    if unlike:
        return "; ".join(unlike)
    stopped = found.stopped or ""
    ended = bool(stopped) and (chosen.stops_early or stopped.startswith("diverged"))
    if found.epochs_done < asked["epochs"] and not ended:
        return f"{found.epochs_done} of {asked['epochs']} epochs"
    if report.coverage:
        return ""
    return "not measured"


def compared(
    chosen: Experiment, runs: Mapping[str, FinishedRun], published: Scan | None = None
) -> list[Compared]:
    """Every published figure of an experiment with what came out here.

    A figure agrees if the mean over all planned seeds lies within three standard deviations of the
    difference between two such means, 3·s·√(2/n), s being the published deviation over n seeds (of
    `LOGARITHMIC` numbers by their logarithms; at least one epoch); a figure without a deviation has
    the band of its number. Runs never fire, or fire, on as many seeds as published; (a), (b) and
    (d) seed by seed. Of an experiment with an `order` only that is checked.

    Args:
        chosen: the experiment.
        runs: its finished runs by the names of their folders.
        published: the audit file of its `table`, where it has one.

    Source: docs/protocol.md §11; the bands are this project's.
    """
    planned: dict[str, list[FinishedRun | None]] = defaultdict(list)
    for name, plan in chosen.plans().items():
        planned[name_of(plan)].append(runs.get(name))
    figures = list(chosen.published)
    if published:
        figures += _figures_of_audit(published.rows)
    found = []
    for run, number, *values in figures:
        if number == "fires":
            *letters, judged = values
            found.append(_compared_letters(run, letters, judged, planned[run]))
        else:
            found.append(_compared_number(run, number, values, planned[run]))
    if not chosen.order:
        return found
    shown = []
    for one in found:
        shown.append(
            msgspec.structs.replace(one, band=None, agrees=None, unchecked="the order is checked")
        )
    return [*shown, _compared_order(chosen.order, {one.run: one.mean for one in found})]


def _figures_of_audit(rows: Sequence[AuditRow]) -> list[list[Any]]:
    """An audit file's numbers as published figures: one per method and number, with a value per
    seed."""
    by_method: dict[str, list[DiagnosticReport]] = defaultdict(list)
    for row in rows:
        by_method[row.method].append(row.report)
    figures: list[list[Any]] = []
    for method, reports in by_method.items():
        for number in OF_AUDITS:
            values = [_number(report, number) for report in reports]
            if None not in values:
                figures.append([method, number, *values])
        judged = "".join(letter for letter in JUDGED if letter in reports[0].coverage)
        letters = [_letters(report, judged) for report in reports]
        figures.append([method, "fires", *letters, judged])
    return figures


def _compared_letters(
    run: str, letters: list[str], judged: str, runs: Sequence[FinishedRun | None]
) -> Compared:
    """Letters that fire, seed by seed; one published entry stands for every seed."""
    if len(letters) == 1:
        letters = letters * len(runs)
    here = [None if one is None else _letters(one.report, judged) for one in runs]
    if None in here:
        agrees = None
    else:
        agrees = here == letters
    return Compared(
        run=run,
        number=f"fires of {judged}",
        published=(*letters,),
        here=(*here,),
        agrees=agrees,
    )


def _compared_number(
    run: str, number: str, figures: list[float], runs: Sequence[FinishedRun | None]
) -> Compared:
    """A number by its mean over the seeds; a first epoch over the seeds on which something
    fires."""
    here = [None if one is None else _value(one, number) for one in runs]
    known = [value for value in here if value is not None]
    complete = len(known) == len(here)
    if not complete:
        known = []
    one = Compared(run=run, number=number, published=(*figures,), here=(*here,))
    expected = figures
    if number.startswith("first_"):
        expected = [epoch for epoch in figures if epoch]
        known = [epoch for epoch in known if epoch]
    if not expected:
        return msgspec.structs.replace(one, agrees=not known if complete else None)

    with np.errstate(all="ignore"):
        middle, width = _band(number, [_on_scale(number, value) for value in expected])
        band = _off_scale(number, middle - width), _off_scale(number, middle + width)
        mean = None
        if known:
            mean = _off_scale(number, float(np.mean([_on_scale(number, value) for value in known])))
    one = msgspec.structs.replace(one, mean=mean, band=band)
    if width > _on_scale(number, _limit("too_wide", number)):
        return msgspec.structs.replace(one, unchecked="the published seeds differ too much")
    if not complete:
        return one
    as_many = len(known) == len(expected) or not number.startswith("first_")
    inside = mean is not None and band[0] <= mean <= band[1]
    return msgspec.structs.replace(one, agrees=as_many and inside)


def _on_scale(number: str, value: float) -> float:
    """A value on the scale on which its mean is taken."""
    if number in LOGARITHMIC:
        return float(np.log(value))
    return float(value)


def _off_scale(number: str, value: float) -> float:
    """The inverse of `_on_scale`."""
    if number in LOGARITHMIC:
        return float(np.exp(value))
    return float(value)


def _band(number: str, figures: list[float]) -> tuple[float, float]:
    """Where the mean over the seeds may lie, on its scale: the middle, and the largest distance
    from it."""
    if len(figures) == 1:
        return figures[0], _on_scale(number, _limit("without_spread", number))
    if len(figures) == 2:
        mean, std = figures
    else:
        mean, std = float(np.mean(figures)), float(np.std(figures, ddof=1))
    if number.startswith("first_"):
        at_least = 1.0
    else:
        at_least = 0.0
    return mean, max(3 * std * math.sqrt(2 / SEEDS), at_least)


def _limit(table: str, number: str) -> float:
    """The entry of a table of `replication.toml` for a kind of number; infinity where there is
    none."""
    kind = number
    if number in LOGARITHMIC:
        kind = "norms"
    elif "gamma" in number:
        kind = "gamma"
    limits: dict[str, float] = getattr(document(), table)
    return limits.get(kind, math.inf)


def _compared_order(order: list[list[str]], means: Mapping[str, float | None]) -> Compared:
    """Whether every run is better than all runs of the next band."""
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
    """Method and axes as `replication.toml` writes them; the network is the experiment's own."""
    words = [run.method]
    for name, value in run.axes.items():
        if name != "arch":
            words.append(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}")
    return " ".join(words)


def _letters(report: DiagnosticReport, judged: str) -> str | None:
    """The letters that fire among those judged; None unless all of them are measured."""
    if not set(judged) <= set(report.coverage):
        return None
    return "".join(letter for letter in judged if letter in report.flags)


def _value(run: FinishedRun, number: str) -> float | None:
    """A published number of a run here, 0 for a diagnostic that never fires; None if not
    measured."""
    if not number.startswith("first_"):
        return _number(run.report, number)
    if run.trace:
        first_fire = timeline(run.trace).first_fire
    else:
        first_fire = {}
    letter = number.removeprefix("first_")
    if letter not in first_fire:
        return None
    return first_fire[letter] or 0


def _number(report: DiagnosticReport, number: str) -> float | None:
    """A published number of a report; `gamma_0`, `gamma_1`, … are Γ of a layer. None if not
    measured."""
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
    return layers[layer] if layer < len(layers) else None


def _finite(gamma: float) -> float | None:
    """Γ, or None for the NaN of a credit table where nothing was measured."""
    if math.isfinite(gamma):
        return gamma
    return None
