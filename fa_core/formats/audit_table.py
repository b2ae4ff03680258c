"""Format 1, the audit table: ``{"reports": {"<method>_s<seed>": report}, "summary": [...]}``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from fa_core.decode import Json, RepeatedKeys
from fa_core.errors import UnreadableInput
from fa_core.facts.run_names import numbered
from fa_core.formats.audit_table_writer import unique_keys
from fa_core.formats.json_document import Attempts, Document, Finding, convert, plain
from fa_core.formats.report_object import decode_report, read_list, row_of, sniff_list
from fa_core.row_baselines import with_measured_baselines
from fa_core.rows import AuditRow, Problem

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
    first = plain(next(iter(document.members.values()), None))
    return isinstance(first, dict) and len(_OF_A_REPORT & first.keys()) > 1


def _listed(document: Document, name: str) -> Document | None:
    """A member that lists runs, as a document of format 3."""
    listed = document.listed(name)
    if listed and sniff_list(listed):
        return listed
    return None


def read(document: Document) -> Iterator[Finding]:
    """The rows, and problems for invalid reports and repeated keys.

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
    if known and isinstance(members, RepeatedKeys):
        raise UnreadableInput(
            "malformed JSON: a key of the table stands more than once", where=document.path
        )
    reports = members.get("reports", members)
    if not isinstance(reports, dict):
        convert(reports, Json, place)  # the error names the actual type
    if isinstance(reports, RepeatedKeys):
        names = numbered(key for key, _ in reports.pairs)
        for name, (key, _) in zip(names, reports.pairs, strict=True):
            if name != key:
                what = f"{place}.{key}: the key stands more than once; one more is read as {name}"
                yield Problem(document.path, what)
        reports = {name: report for name, (_, report) in zip(names, reports.pairs, strict=True)}
    attempt = Attempts(document.path)
    for key, node in reports.items():
        where = f"{document.path}: $.reports.{key}"
        report = attempt(partial(decode_report, node, where), "report")
        yield report if isinstance(report, Problem) else row_of(document.path, key, report)


def sniff_journal(document: Document) -> bool:
    """Whether the first line is a header of `fa_core.engine.journal`."""
    if document.kind == "object":
        first = document.members
    else:
        first = next((fields for _, fields in document.objects(1)), {})
    return document.kind != "list" and "journal" in first and "pid" in first


def read_journal(document: Document) -> Iterator[Finding]:
    """The rows of a running or interrupted audit; (d) by its own frozen runs."""
    yield from document.problems
    attempt = Attempts(document.path)
    rows: list[AuditRow] = []
    for index, fields in document.items[1:]:
        where = f"{document.place(index)}: $.report"
        if isinstance(fields, dict):
            node = fields.get("report")
        else:
            node = None
        report = attempt(partial(decode_report, node, where), "report")
        if isinstance(report, Problem):
            yield report
        else:
            rows.append(row_of(document.path, "", report))
    named = [
        msgspec.structs.replace(row, key=key)
        for key, row in zip(unique_keys(rows), rows, strict=True)
    ]
    yield with_measured_baselines(named)
