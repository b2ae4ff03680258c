"""Format 1, the audit table: ``{"reports": {"<method>_s<seed>": report}, "summary": [...]}``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fa_core.files.decode import Json
from fa_core.formats.audit_table_writer import unique_keys
from fa_core.formats.json_document import Document, Finding, Node, convert
from fa_core.formats.report_object import (
    decode_report,
    keyed,
    read_list,
    row_of,
    rows_of,
    sniff_list,
)
from fa_core.formats.row_baselines import with_measured_baselines
from fa_core.formats.rows import AuditRow

_OF_A_REPORT = frozenset(
    {"method_name", "residual_norms", "bp_grad_norms", "cross_batch_stability", "verdict"}
)
"""Fields of which a report has at least two."""


def sniff(document: Document) -> bool:
    """Whether the object has ``reports`` or a ``summary`` list of runs, or its members are
    reports."""
    if document.kind != "object" or "reports" in document.members:
        return document.kind == "object"
    if "summary" in document.members and _listed(document, "summary"):
        return True
    first = next(iter(document.members.values()), None)
    return isinstance(first, dict) and len(_OF_A_REPORT & first.keys()) > 1


def _listed(document: Document, name: str) -> Document | None:
    """A member that lists runs, as a document of format 3."""
    listed = document.listed(name)
    if listed and sniff_list(listed):
        return listed
    return None


def read(document: Document) -> Iterator[Finding]:
    """The rows, and problems for invalid reports.

    Raises:
        UnreadableInput: ``reports`` is not an object.
    """
    members = document.members
    known = next((name for name in ("reports", "summary") if name in members), "")
    if known and not isinstance(members[known], dict) and (listed := _listed(document, known)):
        yield from read_list(listed)
        return
    if known:
        place = f"{document.path}: $.reports"
    else:
        place = f"{document.path}: $"
    reports = members.get("reports", members)
    if not isinstance(reports, dict):
        convert(reports, Json, place)  # the error names the actual type
    parts = (partial(_row, document.path, key, node) for key, node in reports.items())
    rows, problems = rows_of(document.path, parts, "report")
    yield from problems
    yield rows


def _row(path: str, key: str, node: Node) -> AuditRow:
    where = f"{path}: $.reports.{key}"
    return row_of(path, key, decode_report(node, where), where)


def sniff_journal(document: Document) -> bool:
    """Whether the first line is a header of `fa_core.audit.journal`."""
    if document.kind == "object":
        first = document.members
    else:
        first = next((fields for _, fields in document.objects(1)), {})
    return document.kind != "list" and "journal" in first and "pid" in first


def read_journal(document: Document) -> Iterator[Finding]:
    """The rows of a running or interrupted audit; (d) by its own frozen runs."""
    yield from document.problems
    parts = (
        partial(_line_row, document.path, node, f"{document.place(index)}: $.report")
        for index, node in document.items[1:]
    )
    rows, problems = rows_of(document.path, parts, "report")
    yield from problems
    yield with_measured_baselines(keyed(rows, unique_keys(rows)))


def _line_row(path: str, node: Node, where: str) -> AuditRow:
    fields = node if isinstance(node, dict) else {}
    return row_of(path, "", decode_report(fields.get("report"), where), where)
