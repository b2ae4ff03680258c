"""Runs and analyses as unrounded records for CSV, Parquet and JSON."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import asdict

from fa_core.analysis import Result
from fa_core.analysis.claims import FAILS, HOLDS, ClaimResult
from fa_core.analysis.claims import UNDECIDED as UNDECIDED_CLAIM
from fa_core.analysis.partial_audits import partial_audit
from fa_core.analysis.seeds import Difference, SeedTable, Stat, over_seeds
from fa_core.analysis.threshold_sweep import Sensitivity, verdict_curve
from fa_core.analysis.timeline import Timeline, by_method
from fa_core.decode import Json
from fa_core.errors import UsageError, missing_package
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import DIAGNOSTICS
from fa_core.judgement.gamma import CREDIT, credit_numbers
from fa_core.judgement.verdict import (
    CONTROL,
    NOT_MEASURED,
    TRUSTWORTHY,
    UNDECIDED,
    WALKS_BACK,
)
from fa_core.numbers import with_axes
from fa_core.report import DiagnosticReport
from fa_core.rows import RECORDED, AuditRow, recorded
from fa_core.table import AuditTable


def _interval_columns() -> dict[str, tuple[str, int]]:
    """Column of an interval's end → the interval's number, and which end."""
    columns = {"headline_acc_low": ("acc", 0), "headline_acc_high": ("acc", 1)}
    for diagnostic in DIAGNOSTICS.values():
        columns[f"{diagnostic.number}_low"] = (diagnostic.column, 0)
        columns[f"{diagnostic.number}_high"] = (diagnostic.column, 1)
    return columns


_ENDS = _interval_columns()


def records(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> list[Json]:
    """One flat dict per run; None if not measured. The names of `CREDIT` are its credit.

    ``frozen_baseline_acc`` is the recorded baseline, ``assumed_baseline_acc`` an assumed one; (d)
    by the latter is in ``flags`` if it fires, but not in ``coverage``. ``evidence`` lists inexact
    numbers, as ``a=bound b=proxy d=assumed``. A number's name with ``_low`` and ``_high`` is its
    95 % interval; ``undecided`` lists letters whose interval holds the threshold, or is None
    without intervals.
    """
    judged = thresholds or DiagnosticThresholds()
    return [_record(row, row.report.with_thresholds(judged)) for row in table.rows()]


def to_csv(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> str:
    """CSV with a header; lists and axes are JSON cells, unmeasured values empty ones."""
    return _csv(COLUMNS, records(table, thresholds))


def _csv(columns: Iterable[str], rows: Iterable[Mapping[str, object]]) -> str:
    lines: list[Iterable[str]] = [columns]
    for row in rows:
        lines.append([_cell(row[name]) for name in columns])
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
    """A cell that no spreadsheet evaluates: text that looks like a formula gets an apostrophe.

    >>> _no_formula("=1+1"), _no_formula("-4.3 ± 0.8"), _no_formula("-1+cmd"), _no_formula("dfa")
    ("'=1+1", '-4.3 ± 0.8', "'-1+cmd", 'dfa')
    """
    is_formula = isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r")
    if is_formula and not _NUMBER.fullmatch(str(cell)):
        return f"'{cell}"
    return cell


_NUMBER = re.compile(r"[-+](?:[0-9.]+(?:e[-+]?[0-9]+)?|inf|nan)(?: (?:±|×/÷) [0-9.e+-]+)?")
"""A number, optionally with its spread."""


def to_parquet(table: AuditTable, thresholds: DiagnosticThresholds | None = None) -> bytes:
    """A Parquet file with typed columns; norms are lists of float64, axes JSON strings.

    Raises:
        UsageError: pyarrow is not installed.
    """
    kinds = dict.fromkeys(COLUMNS, "string")
    kinds |= dict.fromkeys([*RECORDED, "assumed_baseline_acc", *_ENDS, *CREDIT], "float64")
    kinds |= dict.fromkeys(("residual_norms", "bp_grad_norms"), "list<double>")
    kinds["seed"] = "int64"
    return _parquet(records(table, thresholds), {name: kinds[name] for name in COLUMNS})


def _parquet(rows: Iterable[Mapping[str, object]], kinds: Mapping[str, str]) -> bytes:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise missing_package("pyarrow", "writing Parquet", "or write .csv") from None
    types = {"list<double>": pa.list_(pa.float64())}
    columns = pa.schema([(name, types.get(kind, kind)) for name, kind in kinds.items()])
    content = io.BytesIO()
    plain = [{**row, "axes": _cell(row["axes"])} for row in rows]
    pq.write_table(pa.Table.from_pylist(plain, schema=columns), content)
    return content.getvalue()


def known_ending(path: Path, known: Sequence[str]) -> str:
    """The lower-case ending of a file's name.

    Raises:
        UsageError: the ending is unknown.
    """
    kind = path.suffix.lower()
    if kind not in known:
        hint = f"end the name in {', '.join(known[:-1])} or {known[-1]}"
        raise UsageError(
            f"cannot be written as {kind or 'a file without ending'}", where=path, hint=hint
        )
    return kind


_OVER_SEEDS = dict.fromkeys(("method", "axes", "collection", "verdict", "number"), "string")
_OVER_SEEDS |= dict.fromkeys(Stat.__struct_fields__, "float64")
_OVER_SEEDS |= {"n": "int64", "nonfinite": "int64"}
"""Column → type, of a row per condition and number."""


def seeds_file(analysis: SeedTable, path: Path) -> bytes:
    """A row per condition and number over seeds (`Stat`).

    Args:
        analysis: the conditions.
        path: ending in ``.csv`` or ``.parquet``.

    Raises:
        UsageError: another ending, or pyarrow is not installed.
    """
    rows = []
    for group in analysis.groups:
        for number, stat in group.stats.items():
            rows.append({**asdict(group), "number": number, **asdict(stat)})
    if known_ending(path, (".csv", ".parquet")) == ".parquet":
        return _parquet(rows, _OVER_SEEDS)
    return _csv(_OVER_SEEDS, rows).encode()


def _record(row: AuditRow, report: DiagnosticReport) -> Json:
    inexact = []
    for letter, kind in sorted(report.kinds.items()):
        if letter in report.coverage:
            inexact.append(f"{letter}={kind}")
    record = {
        **recorded(row, report),
        "residual_norms": list(report.residual_norms),
        "bp_grad_norms": list(report.bp_grad_norms),
        "assumed_baseline_acc": report.assumed_baseline_acc,
        "evidence": " ".join(inexact) or None,
        "undecided": None,
    }
    if report.intervals:
        record["undecided"] = "".join(sorted(report.undecided))
    intervals = report.judged_intervals
    for column, (name, end) in _ENDS.items():
        record[column] = None
        if name in intervals:
            record[column] = intervals[name][end]
    credit = credit_numbers(report.credit, report.method_name)
    for name, value in zip(CREDIT, credit, strict=True):
        record[name] = None
        if not math.isnan(value):
            record[name] = value
    return record


COLUMNS = tuple(_record(AuditRow(source="", key="", method=""), DiagnosticReport()))


def _cell(value: object) -> str:
    if value is None or value in ([], {}):
        return ""
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def metrics(
    table: AuditTable, thresholds: DiagnosticThresholds, claims: Sequence[ClaimResult] = ()
) -> Json:
    """One flat object of numbers for DVC and other trackers: counts, means over seeds, claims.

    Names are ``dfa.growth``, ``dfa.fires_a`` (seeds), ``claims.holds``, ``claim_1.estimate``. What
    was not measured is absent, and what is not finite is named in ``not_finite``.
    """
    standings = table.standings(thresholds)
    found: Json = {"runs": len(table)}
    for standing in (TRUSTWORTHY, WALKS_BACK, UNDECIDED, NOT_MEASURED, CONTROL):
        found[standing.replace(" ", "_").replace("-", "_")] = standings[standing]
    broken = []
    for group in over_seeds(table, thresholds).groups:
        name = with_axes(group.method, group.axes)
        if group.collection:
            name = f"{Path(group.collection).stem}.{name}"
        for number, stat in group.stats.items():
            value = stat.mean if stat.geometric_mean is None else stat.geometric_mean
            if stat.nonfinite:
                broken.append(f"{name}.{number}")
            elif value is not None:
                found[f"{name}.{number}"] = value
        for letter, seeds in group.fired.items():
            if group.measured[letter]:
                found[f"{name}.fires_{letter}"] = seeds
    found |= _claim_metrics(claims)
    if broken:
        found["not_finite"] = broken
    return found


def _claim_metrics(claims: Sequence[ClaimResult]) -> Json:
    found: Json = {}
    if claims:
        outcomes = Counter(result.outcome for result in claims)
        for outcome in (HOLDS, FAILS, UNDECIDED_CLAIM):
            found[f"claims.{outcome.replace(' ', '_')}"] = outcomes[outcome]
    for number, result in enumerate(claims, start=1):
        ends = {"estimate": result.estimate, "low": result.low, "high": result.high}
        for name, value in ends.items():
            if value is not None:
                found[f"claim_{number}.{name}"] = value
    return found


def sweep_record(
    table: AuditTable, thresholds: DiagnosticThresholds, analysis: Sequence[Sensitivity]
) -> list[Json]:
    """Every diagnostic's sensitivity, with its counts as functions of its threshold."""
    sweeps = []
    for one in analysis:
        curve = verdict_curve(table, one.letter, thresholds)
        sweeps.append({**one.to_dict(), "counts": curve.to_dict()})
    return sweeps


def seeds_record(
    rows: Sequence[AuditRow],
    thresholds: DiagnosticThresholds,
    analysis: SeedTable,
    apart: Sequence[Difference],
) -> Json:
    """Every condition over its seeds, their differences, and partial audits."""
    partial = {}
    for row in rows:
        if row.report.kinds:
            partial[row.key] = partial_audit(row.report, thresholds).to_dict()
    return {**analysis.to_dict(), "differences": _dicts(apart), "partial": partial}


def timeline_record(found: Sequence[Timeline]) -> Json:
    """First fires and early stops per run and per method, or a note without traces."""
    skipped = []
    if not found:
        skipped = ["no traces here (epoch logs such as trace.jsonl): nothing to replay"]
    return {"runs": _dicts(found), "methods": _dicts(by_method(found)), "skipped": skipped}


def _dicts(results: Iterable[Result]) -> list[Json]:
    return [result.to_dict() for result in results]
