"""A judged run as the commands print it: as a record, and as the cells of a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from operator import attrgetter
from typing import Any

from fa_core.report import ASSUMED, DiagnosticThresholds
from fa_core.rows import AuditRow
from fa_tui.shell.judged import Judged
from fa_tui.shell.remarks import evidence
from fa_tui.views.cells import cell_text
from fa_tui.views.names import labels

COLUMNS = (
    "source",
    "method",
    "seed",
    "headline_acc",
    "h_L",
    "g_L",
    "max_per_block_growth",
    "cross_batch_stability",
    "frozen_baseline_acc",
    "margin_pp",
    "flags",
    "coverage",
    "verdict",
    "recorded_verdict",
    "key",
    "axes",
)


def judged(rows: Sequence[AuditRow], thresholds: DiagnosticThresholds) -> list[AuditRow]:
    """The rows with their reports judged by the thresholds."""
    return list(Judged(rows, thresholds))


def named(rows: Sequence[AuditRow]) -> Iterator[tuple[AuditRow, str]]:
    """Every row with what `labels` calls it; a report is read when its row comes."""
    return zip(rows, labels(rows.rows if isinstance(rows, Judged) else rows), strict=True)


def record(row: AuditRow) -> dict[str, Any]:
    """One row as the JSON and CSV forms print it; what was not measured is None.

    A row whose numbers are not all exact has ``evidence``: diagnostic letter → ``bound``, ``proxy`` or ``assumed``;
    one whose frozen baseline is assumed has that as ``assumed_baseline_acc``, and no (d) in what was measured.
    """
    report = row.report
    values = (
        row.source,
        row.method,
        row.seed,
        report.headline_acc,
        report.h_L,
        report.g_L,
        report.max_per_block_growth,
        report.cross_batch_stability,
        report.frozen_baseline_acc,
        report.margin_pp,
        "".join(sorted(report.flags)),
        report.measured,
        report.verdict,
        report.recorded_verdict,
        row.key,
        row.axes,
    )
    kinds = evidence(row)
    return {
        **dict(zip(COLUMNS, values, strict=True)),
        **({"evidence": kinds} if kinds else {}),
        **({"assumed_baseline_acc": report.assumed_baseline_acc} if kinds.get("d") == ASSUMED else {}),
    }


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """A record for CSV: nothing for None, evidence as ``a=bound b=proxy``."""
    if "evidence" in values:
        values = {**values, "evidence": " ".join(f"{letter}={kind}" for letter, kind in values["evidence"].items())}
    values = {**values, "axes": " ".join(f"{axis}={value}" for axis, value in sorted(values["axes"].items()))}
    return {name: "" if value is None else value for name, value in values.items()}


MARKS = {"bound": "≥", "proxy": "~", ASSUMED: "?"}


_WRITTEN = (
    ("headline_acc", "{:.3f}".format, ""),
    ("h_L", "{:.3g}".format, ""),
    ("max_per_block_growth", "{:.4g}".format, "a"),
    ("g_L", "{:.3g}".format, "b"),
    ("cross_batch_stability", "{:+.3f}".format, "c"),
    ("margin_pp", "{:+.2f}".format, "d"),
)
_PLACES = {letter: place for place, (_, _, letter) in enumerate(_WRITTEN)}
_measured = attrgetter(*(name for name, _, _ in _WRITTEN))


def numbers(row: AuditRow) -> list[str]:
    """The numbers of a row, rounded for reading; a bound or proxy is marked."""
    report = row.report
    cells = [
        "–" if value is None else "nan" if isnan(value) else write(value)
        for value, (_, write, _) in zip(_measured(report), _WRITTEN, strict=True)
    ]
    for letter, kind in evidence(row).items():
        place = _PLACES[letter]
        if cells[place] != "–":
            cells[place] = MARKS.get(kind, "~") + cells[place]
    return cells


HEADINGS = ("method", "seed", "abcd", "acc", "(a) growth", "(b) ‖g_L‖", "(c) drift", "(d) pp", "‖h_L‖", "verdict")
_MARGIN = HEADINGS.index("(d) pp")
WORDS = ("method", "abcd", "verdict")
LEFT_OUT_FIRST = ("verdict", "‖h_L‖")
"""Columns that a narrow terminal does without."""


def line(row: AuditRow, label: str) -> tuple[str, ...]:
    """A row's cells under `HEADINGS`, for what `labels` calls it."""
    report = row.report
    acc, h_last, growth, g_last, drift, margin = numbers(row)
    seed = "–" if row.seed is None else str(row.seed)
    return (
        label,
        seed,
        cell_text(report.flags, report.coverage),
        acc,
        growth,
        g_last,
        drift,
        margin,
        h_last,
        report.verdict,
    )


def markdown(rows: Sequence[AuditRow]) -> Iterator[str]:
    """The rows as a Markdown table."""
    from fa_core.reporting.markdown import cell

    yield "| " + " | ".join(HEADINGS) + " |"
    yield "|" + "|".join("---" if heading in WORDS else "---:" for heading in HEADINGS) + "|"
    for row, label in named(rows):
        cells = list(line(row, label))
        margin = cells[_MARGIN]
        if margin.startswith(MARKS[ASSUMED]):
            cells[_MARGIN] = f"{margin.removeprefix(MARKS[ASSUMED])} (assumed)"
        yield "| " + " | ".join(map(cell, cells)) + " |"
