"""Rows judged by a frozen baseline: assumed, given by hand, or measured in the same audit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from fa_core.files.decode import Json
from fa_core.formats.rows import AuditRow
from fa_core.report.baseline import FrozenBaseline, FrozenRun, FrozenRuns, facts_of, rule_of
from fa_core.report.controls import FROZEN, WITHOUT_BASELINE
from fa_core.report.provenance import BASELINE_FROM, BASELINE_RULE


def with_assumed_baseline(rows: Iterable[AuditRow], baseline: FrozenBaseline) -> list[AuditRow]:
    """The rows judged by an assumed baseline; unmeasured rows are unchanged."""
    return [row.judged_by(baseline) for row in rows]


def with_recorded_baseline(row: AuditRow, baseline: FrozenBaseline) -> AuditRow:
    """A newly measured row with the given baseline as its own, unless it has one.

    An existing baseline is never replaced, only overridden by an assumed one.
    """
    report, acc = row.report, baseline.assumed_for(row.method)
    if report.frozen_baseline_acc is not None or acc is None or not report.coverage:
        return row.judged_by(baseline)
    return replace(row, report=report.with_frozen_baseline(acc))


def with_measured_baselines(rows: Iterable[AuditRow]) -> list[AuditRow]:
    """The rows with (d) judged by frozen-blocks runs of the same audit (`FrozenRuns.judge`)."""
    rows = list(rows)
    frozen = FrozenRuns(
        FrozenRun(
            row.checkpoint or row.source,
            _rule(row),
            _facts(row, frozen=True),
            row.report.headline_acc,
            row.report.right,
        )
        for row in rows
        if row.method == FROZEN and row.report.headline_acc is not None
    )
    judged = []
    for row in rows:
        if row.method not in WITHOUT_BASELINE:
            row = replace(row, report=frozen.judge(row.report, _rule(row), _facts(row)))
        judged.append(row)
    return judged


def with_baseline(row: AuditRow, acc: float | None, source: str) -> AuditRow:
    """The row with a baseline and its source."""
    report = row.report.with_frozen_baseline(acc)
    facts = {name: value for name, value in report.provenance.items() if name != BASELINE_RULE}
    return replace(row, report=replace(report, provenance={**facts, BASELINE_FROM: source}))


def _rule(row: AuditRow) -> str:
    args = row.report.provenance.get("method_args")
    if isinstance(args, Mapping):
        return rule_of(row.method, args)
    if "of" in row.axes:
        # as the name of a checkpoint says
        return rule_of(row.method, {"of": row.axes["of"]})
    return rule_of(row.method, {})


def _facts(row: AuditRow, frozen: bool = False) -> Json:
    """What a run has in common with its baseline (`facts_of`).

    A checkpoint of a network of the user's own records no recipe: its name has to say the rule, the
    seed and what else differs, as in ``frozen_of-mine_s1.pt``. One of another rule is never used.
    """
    provenance = row.report.provenance
    facts = facts_of(provenance, row.seed, frozen)
    network = provenance.get("network")
    if facts or row.seed is None or network is None:
        return facts
    named = {name: value for name, value in row.axes.items() if name not in ("of", "lam")}
    settings = provenance.get("settings")
    facts = {"seed": row.seed, "arch": network, "data_hash": provenance.get("data_hash")}
    if isinstance(settings, Mapping):
        # the network with its arguments
        facts["model"] = settings.get("model")
    return {**facts, **named, "rule": _rule(row)}
