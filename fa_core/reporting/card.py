"""The audit card: one page that a reviewer can ask for, and the same as a block for a model hub."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator, Sequence

from fa_core.analysis.claims import ClaimResult
from fa_core.analysis.seeds import SeedGroup, over_seeds
from fa_core.facts.published_names import published_name
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import DIAGNOSTICS
from fa_core.judgement.gamma import deep_gamma, null_gamma
from fa_core.judgement.judged_run import JudgedRun
from fa_core.numbers import count_text, with_axes
from fa_core.option_values import listed
from fa_core.reporting.blocks import Block, Bullets, Grid, Heading, Paragraph, by_note
from fa_core.reporting.sections import runs
from fa_core.reporting.sections.claims import claims_blocks, counts_of_claims
from fa_core.table import AuditTable
from fa_core.text.beside import mean_error_text, reference_text, scale_numbers
from fa_core.text.diagnostic_record import range_text
from fa_core.text.notes import depth_text
from fa_core.text.verdict import verdict_words
from fa_core.text.verdict_cell import run_cell

RUNS_AT_MOST = 12
"""Runs in the table of the card; it counts the others."""

KINDS_AT_MOST = 4
"""Different findings in a line about all runs."""

_RECORDED = ("arch", "data", "data_hash", "device_label", "hashes", "versions")
"""What the card has of the provenance."""

NOT_MEASURED = "not measured"


def audit_card(
    table: AuditTable,
    thresholds: DiagnosticThresholds,
    claims: Sequence[ClaimResult] = (),
    title: str = "Audit card",
) -> list[Block]:
    """Claims, verdicts with intervals, six checks in a line each, provenance, how to verify.

    Args:
        table: n runs.
        thresholds: of their verdicts.
        claims: the checked claims; none: the card says so.
        title: its heading.

    Source: docs/protocol.md.
    """
    blocks: list[Block] = [Heading(title, 1), *runs.counts(table, thresholds)]
    blocks += claims_blocks(claims)
    blocks += [Heading("Verdicts", 2), *_verdicts(table, thresholds)]
    outcome = counts_of_claims(claims) if claims else "none is stated"
    checks = (*_checks(table, thresholds), f"Claims: {outcome}")
    blocks += [Heading("Checks", 2), Bullets(checks, numbered=True)]
    blocks += runs.provenance(table, _RECORDED)
    blocks += [Heading("Verify", 2), Paragraph(_how_to_verify(table))]
    return blocks


def _verdicts(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    shown = runs.shown_runs(table, thresholds)
    limits = [f"({letter}) {one.rule(thresholds)}" for letter, one in DIAGNOSTICS.items()]
    caption = (
        f"In brackets: 95 % intervals over samples, not over training seeds. "
        f"Fires where {', '.join(limits)}."
    )
    records = []
    for run in shown[:RUNS_AT_MOST]:
        record = {
            "run": run.name,
            "abcd": run_cell(run.report, control=run.is_control),
            "verdict": verdict_words(run.report, run.is_control, short=True),
        }
        for letter in DIAGNOSTICS:
            record[f"({letter})"] = _with_interval(run.report, letter)
        records.append(record)
    if records:
        marked = [run.report.flags and not run.is_control for run in shown[:RUNS_AT_MOST]]
        yield Grid.of(records, caption, words=3, marked=marked)
    left = len(table) - RUNS_AT_MOST
    if left > 0:
        yield Paragraph(f"and {count_text(left, 'more run')}: the whole report has them.")


def _with_interval(run: JudgedRun, letter: str) -> str:
    diagnostic = DIAGNOSTICS[letter]
    value = diagnostic.measured(run)
    if letter in run.nonfinite:
        return "NaN/inf"
    if value is None:
        return NOT_MEASURED
    text = diagnostic.text(value)
    ends = range_text(run, letter)
    return f"{text} [{ends}]" if ends else text


def _checks(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[str]:
    """A line per check, with the runs that it says the same of."""
    shown = [run for run in runs.shown_runs(table, thresholds) if not run.is_control]
    for title, check in CHECKS.items():
        pairs = [(check(run.report) or NOT_MEASURED, run.name) for run in shown]
        notes = by_note(pairs)
        texts = {text for text, _ in pairs}
        if len(texts) == 1:
            said = texts.pop()
        else:
            said = "; ".join(notes[:KINDS_AT_MOST])
            if len(notes) > KINDS_AT_MOST:
                said += f"; {len(notes) - KINDS_AT_MOST} more findings in the whole report"
        yield f"{title}: {said or NOT_MEASURED}"


def _scale(run: JudgedRun) -> str:
    """Where the stream grows, and how much in all."""
    if len(run.stream("residual_norms")) == 2:
        return "one block, whose growth is (a)"
    return ", ".join(scale_numbers(run))


def _credit(run: JudgedRun) -> str:
    """Deep Γ with its null."""
    gamma = deep_gamma(run.credit, run.method_name)
    parts = []
    if not math.isnan(gamma):
        parts.append(f"deep Γ {gamma:+.3f}")
        mean, std = null_gamma(run.credit, run.method_name)
        if not math.isnan(mean):
            parts.append(f"under random feedback {mean:+.3f} ± {std:.3f}")
    return ", ".join(parts)


CHECKS: dict[str, Callable[[JudgedRun], str]] = {
    "Is the reference valid": reference_text,
    "Scale of the stream": _scale,
    "Depth": depth_text,
    "Mean error in (c)": mean_error_text,
    "Credit": _credit,
}
"""Check → its text for a run; ``""``: not measured."""


def _how_to_verify(table: AuditTable) -> str:
    """The command that measures again, or why there is none."""
    if not any(row.checkpoint for row in table.rows()):
        return "No weights are recorded with these numbers: they cannot be measured again."
    sources = list(dict.fromkeys(map(str, table.source)))
    named = " ".join(map(shlex.quote, sources[:RUNS_AT_MOST]))
    left = len(sources) - RUNS_AT_MOST
    more = f" … and {left} more" if left > 0 else ""
    return f"fa-tui verify {named}{more}"


_METRICS = {
    "headline_acc": ("accuracy", "accuracy"),
    "growth": ("max_per_block_growth", "(a) growth per block, geometric mean"),
    "g_L": ("bp_grad_norm", "(b) deepest BP gradient norm, geometric mean"),
    "stability": ("cross_batch_stability", "(c) drift between batches"),
    "margin_pp": ("frozen_margin_pp", "(d) percentage points over frozen blocks"),
}
"""Number over seeds → its type and name for a model hub."""


def model_index(
    table: AuditTable, thresholds: DiagnosticThresholds, title: str = "Audit card"
) -> str:
    """The card's front matter for a model hub: YAML with a ``model-index``, a result per method."""
    groups = [group for group in over_seeds(table, thresholds).groups if _known(group)]
    lines = ["---", "tags:", "- fa-tui"]
    if groups:
        lines += ["model-index:", f"- name: {_quoted(title)}", "  results:"]
    for group in groups:
        lines += _result(group, _data(table, group))
    return "\n".join([*lines, "---", "", ""])


def _result(group: SeedGroup, data: str) -> Iterator[str]:
    """The lines of YAML of a method's result."""
    name = with_axes(published_name(group.method), group.axes)
    yield from ("  - task:", "      type: other")
    yield f"      name: {_quoted(f'Four-diagnostic audit of {name}')}"
    yield from ("    dataset:", "      type: other", f"      name: {_quoted(data)}")
    # a hub takes results of equal types and configurations for one
    yield f"      config: {_quoted(name)}"
    yield "    metrics:"
    seeds = count_text(len(group.seeds), "seed")
    for number, value in _known(group).items():
        kind, words = _METRICS[number]
        yield f"    - type: {kind}"
        yield f"      value: {value!r}"
        yield f"      name: {_quoted(f'{words}, {seeds}')}"
    yield "    - type: verdict"
    yield f"      value: {_quoted(group.verdict)}"
    yield "      name: verdict of the four diagnostics"


def _known(group: SeedGroup) -> dict[str, float]:
    """The finite means of a method; none of a number that is not finite on some seed."""
    known = {}
    for number in _METRICS:
        stat = group.stats[number]
        value = stat.mean if stat.geometric_mean is None else stat.geometric_mean
        if value is not None and not stat.nonfinite:
            known[number] = value
    return known


def _data(table: AuditTable, group: SeedGroup) -> str:
    """The data that a method's runs were measured on."""
    found = {
        str(row.report.provenance["data"])
        for row in table.rows()
        if row.method == group.method and row.report.provenance.get("data")
    }
    return listed(sorted(found), 3) or "not recorded"


def _quoted(text: str) -> str:
    """A string of YAML, which reads those of JSON."""
    return json.dumps(text)
