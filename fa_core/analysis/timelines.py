"""Traces of many runs: their timelines, and what papers print of a method over its seeds."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from fa_core.analysis.result import Result
from fa_core.analysis.timeline import STOP_ON, Timeline, timeline
from fa_core.report import LETTERS, DiagnosticThresholds
from fa_core.runs import WITHOUT_BASELINE
from fa_core.what_if import Baseline

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
        table: audits; one of the same file or run folder lends its frozen baseline to a trace that records none.
        thresholds: default: the protocol's.
        stop_on: letters that end a run.
        total_epochs: length the runs were planned for.
        frozen_baseline: assumed for runs without one, but for the controls that get none.
        baseline_of: method → frozen baseline, assumed in place of the audits' own.
    """
    baselines = frozen_baselines(traces, table, frozen_baseline, baseline_of)
    return [
        timeline(trace, thresholds, stop_on, baseline, total_epochs)
        for trace, baseline in zip(traces, baselines, strict=True)
    ]


def frozen_baselines(
    traces: Sequence[Trace],
    table: AuditTable,
    frozen_baseline: float | None = None,
    baseline_of: Mapping[str, float] | None = None,
) -> list[Baseline | None]:
    """The frozen-baseline accuracy to judge each trace's (d) by, where it records none; None if nothing says one.

    What is named for the method comes first, then the audit of the trace's own run, then what is assumed for all.

    Args:
        traces: the runs.
        table: audits.
        frozen_baseline: assumed for runs without one, but for the controls that get none.
        baseline_of: method → frozen baseline, assumed.
    """
    known = _known_baselines(table)
    otherwise = None if frozen_baseline is None else Baseline(frozen_baseline, assumed=True)
    found: list[Baseline | None] = []
    for trace in traces:
        aimed = (baseline_of or {}).get(trace.method)
        assumed = None if trace.method in WITHOUT_BASELINE else otherwise
        own = known.get(trace.source, known.get(str(PurePath(trace.source).parent), assumed))
        found.append(own if aimed is None else Baseline(aimed, assumed=True))
    return found


def _known_baselines(table: AuditTable) -> dict[str, Baseline]:
    """Source → frozen-baseline accuracy, for files and run folders of one audit: no other file is surely the run's."""
    runs_in = Counter(table.source.tolist())
    rows = zip(table.source.tolist(), table.baseline.tolist(), table.assumed.tolist(), strict=True)
    return {
        source: Baseline(acc, assumed) for source, acc, assumed in rows if runs_in[source] == 1 and math.isfinite(acc)
    }


class MethodTimeline(Result, frozen=True, kw_only=True):
    """First fires of one method over its seeds, as papers print them.

    Attributes:
        method: canonical name.
        axes: shared coordinates.
        seeds: in increasing order, None last.
        first_fire: letter → one epoch per seed, None where it never fires (or was not measured there).
        evidence: letter → ``"bound"``, ``"proxy"`` or ``"assumed"`` where some run's number is not exact.
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
    evidence: dict[str, str] = {}


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
        evidence={x: kind for one in group for x, kind in one.evidence.items()},
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return math.fsum(known) / len(known) if known else None
