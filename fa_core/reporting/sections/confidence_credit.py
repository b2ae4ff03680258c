"""Confidence of the verdicts (intervals, float64 gradients), and credit quality per layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fa_core.facts.measurements import Interval
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.confidence import Confidence, confidence, percent
from fa_core.judgement.diagnostics import DIAGNOSTICS, LETTERS
from fa_core.judgement.gamma import AGGREGATIONS, aggregations, deep_gamma, free_layers, null_gamma
from fa_core.numbers import MISSING, brief, fixed, significant
from fa_core.option_values import listed
from fa_core.report import DiagnosticReport
from fa_core.reporting.blocks import Block, Bullets, Grid, Paragraph, bullets
from fa_core.reporting.sections.runs import Run, by_layer, shown_runs
from fa_core.table import AuditTable

_TITLES = ("(a) growth", "(b) ‖g_L‖", "(c) drift", "(d) pp")
_SHOWN = ("growth", "g_L", "stability", "margin_pp", "acc")


def _number(name: str, value: float) -> str:
    """An end of an interval of one of `_SHOWN`."""
    if not math.isfinite(value) or (name == "growth" and value >= 1000):
        return brief(value)
    if name in ("growth", "g_L"):
        return significant(value, 3)
    if name == "acc":
        return fixed(value, 4)
    return fixed(value, 3 if name == "stability" else 2, sign=True)


def confidence_tables(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    """Per run: the intervals, the share of resamples with its verdict, 1 − cos(g, g in float64).

    Source: docs/protocol.md §3, §8.
    """
    shown = shown_runs(table, thresholds)
    yield from _intervals([run for run in shown if run.report.judged_intervals])
    yield from _resamples(shown)
    yield from _precision(shown)


def _intervals(known: Sequence[Run]) -> Iterator[Block]:
    rows = []
    for name, one, _ in known:
        cells = [_interval(one.judged_intervals, number) for number in _SHOWN]
        rows.append((name, "".join(sorted(one.undecided)) or "–", *cells))
    if rows:
        yield Grid(
            headings=("run", "undecided", *_TITLES, "acc"),
            rows=tuple(rows),
            caption="95% interval of each number, from the audit itself (docs/protocol.md §3). A "
            "diagnostic is undecided where its interval holds its threshold: on other samples it "
            "might fire or not. An interval is about other samples of the same network, not about "
            "networks from other training seeds.",
            marked=frozenset(row for row, run in enumerate(known) if run.report.undecided),
        )


def _resamples(shown: Sequence[Run]) -> Iterator[Block]:
    rows: list[tuple[str, ...]] = []
    missing: list[str] = []
    marked: set[int] = set()
    sizes: set[int] = set()
    for run in shown:
        one = confidence(run.report)
        if one is None:
            missing.append(run.name)
            continue
        if one.same_verdict < 0.95:
            marked.add(len(rows))
        sizes.add(one.resamples)
        cells = [_judged(one, letter) for letter in LETTERS]
        accuracy = _interval(one.intervals, "acc")
        rows.append((run.name, percent(one.same_verdict), *cells, accuracy))
    if not rows:
        yield Paragraph("Resamples: N/A, no run was resampled (`fa-tui audit --resamples 1000`).")
        return
    yield Grid(
        headings=("run", "same verdict", *_TITLES, "acc"),
        rows=tuple(rows),
        caption=f"Bootstrap over batches and samples, {' or '.join(map(str, sorted(sizes)))} "
        "resamples: share with the same verdict, and the central 95% of each number with the share "
        "in which it fires. (a), (b): samples of the norm batches; (c): batches; accuracy: samples "
        "of the test part. The baseline of (d) is taken as exact.",
        marked=frozenset(marked),
    )
    if missing:
        yield Paragraph(f"Not resampled: {listed(missing)}.")


def _judged(one: Confidence, letter: str) -> str:
    if letter not in one.fired:
        return MISSING
    return f"{_interval(one.intervals, DIAGNOSTICS[letter].column)}, {percent(one.fired[letter])}"


def _interval(intervals: Mapping[str, Interval], name: str) -> str:
    if name not in intervals:
        return MISSING
    low, high = intervals[name]
    return f"[{_number(name, low)}, {_number(name, high)}]"


def _precision(shown: Sequence[Run]) -> Iterator[Block]:
    known = [(run.name, one) for run in shown if (one := run.report.reference_precision)]
    deepest = max((len(one.cosine) for _, one in known), default=0)
    rows = []
    for name, one in known:
        layers = [*map(_apart, one.cosine), *[MISSING] * (deepest - len(one.cosine))]
        rows.append((name, one.dtype, *layers, _apart(_lowest(one.worst)), str(sum(one.lost))))
    if rows:
        layers = [f"l = {l}" for l in range(deepest)]
        yield Grid(
            headings=("run", "arithmetic", *layers, "worst sample", "lost"),
            rows=tuple(rows),
            caption="Reference precision: 1 − cos(g_l as measured, g_l in float64) per layer, "
            "mean over samples; lost: gradients that are 0 as measured and not in float64, over "
            "all layers.",
            words=2,
            marked=frozenset(row for row, (_, one) in enumerate(known) if any(one.lost)),
        )
    else:
        why = "no gradient was compared with its float64 version (`fa-tui audit --precision`)"
        yield Paragraph(f"Reference precision: N/A, {why}.")
    reasons = ((run.name, run.report.unmeasured.get("reference_precision")) for run in shown)
    yield from bullets(f"{name}: reference precision is N/A: {why}" for name, why in reasons if why)


def _lowest(cosines: Sequence[float | None]) -> float | None:
    """The smallest, NaN before any number."""
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


NOT_SAVED = "the credit signal (feedback matrices or bridge nets) is not with the numbers"

_UNTRAINED = {
    "random_init": "a control has no credit rule",
    "frozen": "frozen blocks are not trained",
}
"""Control → why its layers have no credit."""

_METRICS = {
    "gamma": "Γ",
    "rho": "ρ, ε = 1e-3",
    "rho_relative": "ρ, ε = 1e-3·‖h‖",
    "rho_finite": "ρ, ε = 0.1·‖h‖",
    "nudge": "nudge, η = 0.01",
    "nudge_relative": "nudge, η = 0.01·‖h‖",
    "zeros": "share of a_l that is 0",
}
"""Name in the file → in the table."""


def credit_table(table: AuditTable) -> Iterator[Block]:
    """Γ, ρ and nudge of each run that saved its credit, per layer, with the deep mean named, and
    the null."""
    runs = shown_runs(table)
    rows = []
    for run in runs:
        for metric, values in (run.report.credit or {}).items():
            if _is_listed(metric, values):
                layers = [_shown(metric, value) for value in values]
                name, mean = _METRICS.get(metric, metric), _deep_mean(run.report, metric)
                rows.append((run.name, name, mean, *layers))
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
            "evidence to it; at ε = 0.1·‖h‖ it also shows how far the loss is from a straight "
            "line. The share of the "
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


def _is_listed(metric: str, values: Any) -> bool:
    """Whether a metric has a row: its zeros only where some credit is lost."""
    if not _per_layer(values):
        return False
    if metric == "zeros":
        return any(values)
    return any(value is not None for value in values)


def _per_layer(values: Any) -> bool:
    several = isinstance(values, list) and len(values) > 1
    return several and all(v is None or isinstance(v, (int, float)) for v in values)


def _deep_mean(report: DiagnosticReport, metric: str) -> str:
    """The deep mean of a metric, and that over all l ≥ 1 where it is another."""
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
    # a loss changes by 1e-8 in a collapsed network: its sign is what counts
    if metric.startswith("nudge"):
        return f"{brief(value, 3)}"
    return fixed(float(value), 4, sign=True)


def _nulls(runs: Sequence[Run]) -> Iterator[Block]:
    """Deep Γ with the feedback of the training next to that with fresh feedback."""
    rows = []
    for name, report, _ in runs:
        mean, std = null_gamma(report.credit, report.method_name)
        if math.isnan(mean):
            continue
        null = (report.credit or {})["null"]
        fresh = fixed(mean, 4, sign=True) + ("" if math.isnan(std) else f" ± {fixed(std, 4)}")
        if math.isnan(std) or null.get("rank") is None:
            p = MISSING
        else:
            p = brief(null["rank"], 2)
        layers: list[float | None] = null["gamma"] if _per_layer(null.get("gamma")) else []
        drawn = (fresh, str(null.get("draws")), p, *(_shown("gamma", value) for value in layers))
        rows.append((name, _deep_mean(report, "gamma"), *drawn))
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
    """What is N/A, and why: one line per reason."""
    why: dict[tuple[str, str], list[str]] = {}
    for (name, report, _), method in zip(runs, methods, strict=False):
        credit = report.credit or {
            "missing": {"gamma, rho, nudge": report.unmeasured.get("credit", NOT_SAVED)}
        }
        missing = credit.get("missing")
        if isinstance(missing, Mapping):
            stated = missing
        else:
            stated = {}
        for metric, reason in stated.items():
            why.setdefault(
                (metric.replace("gamma", "Γ").replace("rho", "ρ"), str(reason)), []
            ).append(name)
        if not any("gamma" in metric for metric in stated) and (
            where := _gaps(credit.get("gamma"))
        ):
            reason = _UNTRAINED.get(method, "no credit there, or a gradient of norm 0")
            why.setdefault((f"Γ and what follows it at {where}", reason), []).append(name)
    said = tuple(
        f"{metric}: N/A for {listed(names)}: {reason}." for (metric, reason), names in why.items()
    )
    if said:
        yield Bullets(said) if len(said) > 1 else Paragraph(said[0])


def _gaps(values: Any) -> str:
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
