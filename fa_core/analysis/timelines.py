"""Traces of many runs: their timelines, and what papers print of a method over its seeds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fa_core.analysis.result import Result
from fa_core.analysis.timeline import STOP_ON, Timeline, timeline
from fa_core.report import LETTERS, DiagnosticThresholds

if TYPE_CHECKING:
    from fa_core.formats import Trace
    from fa_core.table import AuditTable


def timelines(
    traces: Sequence[Trace],
    table: AuditTable,
    thresholds: DiagnosticThresholds | None = None,
    stop_on: str = STOP_ON,
    total_epochs: int | None = None,
    frozen_baseline: float | None = None,
    baseline_of: Mapping[str, float] | None = None,
) -> list[Timeline]:
    """`timeline` of many runs.

    Args:
        traces: the runs.
        table: their audits, where there are any: their frozen baselines serve traces that record none.
        thresholds: default: the protocol's.
        stop_on: letters that end a run.
        total_epochs: length the runs were planned for.
        frozen_baseline: for runs without one.
        baseline_of: method → frozen baseline, before the audits' own.
    """
    known = _known_baselines(table)
    baselines = [
        (baseline_of or {}).get(trace.method, known.get(_run_id(trace.key, trace.method, trace.seed, trace.axes)))
        for trace in traces
    ]
    return [
        timeline(trace, thresholds, stop_on, frozen_baseline if baseline is None else baseline, total_epochs)
        for trace, baseline in zip(traces, baselines, strict=True)
    ]


def _known_baselines(table: AuditTable) -> dict[str, float]:
    """Frozen-baseline accuracies that the audits of the same runs know.

    Returns:
        run → accuracy; a run whose audits name different ones is left out.
    """
    found: dict[str, set[float]] = defaultdict(set)
    for key, method, seed, axes, acc in zip(
        table.key, table.method, table.seed, table.axes, table.baseline.tolist(), strict=True
    ):
        if math.isfinite(acc):
            found[_run_id(key, method, seed, axes)].add(acc)
    return {run: accs.pop() for run, accs in found.items() if len(accs) == 1}


def _run_id(key: str, method: str, seed: int | None, axes: dict[str, Any]) -> str:
    """What an audit and a trace of the same run share."""
    return repr((key, method, seed, sorted(axes.items(), key=str)))


class MethodTimeline(Result, frozen=True, kw_only=True):
    """First fires of one method over its seeds, as papers print them.

    Attributes:
        method: canonical name.
        axes: shared coordinates.
        seeds: in increasing order, None last.
        first_fire: letter → one epoch per seed, None where it never fires (or was not measured there).
        saved: mean share saved over the runs that would stop; None if none would.
        stopped: runs that would stop.
        acc_at_stop: mean accuracy there over runs that record it.
        final_acc: mean final accuracy of the same runs.
    """

    method: str
    axes: dict[str, Any]
    seeds: tuple[int | None, ...]
    first_fire: dict[str, tuple[int | None, ...]]
    saved: float | None
    stopped: int
    acc_at_stop: float | None
    final_acc: float | None


def by_method(timelines: Sequence[Timeline]) -> tuple[MethodTimeline, ...]:
    """Timelines of the same method and axes, put together over seeds.

    Source: PROTOCOL §11: "(b) at 4/4/3, seeds 42/123/456".
    """
    members: dict[tuple[str, str], list[Timeline]] = defaultdict(list)
    for one in timelines:
        members[(one.method, repr(sorted(one.axes.items(), key=str)))].append(one)
    return tuple(_method(sorted(group, key=_by_seed)) for group in members.values())


def _by_seed(one: Timeline) -> tuple[bool, int]:
    return one.seed is None, one.seed or 0


def _method(group: list[Timeline]) -> MethodTimeline:
    stops = [one.stop for one in group if one.stop is not None]
    with_acc = [stop for stop in stops if stop.acc is not None and stop.final_acc is not None]
    letters = [x for x in LETTERS if any(x in one.first_fire for one in group)]
    return MethodTimeline(
        method=group[0].method,
        axes=group[0].axes,
        seeds=tuple(one.seed for one in group),
        first_fire={x: tuple(one.first_fire.get(x) for one in group) for x in letters},
        saved=_mean([stop.saved for stop in stops]),
        stopped=len(stops),
        acc_at_stop=_mean([stop.acc for stop in with_acc]),
        final_acc=_mean([stop.final_acc for stop in with_acc]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(known) / len(known) if known else None
