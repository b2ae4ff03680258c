"""Runs and analyses as unrounded records for CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from unicodedata import normalize

import msgspec

from fa_core.analysis.timeline import Timeline, by_method
from fa_core.errors import UsageError
from fa_core.files.decode import Json
from fa_core.formats.rows import AuditRow, recorded
from fa_core.formats.table import AuditTable
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.gamma import CREDIT, credit_numbers
from fa_core.report.numbers import or_none
from fa_core.report.provenance import BASELINE_RULE
from fa_core.report.quantities import named
from fa_core.report.report_facts import PROTOCOL, DiagnosticThresholds
from fa_core.sanitize import in_json, one_line

_WITH_INTERVALS = named("acc", "growth", "g_L", "drift", "margin")


def to_csv(table: AuditTable, thresholds: DiagnosticThresholds = PROTOCOL) -> str:
    """CSV with a header; lists and axes are JSON cells, unmeasured values empty ones."""
    lines: list[Iterable[str]] = [COLUMNS]
    for row in table.rows():
        found = record(row, row.report.with_thresholds(thresholds))
        lines.append(map(_cell, found.values()))
    return csv_text(lines)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows of cells as CSV.

    >>> print(csv_text([("run", "acc"), ("a,b", 0.5)]), end="")
    run,acc
    "a,b",0.5
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow(map(_no_formula, row))
    return text.getvalue()


def _no_formula(cell: object) -> object:
    """A cell of one line that no spreadsheet evaluates: what looks like a formula gets an
    apostrophe, also behind a semicolon, which parts cells in many languages, quoted or not.

    >>> _no_formula("＝1+1"), _no_formula("-4.3 ± 0.8"), _no_formula("a;=1;b")
    ("'＝1+1", '-4.3 ± 0.8', "a;'=1;b")
    """
    if not isinstance(cell, str):
        return cell
    parts = []
    for part in cell.split(";"):
        start = normalize("NFKC", part.lstrip('"')[:1])
        is_formula = start in (*"=+-@\t\r",) and not _NUMBER.fullmatch(part)
        parts.append("'" * is_formula + one_line(part))
    return ";".join(parts)


_NUMBER = re.compile(
    r"[-+](?:[0-9.]+(?:e[-+]?[0-9]+)?|inf|nan)(?: (?:[±…] [0-9.e+-]+|\(×[0-9.e+-]+\)))?"
    r"(?: \(n = [0-9]+\))?"
)
"""A number with its spread, or a range."""


def known_ending(path: Path, known: Sequence[str]) -> str:
    """The lower-case ending of a file's name.

    Raises:
        UsageError: the ending is unknown.
    """
    kind = path.suffix.lower()
    if kind not in known:
        raise UsageError(
            f"cannot be written as {kind or 'a file without ending'}",
            where=path,
            hint=f"end the name in {', '.join(known[:-1])} or {known[-1]}",
        )
    return kind


def record(row: AuditRow, report: DiagnosticReport) -> Json:
    """A run as a flat dict; None if not measured. The names of `CREDIT` are its credit.

    ``frozen_baseline_acc`` is the recorded baseline, ``baseline_rule`` the rule that trained its
    frozen blocks where it is another than the run's, ``assumed_baseline_acc`` an assumed one; (d)
    by the latter is in ``flags`` if it fires, but not in ``coverage``. ``evidence`` lists inexact
    numbers, as ``a=bound b=proxy d=assumed``. A number's name with ``_low`` and ``_high`` is its
    95 % interval; ``undecided`` lists the letters that neither fire nor pass.
    """
    inexact = map("=".join, report.inexact.items())
    found = {
        **recorded(row, report),
        "residual_norms": list(report.residual_norms),
        "bp_grad_norms": list(report.bp_grad_norms),
        "assumed_baseline_acc": report.assumed_baseline_acc,
        "baseline_rule": report.provenance.get(BASELINE_RULE),
        "evidence": " ".join(inexact) or None,
    }
    intervals = report.judged_intervals
    for number in _WITH_INTERVALS:
        low, high = intervals.get(number.column, (None, None))
        found |= {f"{number.field}_low": low, f"{number.field}_high": high}
    for name, value in zip(CREDIT, credit_numbers(report.credit, report.method_name), strict=True):
        found[name] = or_none(value)
    return found


COLUMNS = tuple(record(AuditRow(source="", key="", method=""), DiagnosticReport()))


def _cell(value: object) -> str:
    if value is None or value in ([], {}):
        return ""
    if isinstance(value, (list, dict)):
        return in_json(json.dumps(value, ensure_ascii=False))
    return str(value)


def timeline_record(found: Sequence[Timeline]) -> Json:
    """First fires and early stops per run and per method, or a note without traces."""
    skipped = []
    if not found:
        skipped = ["no traces here (epoch logs such as trace.jsonl): nothing to replay"]
    plain: Json = msgspec.to_builtins({"runs": found, "methods": by_method(found)})
    return {**plain, "skipped": skipped}
