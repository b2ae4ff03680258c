"""How firm the verdicts are: intervals over resamples, and the gradients against float64 ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from fa_core.analysis.groups import run_names
from fa_core.confidence import NUMBERS, Confidence, confidence, percent
from fa_core.naming import listed
from fa_core.report import LETTERS, DiagnosticReport, DiagnosticThresholds
from fa_core.reporting.blocks import Block, Bullets, Grid, Paragraph
from fa_core.reporting.numbers import MISSING, brief, fixed, significant
from fa_core.reporting.sections.runs import ROWS_AT_MOST
from fa_core.table import AuditTable

_TITLES = ("(a) growth", "(b) ‖g_L‖", "(c) cosine", "(d) pp")
_SHOWN: Mapping[str, Callable[[float], str]] = {
    "growth": lambda value: significant(value, 3) if value < 1000 else brief(value),
    "g_L": lambda value: significant(value, 3),
    "stability": lambda value: fixed(value, 3, sign=True),
    "margin_pp": lambda value: fixed(value, 2, sign=True),
    "acc": lambda value: fixed(value, 4),
}


def confidence_tables(table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    """Per run: the share of resamples with its verdict, an interval per diagnostic, 1 − cos(g, g in float64).

    Source: docs/protocol.md §8.
    """
    names = run_names(table)
    reports = [table.report(i).with_thresholds(thresholds) for i in range(min(len(table), ROWS_AT_MOST))]
    yield from _resamples(names, reports)
    yield from _precision(names, reports)


def _resamples(names: Sequence[str], reports: Sequence[DiagnosticReport]) -> Iterator[Block]:
    found = {i: confidence(report) for i, report in enumerate(reports)}
    known = {i: one for i, one in found.items() if one is not None}
    if not known:
        yield Paragraph("Intervals: N/A, no run was resampled (`fa-tui audit --resamples 1000`).")
        return
    sizes = sorted({one.resamples for one in known.values()})
    yield Grid(
        headings=("run", "same verdict", *_TITLES, "acc"),
        rows=tuple(
            (names[i], percent(one.same_verdict), *(_judged(one, x) for x in LETTERS), _interval(one, "acc"))
            for i, one in known.items()
        ),
        caption=f"Bootstrap over batches and samples, {' or '.join(map(str, sizes))} resamples: share with the same "
        "verdict, and the central 95% of each number with the share in which it fires. (a), (b): samples of the norm "
        "batches; (c): batches; accuracy: samples of the test part. The baseline of (d) is taken as exact.",
        marked=frozenset(row for row, one in enumerate(known.values()) if one.same_verdict < 0.95),
    )
    missing = [names[i] for i, one in found.items() if one is None]
    if missing:
        yield Paragraph(f"Not resampled: {listed(missing)}.")


def _judged(one: Confidence, letter: str) -> str:
    if letter not in one.fired:
        return MISSING
    return f"{_interval(one, NUMBERS[letter])}, {percent(one.fired[letter])}"


def _interval(one: Confidence, name: str) -> str:
    if name not in one.intervals:
        return MISSING
    low, high = (_SHOWN[name](end) if math.isfinite(end) else brief(end) for end in one.intervals[name])
    return f"[{low}, {high}]"


def _precision(names: Sequence[str], reports: Sequence[DiagnosticReport]) -> Iterator[Block]:
    known = {i: report.reference_precision for i, report in enumerate(reports) if report.reference_precision}
    if not known:
        yield Paragraph(
            "Reference precision: N/A, no gradient was compared with its float64 version (`fa-tui audit --precision`)."
        )
    else:
        deepest = max(len(one.cosine) for one in known.values())
        yield Grid(
            headings=("run", "arithmetic", *(f"l = {l}" for l in range(deepest)), "worst sample", "lost"),
            rows=tuple(
                (
                    names[i],
                    one.dtype,
                    *(_apart(cosine) for cosine in one.cosine),
                    *([MISSING] * (deepest - len(one.cosine))),
                    _apart(_lowest(one.worst)),
                    str(sum(one.lost)),
                )
                for i, one in known.items()
            ),
            caption="Reference precision: 1 − cos(g_l as measured, g_l in float64) per layer, mean over samples; lost: "
            "gradients that are 0 as measured and not in float64, over all layers.",
            words=2,
            marked=frozenset(row for row, one in enumerate(known.values()) if any(one.lost)),
        )
    reasons = ((names[i], report.unmeasured.get("reference_precision")) for i, report in enumerate(reports))
    said = tuple(f"{name}: reference precision is N/A: {why}" for name, why in reasons if why)
    if said:
        yield Bullets(said)


def _lowest(cosines: Sequence[float | None]) -> float | None:
    """The smallest, NaN before any number."""
    known = [cosine for cosine in cosines if cosine is not None]
    return min(known, key=lambda cosine: (not math.isnan(cosine), cosine), default=None)


def _apart(cosine: float | None) -> str:
    if cosine is None or math.isnan(cosine):
        return MISSING if cosine is None else "NaN"
    return significant(max(0.0, 1 - cosine), 2)
