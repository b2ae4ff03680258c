"""Format 2: one report object, alone in its file."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fa_core.formats.document import Document
from fa_core.formats.naming import run_name
from fa_core.formats.reports import MEASURED, decode_report, row_of
from fa_core.formats.stored import Finding
from fa_core.rows import AuditRow


def sniff(document: Document) -> bool:
    """Whether the object has a measured field of a report, and no epoch."""
    return document.kind == "object" and not MEASURED.isdisjoint(document.members) and "epoch" not in document.members


def read(document: Document) -> Iterator[Finding]:
    """The one row.

    Raises:
        UnreadableInput: a field of the wrong type.
        InvalidReport: numbers that contradict each other.
    """
    report = decode_report(msgspec.Raw(document.data), f"{document.path}: $")
    name = run_name(document.path)
    row = row_of(document.path, name.key, report)
    if row.seed is None and name.seed is not None:
        row = AuditRow(
            source=row.source,
            key=row.key,
            method=row.method if report.method_name.strip() else name.method,
            seed=name.seed,
            report=report,
            checkpoint=row.checkpoint,
            axes={**name.axes, **row.axes},
        )
    yield row
