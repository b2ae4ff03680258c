"""Decoding of report objects as rows: format 2 (one report), format 3 (a list).

A list's entry has a method, a seed and verdicts like ``walk-back: (a)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

import msgspec

from fa_core.errors import InvalidReport, UnreadableInput
from fa_core.files.decode import Json
from fa_core.formats.json_document import (
    Document,
    Finding,
    Node,
    attempt,
    convert,
)
from fa_core.formats.rows import AuditRow, Problem, row_of_file
from fa_core.option_values import listed
from fa_core.report.diagnostic_report import SOURCE_DRIFT, DiagnosticReport
from fa_core.report.names import (
    axes_of,
    control_of,
    key_of,
    named_axis,
    numbered,
    split_key,
)

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
        raise InvalidReport(
            "none of a report's fields",
            where=where,
            hint=f"a report has some of {', '.join(sorted(MEASURED))}",
        )
    return report


def row_of(source: str, key: str, report: DiagnosticReport) -> AuditRow:
    """A report as a row: method, seed and axes from the key, or the report if the key has no seed.

    A ``#2`` after a key only distinguishes equal keys. The report's own axes are no part of the
    method's name.

    >>> row = row_of("a.json", "bp_data-digits_s42", DiagnosticReport(axes={"data": "digits"}))
    >>> row.method, row.seed
    ('bp', 42)
    """
    # with a sign behind each part: lam0 is no part of lam0.01
    plain = f"{key.rpartition('#')[0] or key}_"
    for axis, value in report.axes.items():
        plain = plain.replace(f"{named_axis(axis, value)}_", "_", 1)
    method, seed, axes = split_key(plain[:-1])
    if seed is None:
        seed = report.seed
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
        axes={**axes, **report.axes},
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
        ("method" in fields or "method_name" in fields) and _is_measured(fields)
        for _, fields in document.objects(_PEEK)
    )


def read_list(document: Document) -> Iterator[Finding]:
    """The rows of format 3, and problems for invalid entries."""
    parts = (
        partial(_entry_row, node, document.path, document.place(index))
        for index, node in document.items
    )
    rows, problems = rows_of(document.path, parts, "entry")
    yield from problems
    yield keyed(rows, numbered(row.key for row in rows))


MOST_AXES = 300
"""Most axes of the runs in a file: what compares runs goes through all of them for each run."""


def rows_of(
    path: str, parts: Iterable[Callable[[], AuditRow]], what: str
) -> tuple[list[AuditRow], list[Problem]]:
    """The rows of a file's parts, and problems for those that are invalid.

    Args:
        path: the file.
        parts: each reads a part; may raise a `FaError`.
        what: name of a part.

    Raises:
        UnreadableInput: runs of more axes than `MOST_AXES`.
    """
    found = [attempt(path, read, what) for read in parts]
    rows = [row for row in found if isinstance(row, AuditRow)]
    axes = len(set(chain.from_iterable(row.axes for row in rows)))
    if axes > MOST_AXES:
        raise UnreadableInput(
            f"its runs have {axes:,} axes",
            where=path,
            hint=f"split it, or record what differs in provenance: {MOST_AXES} at most",
        )
    return rows, [row for row in found if isinstance(row, Problem)]


def keyed(rows: Iterable[AuditRow], keys: Iterable[str]) -> list[AuditRow]:
    """The rows under other keys."""
    return [msgspec.structs.replace(row, key=key) for row, key in zip(rows, keys, strict=True)]


def _entry_row(node: Node, source: str, where: str) -> AuditRow:
    fields = convert(node, Json, where)
    name = fields.get("method") or fields.get("method_name")
    if not isinstance(name, str) or not _is_measured(fields):
        raise UnreadableInput("no method with something measured", where=where)
    method, trained_by = control_of(name)
    axes = {**trained_by, **axes_of(fields)}
    report = _report(fields, axes, where)
    key = fields.get("key")
    if not isinstance(key, str) or not key:
        key = key_of(method, {}, report.seed)
    return AuditRow(
        source=source, key=key, method=method, seed=report.seed, report=report, axes=axes
    )


_SPELLED = {
    "method": "method_name",
    "acc": "headline_acc",
    "h_norms": "residual_norms",
    "g_norms": "bp_grad_norms",
    "max_per_block": "growth_bound",
    "max_per_block_growth": "growth_bound",
    "stability": "cross_batch_stability",
    SOURCE_DRIFT: "cross_batch_stability",
    "frozen_acc": "frozen_baseline_acc",
    "test_acc": "headline_acc",
    "hidden_norms": "residual_norms",
}
"""Name in a list → field of a report, where they differ; without norms, growth is exact."""

_LAST = {"h_L": "residual_norms", "g_L": "bp_grad_norms"}
"""Name of the norm at layer L, which counts where a list has not those of all layers."""


def _is_measured(fields: Json) -> bool:
    """Whether an entry has an accuracy, norms of the stream or their growth."""
    named = {_SPELLED.get(name, name) for name, value in fields.items() if value is not None}
    return not named.isdisjoint((*MEASURED, "growth_bound", *_LAST))


def _report(fields: Json, axes: Json, where: str) -> DiagnosticReport:
    """An entry as a report."""
    found: Json = {}
    layers = {}
    unused = []
    for name, value in fields.items():
        field = _SPELLED.get(name, name)
        if field in _REPORTED and value is not None:
            found[field] = value
        elif field not in {*_LAST, *_REPORTED, *axes, "key"}:
            unused.append(name)
    for name, field in _LAST.items():
        if field not in found and fields.get(name) is not None:
            found[field] = [fields[name]]
            layers[field] = "L"
    if unused:
        note = f"in the list, not used: {listed(sorted(unused), 6)}"
        found["notes"] = "; ".join(filter(None, [str(found.get("notes", "")), note]))
    report = convert({"layers": layers, **found, "axes": axes}, DiagnosticReport, where)
    return report.check(where)
