"""Confidence of the verdicts (intervals, float64 gradients), and credit quality."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from fa_core.facts.measurements import Interval
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.gamma import AGGREGATIONS, aggregations, deep_gamma, free_layers, null_gamma
from fa_core.numbers import MISSING, brief, fixed, percent, significant
from fa_core.option_values import listed
from fa_core.report import DiagnosticReport
from fa_core.reporting.blocks import Block, Bullets, Grid, Paragraph, bullets
from fa_core.reporting.sections.runs import Run, by_layer, shown_runs
from fa_core.table import AuditTable
from fa_core.text.diagnostic_record import records_of

_TITLES = ("(a) growth", "(b) ‖g_L‖", "(c) drift", "(d) pp")
_SHOWN = ("growth", "g_L", "stability", "margin_pp", "acc")


def _number(name: str, value: float) -> str:
    """An end of an interval of a number of `_SHOWN`."""
    if not math.isfinite(value) or (name == "growth" and value >= 1000):
        return brief(value)
    if name in ("growth", "g_L"):
        return significant(value, 3)
    if name == "acc":
        return fixed(value, 4)
    digits = 3 if name == "stability" else 2
    return fixed(value, digits, sign=True)


def confidence_tables(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    """Per run: the intervals, 1 − cos(g, g in float64), and what stands beside a diagnostic.

    Source: docs/protocol.md §3, §8.
    """
    shown = shown_runs(table, thresholds)
    yield from _intervals([run for run in shown if run.report.judged_intervals])
    yield from _precision(shown)
    yield from _beside(shown)


def _beside(shown: Sequence[Run]) -> Iterator[Block]:
    rows: list[tuple[str, ...]] = []
    for name, report, _ in shown:
        for record in records_of(report):
            texts = [*record.remarks, *record.beside]
            if texts and record.letter in report.flags | report.undecided:
                rows.append((f"{name} ({record.letter})", record.state, "; ".join(texts)))
    if rows:
        yield Grid(
            headings=("run", "state", "measured beside it"),
            rows=tuple(rows),
            caption="What was measured beside the diagnostics that fire or are undecided "
            "(docs/protocol.md §8). It changes no verdict.",
            words=3,
        )


def _intervals(known: Sequence[Run]) -> Iterator[Block]:
    rows: list[tuple[str, ...]] = []
    marked = set()
    for name, report, _ in known:
        if report.undecided:
            marked.add(len(rows))
        intervals = report.judged_intervals
        undecided = "".join(sorted(report.undecided)) or "–"
        cells = [_interval(intervals, number) for number in _SHOWN]
        rows.append((name, undecided, *cells))
    if rows:
        yield Grid(
            headings=("run", "undecided", *_TITLES, "acc"),
            rows=tuple(rows),
            caption="95% interval of each number, from the audit itself (docs/protocol.md §3). A "
            "diagnostic is undecided where its interval holds its threshold: on other samples it "
            "might fire or not. An interval is about other samples of the same network, not about "
            "networks from other training seeds.",
            marked=frozenset(marked),
        )


def _interval(intervals: Mapping[str, Interval], name: str) -> str:
    if name not in intervals:
        return MISSING
    low, high = intervals[name]
    return f"[{_number(name, low)}, {_number(name, high)}]"


def _precision(shown: Sequence[Run]) -> Iterator[Block]:
    known = {}
    reasons = []
    for name, report, _ in shown:
        if report.reference_precision:
            known[name] = report.reference_precision
        why = report.unmeasured.get("reference_precision")
        if why:
            reasons.append(f"{name}: reference precision is N/A: {why}")
    deepest = max((len(one.cosine) for one in known.values()), default=0)
    rows: list[tuple[str, ...]] = []
    marked = set()
    for name, one in known.items():
        layers = list(map(_apart, one.cosine))
        layers += [MISSING] * (deepest - len(layers))
        worst = _apart(_lowest(one.worst))
        if any(one.lost):
            marked.add(len(rows))
        rows.append((name, one.dtype, *layers, worst, str(sum(one.lost))))
    if rows:
        headings = [f"l = {l}" for l in range(deepest)]
        yield Grid(
            headings=("run", "arithmetic", *headings, "worst sample", "lost"),
            rows=tuple(rows),
            caption="Reference precision: 1 − cos(g_l as measured, g_l in float64) per layer, "
            "mean over samples; lost: gradients that are 0 as measured and not in float64, over "
            "all layers.",
            words=2,
            marked=frozenset(marked),
        )
    else:
        why = "no gradient was compared with its float64 version (`fa-tui audit --precision`)"
        yield Paragraph(f"Reference precision: N/A, {why}.")
    yield from bullets(reasons)


def _lowest(cosines: Sequence[float | None]) -> float | None:
    """The smallest cosine; NaN if there is one."""
    known = [cosine for cosine in cosines if cosine is not None]
    if any(map(math.isnan, known)):
        return math.nan
    return min(known, default=None)


def _apart(cosine: float | None) -> str:
    if cosine is None:
        return MISSING
    if math.isnan(cosine):
        return "NaN"
    return significant(max(0.0, 1 - cosine), 2)


NOT_SAVED = "no credit signal (feedback matrices, bridge nets) is recorded with the numbers"

_UNTRAINED = {
    "random_init": "a control has no credit rule",
    "frozen": "frozen blocks are not trained",
}
"""Control → why its layers lack credit."""

_METRICS = {
    "gamma": "Γ",
    "rho": "ρ, ε = 1e-3",
    "nudge": "nudge, η = 0.01",
    "zeros": "share of a_l that is 0",
}
"""Name in the file → name in the table."""


def credit_table(table: AuditTable) -> Iterator[Block]:
    """Γ, ρ and nudge per layer with their deep means, for each run with saved credit; the null."""
    runs = shown_runs(table)
    rows = []
    for run in runs:
        for metric, title in _METRICS.items():
            values = (run.report.credit or {}).get(metric)
            if _is_listed(values, metric):
                layers = [_shown(metric, value) for value in values]
                mean = _deep_mean(run.report, metric)
                rows.append((run.name, title, mean, *layers))
    if rows:
        yield by_layer(
            ("run", "metric", "deep mean"),
            rows,
            "Credit quality per layer (mean over samples at each layer). The deep mean is over l "
            "≥ 1 without l = L "
            "where the credit there comes free (the head's true weights in BP, FA and State "
            "Bridge; matching to the "
            "gradient in Credit Bridge); in brackets over all l ≥ 1. nudge: change of the loss "
            "when h_l moves by η "
            "against the credit, in nats; negative is good. ρ at ε = 1e-3 estimates the cosine "
            "that Γ is, and adds no "
            "evidence to it. The share of the "
            "training credit that is exactly 0 is listed where it is not 0: lost to its "
            "arithmetic, or of units that "
            "take no part.",
            words=2,
        )
    known = []
    for run in runs:
        pooled = aggregations(run.report.credit)
        if not all(map(math.isnan, pooled)):
            known.append((run.name, *[_shown("gamma", value) for value in pooled]))
    if known:
        yield Grid(
            headings=("run", *AGGREGATIONS),
            rows=tuple(known),
            caption="Γ as one number, five ways: means and median over layers of the mean over "
            "samples; mean over "
            "layers of the cosine of batch means; mean over samples of the cosine of the layers' "
            "vectors joined.",
        )
    yield from _nulls(runs)
    yield from _reasons(runs, table.method.tolist())


def _is_listed(values: object, metric: str) -> TypeGuard[list[float | None]]:
    """Whether a metric has a row; zeros only if some credit is lost."""
    if not _per_layer(values):
        return False
    if metric == "zeros":
        return any(values)
    return any(value is not None for value in values)


def _per_layer(values: object) -> TypeGuard[list[float | None]]:
    """Whether values are numbers per layer, None where undefined."""
    if not isinstance(values, list) or len(values) < 2:
        return False
    return all(value is None or isinstance(value, (int, float)) for value in values)


def _deep_mean(report: DiagnosticReport, metric: str) -> str:
    """The deep mean of a metric, with the mean over all l ≥ 1 if it differs."""
    deep = _shown(metric, deep_gamma(report.credit, report.method_name, metric))
    every = deep_gamma({"gamma": (report.credit or {}).get(metric)})
    if free_layers(report.credit, report.method_name):
        return f"{deep} ({_shown(metric, every)})"
    return deep


def _shown(metric: str, value: float | None) -> str:
    if value is None or math.isnan(value):
        return MISSING
    if metric == "zeros":
        return percent(value)
    # the loss changes by 1e-8 in a collapsed network, and its sign counts
    if metric == "nudge":
        return brief(value, 3)
    return fixed(float(value), 4, sign=True)


def _nulls(runs: Sequence[Run]) -> Iterator[Block]:
    """Deep Γ with the training's feedback and with fresh feedback."""
    rows = []
    for name, report, _ in runs:
        mean, std = null_gamma(report.credit, report.method_name)
        if math.isnan(mean):
            continue
        null = (report.credit or {})["null"]
        fresh = fixed(mean, 4, sign=True)
        p = MISSING
        if not math.isnan(std):
            fresh += f" ± {fixed(std, 4)}"
            if null.get("rank") is not None:
                p = brief(null["rank"], 2)
        layers = []
        gammas = null.get("gamma")
        if _per_layer(gammas):
            layers = [_shown("gamma", value) for value in gammas]
        deep = _deep_mean(report, "gamma")
        rows.append((name, deep, fresh, str(null.get("draws")), p, *layers))
    if rows:
        yield by_layer(
            ("run", "deep Γ", "with fresh feedback", "draws", "p"),
            rows,
            "Null: deep Γ with the feedback of the training, and with freshly drawn feedback as "
            "mean ± std over draws; "
            "p = (1 + k)/(1 + n) where k of n draws reach the former, so that 5 draws cannot give "
            "a p below 0.17; then "
            "the fresh Γ per layer. A layer that drawn feedback does not reach (FA's last: its "
            "credit comes from the "
            "head) keeps its own Γ there.",
        )


def _reasons(runs: Sequence[Run], methods: Sequence[str]) -> Iterator[Block]:
    """Missing numbers, one line per reason."""
    names_of: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (name, report, _), method in zip(runs, methods, strict=False):
        credit = report.credit
        if not credit:
            reason = report.unmeasured.get("credit", NOT_SAVED)
            credit = {"missing": {"gamma, rho, nudge": reason}}
        missing = credit.get("missing")
        if not isinstance(missing, Mapping):
            missing = {}
        for metric, reason in missing.items():
            metric = metric.replace("gamma", "Γ").replace("rho", "ρ")
            names_of[metric, str(reason)].append(name)
        where = _gaps(credit.get("gamma"))
        if where and not any("gamma" in metric for metric in missing):
            reason = _UNTRAINED.get(method, "no credit there, or a gradient of norm 0")
            names_of[f"Γ and what follows it at {where}", reason].append(name)
    notes = []
    for (metric, reason), names in names_of.items():
        notes.append(f"{metric}: N/A for {listed(names)}: {reason}.")
    if len(notes) > 1:
        yield Bullets(tuple(notes))
    elif notes:
        yield Paragraph(notes[0])


def _gaps(values: object) -> str:
    """The layers without a value, e.g. ``l ≥ 1``; ``""`` if there are none."""
    if not _per_layer(values):
        return ""
    gaps = [l for l, value in enumerate(values) if value is None]
    if len(gaps) > 1 and gaps == list(range(gaps[0], len(values))):
        if gaps[0] == 0:
            return "every layer"
        return f"l ≥ {gaps[0]}"
    if gaps:
        return f"l = {', '.join(map(str, gaps))}"
    return ""
