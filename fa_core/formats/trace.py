"""Traces (format 5): one JSON object per epoch of a run. No torch."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import asdict, replace

from fa_core.files.atomic import write_bytes
from fa_core.files.decode import Json, without
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.provenance import Intervals, Series
from fa_core.report.report_facts import as_json


class TraceEpoch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One epoch of a run: one line of ``trace.jsonl``. ``None`` or an empty list means *not
    recorded*.

    Attributes:
        epoch: the epoch's number as the file counts it.
        step: optimiser steps done.
        test_acc: test accuracy, a fraction in [0, 1].
        loss: training loss.
        residual_norms: median ‖h_l‖₂, l = 0..L; only [‖h_L‖] in partial logs.
        bp_grad_norms: median ‖g_l‖₂, l = 0..L; only one layer in partial logs.
        cross_batch_stability: diagnostic (c)'s mean pairwise cosine.
        frozen_baseline_acc: accuracy with frozen blocks, where the log carries it.
        gamma: Γ_l per layer (None where undefined).
        error_norm: median ‖e_T‖₂.
        lr: learning rate of the last step.
        seconds: wall time of the epoch.
        growth_bound: lower bound on the growth per block where per-layer norms are missing.
        evidence: diagnostic letter → ``"bound"`` or ``"proxy"``; absent means exact.
        unmeasured: diagnostic letter → why it was not measured.
        layers: ``residual_norms`` or ``bp_grad_norms`` → the one layer that is logged of them, e.g.
            ``"L"``.
        intervals: as in `ReportFacts`.
    """

    epoch: int
    step: int | None = None
    test_acc: float | None = None
    loss: float | None = None
    residual_norms: list[float] = []
    bp_grad_norms: list[float] = []
    cross_batch_stability: float | None = None
    frozen_baseline_acc: float | None = None
    gamma: Series = []
    error_norm: float | None = None
    lr: float | None = None
    seconds: float | None = None
    growth_bound: float | None = None
    evidence: dict[str, str] = {}
    unmeasured: dict[str, str] = {}
    layers: dict[str, str] = {}
    intervals: Intervals = {}

    def report(self, method: str = "", seed: int | None = None) -> DiagnosticReport:
        """The epoch as a report, judged like an audit."""
        fields = asdict(self)
        shared = {name: fields[name] for name in _OF_A_REPORT}
        return DiagnosticReport(method_name=method, seed=seed, headline_acc=self.test_acc, **shared)


_OF_A_REPORT = set(TraceEpoch.__struct_fields__) & set(DiagnosticReport.__struct_fields__)


EPOCH, STEP = "epoch", "step"
"""Units of the numbers of a trace."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A run over its epochs.

    Attributes:
        source: the file it came from.
        key: its name, e.g. ``"dfa_s42"``.
        method: canonical method name.
        seed: None if the source names none.
        axes: further coordinates of the run: ``lam``, ``d``, ``L``, ``arch``, ...
        provenance: what the manifest of its run folder says, as in a report.
        epochs: in increasing order of ``epoch``, each number once.
        unfinished: whether the last line was incomplete (a run in training).
        notes: notes on the numbers: conversions, unused parts of the log.
        unit: what numbers the entries: ``"epoch"``, or ``"step"`` where the log names no epoch.
    """

    source: str
    key: str
    method: str
    seed: int | None = None
    axes: Json = {}
    provenance: Json = {}
    epochs: list[TraceEpoch] = []
    unfinished: bool = False
    notes: tuple[str, ...] = ()
    unit: str = EPOCH


def without_copies(traces: Iterable[Trace]) -> list[Trace]:
    """The traces, of copies of a run folder the last: of one manifest, and alike at the end."""
    found: dict[object, Trace] = {}
    for place, trace in enumerate(traces):
        facts = trace.provenance
        # as text: NaN equals NaN
        end = facts and str((facts, trace.epochs[-1:]))
        found[end or place] = trace
    return [*found.values()]


Logged = TypeVar("Logged", DiagnosticReport, TraceEpoch)


def with_growth_bound(report: Logged, h_0: float, depth: int) -> Logged:
    """A report or epoch with only ‖h_L‖, with (a)'s lower bound (‖h_L‖/‖h_0‖)^{1/L} added.

    If ‖h_l‖ of an earlier layer was logged, l replaces L; ‖h_0‖ itself bounds nothing. NaN where
    ‖h_L‖ is not finite or negative.

    Args:
        report: the report or epoch; returned unchanged if it has norms of several layers or a bound
            already.
        h_0: ‖h_0‖ > 0, finite, e.g. of the method's own net at init.
        depth: number of blocks L ≥ 1.

    Raises:
        ValueError: h_0 or depth is out of range.

    Source: docs/protocol.md §9: the largest of L ratios is at least their geometric mean.
    """
    if not 0 < h_0 < math.inf or depth < 1:
        raise ValueError(f"the bound needs ‖h_0‖ > 0 and at least one block, not {h_0} and {depth}")
    if len(report.residual_norms) != 1 or report.growth_bound is not None:
        return report
    layer = report.layers.get("residual_norms", "")
    if layer.isdecimal():
        depth = int(layer)
    if not depth:
        return report
    h_L = report.residual_norms[-1]
    bound = math.nan
    if 0 <= h_L < math.inf:
        bound = (h_L / h_0) ** (1.0 / depth)
    return replace(
        report,
        growth_bound=bound,
        evidence={**report.evidence, "a": "bound"},
        unmeasured=without(report.unmeasured, "a"),
    )


def trace_entry(
    number: int, report: DiagnosticReport, seconds: float, unit: str = EPOCH, **logged: object
) -> Json:
    """One line of a trace.

    Args:
        number: of the epoch: 1, 2, ...; or of the step.
        report: measured after it.
        seconds: duration of the epoch.
        unit: which of the two.
        logged: further fields: ``loss``, ``lr``, ``step``, ``gamma`` (Γ_l per layer).
    """
    entry: Json = {unit: number, "test_acc": report.headline_acc}
    if report.frozen_baseline_acc is not None:
        entry["frozen_baseline_acc"] = report.frozen_baseline_acc
    return {
        **entry,
        "residual_norms": report.residual_norms,
        "bp_grad_norms": report.bp_grad_norms,
        "cross_batch_stability": report.cross_batch_stability,
        "intervals": report.intervals,
        "error_norm": report.error_norm,
        "seconds": round(seconds, 4),
        **logged,
    }


def write_trace(path: Path, entries: Sequence[Mapping[str, object]]) -> None:
    """Write a whole trace atomically.

    Raises:
        FaError: it cannot be written.
    """
    write_bytes(
        path,
        "".join(
            json.dumps(entry, ensure_ascii=False, default=as_json) + "\n" for entry in entries
        ).encode(),
    )
