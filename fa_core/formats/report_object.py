"""Decoding of report objects as rows: format 2 (one report), format 3 (a list).

A list's entry has a method, a seed and verdicts like ``walk-back: (a)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from fa_core.decode import Json
from fa_core.errors import InvalidReport, UnreadableInput
from fa_core.facts.names import (
    control_of,
    key_of,
    named_axis,
    numbered,
    seed_in_words,
    split_key,
    stated,
    stated_axes,
)
from fa_core.formats.json_document import (
    Attempts,
    Document,
    Finding,
    Node,
    convert,
    convert_spelled,
)
from fa_core.formats.log_names import given_in, is_measured
from fa_core.formats.logged_epoch import epoch_of, used_in
from fa_core.option_values import listed
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem, row_of_file
from fa_core.sanitize import sanitize

MEASURED = frozenset({"residual_norms", "bp_grad_norms", "cross_batch_stability", "headline_acc"})
"""Fields of which a report has at least one."""


def method_named(report: DiagnosticReport) -> str:
    """The canonical method that a report itself names; ``""`` if it names none."""
    return control_of(report.method_name)[0]


def decode_report(node: Node, where: str) -> DiagnosticReport:
    """Decode and check a report.

    Args:
        node: the JSON object.
        where: file and JSON path, for messages.

    Raises:
        UnreadableInput: a field of the wrong type.
        InvalidReport: no field of a report at all, or numbers that contradict each other.
    """
    if not isinstance(node, dict):
        convert(node, Json, where)  # the error names the actual type
    report = DiagnosticReport.from_dict(node, where)
    if not report.residual_norms and MEASURED.isdisjoint(node):
        hint = f"a report has some of {', '.join(sorted(MEASURED))}"
        raise InvalidReport("none of a report's fields", where=where, hint=hint)
    return report


def row_of(source: str, key: str, report: DiagnosticReport) -> AuditRow:
    """A report as a row: method, seed and axes from the key, or the report if the key has no seed.

    A ``#2`` after a key only distinguishes equal keys. The report's own axes are no part of the
    method's name.

    >>> row = row_of("a.json", "bp_data-digits_s42", DiagnosticReport(axes={"data": "digits"}))
    >>> row.method, row.seed
    ('bp', 42)
    """
    own = report.axes or {}
    plain = key
    for axis, value in own.items():
        plain = plain.replace(named_axis(axis, value), "", 1)
    method, seed, axes = split_key(plain.rpartition("#")[0] or plain)
    if seed is None:
        seed = report.seed
        if seed is None:
            seed = seed_in_words(report.notes)
        if report.method_name.strip():
            method, trained_by = control_of(report.method_name)
            axes = {**trained_by, **axes}
    checkpoint = report.provenance.get("checkpoint")
    return AuditRow(
        source=source,
        key=key,
        method=method or "unknown",
        seed=seed,
        report=report,
        checkpoint=checkpoint if isinstance(checkpoint, str) else None,
        axes={**axes, **own},
    )


def sniff(document: Document) -> bool:
    """Whether the object has a measured field of a report, and is neither an epoch nor a
    manifest."""
    if (
        document.kind != "object"
        or MEASURED.isdisjoint(document.members)
        or "epoch" in document.members
    ):
        return False
    return not str(document.members.get("format", "")).startswith("fa-run/")


def read(document: Document) -> Iterator[Finding]:
    """The one row of format 2.

    Raises:
        UnreadableInput: a field of the wrong type.
        InvalidReport: numbers that contradict each other.
    """
    report = decode_report(document.members, f"{document.path}: $")
    name = row_of_file(document.path)
    row = row_of(document.path, name.key, report)
    if row.seed is None and name.seed is not None:
        if report.method_name.strip():
            method = row.method
        else:
            method = name.method
        row = msgspec.structs.replace(
            row, method=method, seed=name.seed, axes={**name.axes, **row.axes}
        )
    yield row


_PEEK = 20
_REPORTED = frozenset(DiagnosticReport.__struct_encode_fields__)


def sniff_list(document: Document) -> bool:
    """Whether some of the first entries name a method and something measured on it."""
    return document.kind == "list" and any(
        ("method" in fields or "method_name" in fields) and is_measured(fields)
        for _, fields in document.objects(_PEEK)
    )


def read_list(document: Document) -> Iterator[Finding]:
    """The rows of format 3, and problems for invalid entries."""
    rows: list[AuditRow] = []
    attempt = Attempts(document.path)
    for index, node in document.items:
        row = attempt(partial(_entry_row, node, document.path, document.place(index)), "entry")
        if isinstance(row, Problem):
            yield row
        else:
            rows.append(row)
    for row, key in zip(rows, numbered(row.key for row in rows), strict=True):
        yield row if key == row.key else msgspec.structs.replace(row, key=key)


def _entry_row(node: Node, source: str, where: str) -> AuditRow:
    fields = convert(node, Json, where)
    method, _ = stated(fields, "", None)
    if not method or not is_measured(fields):
        raise UnreadableInput("no method with something measured", where=where)
    method, trained_by = control_of(method)
    axes = {**trained_by, **stated_axes(fields)}
    report = _report(fields, axes, where)
    if report.seed is None:
        report = msgspec.structs.replace(report, seed=seed_in_words(report.notes))
    key = fields.get("key")
    if not isinstance(key, str) or not key:
        key = key_of(method, {}, report.seed)
    return AuditRow(
        source=source, key=key, method=method, seed=report.seed, report=report, axes=axes
    )


def _report(fields: Json, axes: Json, where: str) -> DiagnosticReport:
    """An entry as a report. Without per-layer norms its ``max_per_block`` is the exact growth."""
    columns = given_in(fields)
    names = {
        "method_name": "method",
        **{name: name for name in ("seed", "notes", "verdict", "intervals")},
    }
    spelled = {own: columns.whole[name] for own, name in names.items() if name in columns.whole}
    said = convert_spelled(
        {own: fields[name] for own, name in spelled.items()}, DiagnosticReport, where, spelled
    )
    unused = [sanitize(name) for name in fields.keys() - used_in(columns) - axes.keys() - _REPORTED]
    if unused:
        note = f"in the list, not used: {listed(sorted(unused), 6)}"
    else:
        note = ""
    measured = epoch_of(fields, where)
    return msgspec.structs.replace(
        measured.report(said.method_name, said.seed),
        axes=axes,
        credit={"gamma": measured.gamma} if measured.gamma else None,
        intervals=said.intervals,
        recorded_verdict=said.recorded_verdict,
        notes="; ".join(filter(None, [said.notes, note])),
    )
