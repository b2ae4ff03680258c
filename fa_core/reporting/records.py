"""Runs and analyses as records with every digit: for CSV and Parquet files and as JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from fa_core.analysis.margins import partial_audit
from fa_core.analysis.seeds import Difference, SeedTable
from fa_core.analysis.threshold_sweep import Sensitivity, verdict_curve
from fa_core.analysis.timeline import Timeline, by_method
from fa_core.diagnostics import DIAGNOSTICS, DiagnosticThresholds
from fa_core.errors import missing_package
from fa_core.gamma import CREDIT, credit_numbers
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.table import AuditTable

_IDENTITY = ("source", "key", "method", "seed")
_NUMBERS = (
    "headline_acc",
    "frozen_baseline_acc",
    "margin_pp",
    "max_per_block_growth",
    "h_L",
    "g_L",
    "cross_batch_stability",
)


_BOUNDED = {"headline_acc": "acc", **{diagnostic.number: diagnostic.column for diagnostic in DIAGNOSTICS.values()}}
_ENDS = {
    f"{number}_{end}": (name, place) for number, name in _BOUNDED.items() for place, end in enumerate(("low", "high"))
}
"""Columns of the ends of the 95 % intervals → what they are about, and which end."""


def records(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> list[dict[str, Any]]:
    """One flat dict per run; None where something was not measured. The names of `CREDIT` are its credit.

    ``frozen_baseline_acc`` is the recorded one; where (d) is judged by an assumed one, that is
    ``assumed_baseline_acc``, and (d) is not in ``coverage`` but, where it fires, in ``flags``. ``evidence`` is as
    ``a=bound b=proxy d=assumed`` for what is not exact. A number's name with ``_low`` and ``_high`` is its 95 %
    interval, ``undecided`` the letters whose interval holds the threshold; None where a file has no intervals.
    """
    judged = thresholds or DiagnosticThresholds()
    return [_record(row, row.report.with_thresholds(judged)) for row in table.rows()]


def to_csv(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> str:
    """CSV with a header; lists and axes as JSON in their cells, an empty cell where not measured."""
    rows = ([_cell(record[name]) for name in COLUMNS] for record in records(table, thresholds))
    return csv_text([COLUMNS, *rows])


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows of cells as CSV.

    >>> print(csv_text([("run", "acc"), ("a,b", 0.5)]), end="")
    run,acc
    "a,b",0.5
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_no_formula(cell) for cell in row] for row in rows)
    return text.getvalue()


def _no_formula(cell: object) -> object:
    """A cell that no spreadsheet computes: a text that begins like a formula gets an apostrophe in front of it.

    >>> _no_formula("=1+1"), _no_formula("-0.5"), _no_formula("dfa")
    ("'=1+1", '-0.5', 'dfa')
    """
    if not isinstance(cell, str) or cell[:1] not in ("=", "+", "-", "@", "\t", "\r"):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def to_parquet(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> bytes:
    """A Parquet file with typed columns; norms are lists of float64, axes a JSON string.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise missing_package("pyarrow", "writing Parquet", "or write .csv") from None
    kinds = {
        "seed": pa.int64(),
        **dict.fromkeys([*_NUMBERS, "assumed_baseline_acc", *_ENDS, *CREDIT], pa.float64()),
        "residual_norms": pa.list_(pa.float64()),
        "bp_grad_norms": pa.list_(pa.float64()),
    }
    rows = [{**record, "axes": _cell(record["axes"])} for record in records(table, thresholds)]
    columns = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=columns), content)
    return content.getvalue()


def _record(row: AuditRow, report: DiagnosticReport) -> dict[str, Any]:
    ends, credit = report.judged_intervals, credit_numbers(report.credit, report.method_name)
    inexact = (f"{letter}={kind}" for letter, kind in sorted(report.kinds.items()) if letter in report.coverage)
    return {
        **{name: getattr(row, name) for name in _IDENTITY},
        **{name: getattr(report, name) for name in _NUMBERS},
        "flags": "".join(sorted(report.flags)),
        "coverage": report.measured,
        "verdict": report.verdict,
        "recorded_verdict": report.recorded_verdict,
        "residual_norms": list(report.residual_norms),
        "bp_grad_norms": list(report.bp_grad_norms),
        "axes": dict(row.axes),
        "assumed_baseline_acc": report.assumed_baseline_acc,
        "evidence": " ".join(inexact) or None,
        "undecided": "".join(sorted(report.undecided)) if report.intervals else None,
        **{column: ends[name][place] if name in ends else None for column, (name, place) in _ENDS.items()},
        **{name: None if math.isnan(value) else value for name, value in zip(CREDIT, credit, strict=True)},
    }


COLUMNS = tuple(_record(AuditRow(source="", key="", method=""), DiagnosticReport()))


def _cell(value: Any) -> str:
    if value is None or value in ([], {}):
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)


def sweep_record(
    table: AuditTable, thresholds: DiagnosticThresholds, analysis: Sequence[Sensitivity]
) -> list[dict[str, Any]]:
    """Every diagnostic's sensitivity, with its counts as a function of its threshold."""
    return [{**one.to_dict(), "counts": verdict_curve(table, one.letter, thresholds).to_dict()} for one in analysis]


def seeds_record(
    rows: Sequence[AuditRow], thresholds: DiagnosticThresholds, analysis: SeedTable, apart: Sequence[Difference]
) -> dict[str, Any]:
    """Every condition over its seeds, their differences, and what numbers rest on where they are not exact."""
    partial = {row.key: partial_audit(row.report, thresholds).to_dict() for row in rows if row.report.kinds}
    return {**analysis.to_dict(), "differences": [one.to_dict() for one in apart], "partial": partial}


def timeline_record(found: Sequence[Timeline]) -> dict[str, Any]:
    """First fires and early stops per run and per method, or why there are none."""
    skipped = [] if found else ["no traces here (epoch logs such as trace.jsonl): nothing to replay"]
    methods = [one.to_dict() for one in by_method(found)]
    return {"runs": [one.to_dict() for one in found], "methods": methods, "skipped": skipped}
