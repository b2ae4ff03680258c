"""Format 1: the audit table, ``{"reports": {"<method>_s<seed>": report}, "summary": [...]}``, a
part of it, a journal.

Of a big table the numbers become columns at once, and the rest of a report is decoded when its row
is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from fa_core.decode import LARGEST, RepeatedKeys, is_odd
from fa_core.errors import UnreadableInput
from fa_core.facts.runs import numbered
from fa_core.formats.audit_table_writer import unique_keys
from fa_core.formats.json_document import Attempts, Document, Finding, Node, convert, plain
from fa_core.formats.report_object import (
    MEASURED,
    decode_report,
    identity_of,
    read_list,
    row_of,
    sniff_list,
)
from fa_core.judgement.baseline import with_measured_baselines
from fa_core.judgement.diagnostics import DiagnosticThresholds
from fa_core.report import (
    MOST_LAYERS,
    SOURCE_DRIFT,
    Credit,
    DiagnosticReport,
    Provenance,
    longest_list,
)
from fa_core.rows import UNREAD, AuditRow, LazyRow, Problem

if TYPE_CHECKING:
    from fa_core.table import AuditTable

_REPORT = msgspec.json.Decoder(DiagnosticReport)

_BATCH = 2000
"""Reports decoded at a time: so many are in memory at once."""

_DECIDING = (*MEASURED, "frozen_baseline_acc", "growth_bound")
"""Keys that decide a verdict."""


_OF_A_REPORT = frozenset(
    {"method_name", "residual_norms", "bp_grad_norms", "cross_batch_stability", "verdict"}
)
"""Two of these in the first member of an object show that its members are reports."""


def sniff(document: Document) -> bool:
    """Whether the object has ``reports`` or a ``summary`` that lists runs, or is itself one of
    reports."""
    if document.kind != "object" or "reports" in document.members:
        return document.kind == "object"
    if "summary" in document.members and _listed(document, "summary"):
        return True
    first = plain(next(iter(document.members.values()), None))
    return isinstance(first, dict) and len(_OF_A_REPORT & first.keys()) > 1


def _listed(document: Document, name: str) -> Document | None:
    """A member that is a list of runs, as a document of format 3."""
    listed = document.listed(name)
    if listed and sniff_list(listed):
        return listed
    return None


def read(document: Document) -> Iterator[Finding]:
    """The rows, the reports that are none, and the keys that occur more than once.

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
        convert(reports, dict[str, Any], place)  # says what it is instead
    if isinstance(next(iter(reports.values()), None), msgspec.Raw):
        yield from _lazy_rows(document, reports)
        return
    if isinstance(reports, RepeatedKeys):
        names = numbered(key for key, _ in reports.pairs)
        for name, (key, _) in zip(names, reports.pairs, strict=True):
            if name != key:
                said = f"{place}.{key}: the key stands more than once; one more is read as {name}"
                yield Problem(document.path, said)
        reports = {name: report for name, (_, report) in zip(names, reports.pairs, strict=True)}
    attempt = Attempts(document.path)
    for key, node in reports.items():
        report = attempt(_reading(document.path, key, node), "report")
        yield report if isinstance(report, Problem) else row_of(document.path, key, report)


def sniff_journal(document: Document) -> bool:
    """Whether the first line is that of a `fa_core.engine.journal`."""
    if document.kind == "object":
        first = document.members
    else:
        first = next((fields for _, fields in document.objects(1)), {})
    return document.kind != "list" and "journal" in first and "pid" in first


def read_journal(document: Document) -> Iterator[Finding]:
    """The rows of an audit that goes on, or was ended before its table was written; (d) by its own
    frozen runs."""
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


class StoredReports:
    """The reports of a big file (a `RowStore`), each a view of the file's text.

    Attributes:
        source: the file.
        keys: their names in it.
        nodes: the reports.
        doubtful: slots of those that only the slow decoder reads.
        numbers: what was measured, as columns.
    """

    numbers: AuditTable

    def __init__(self, source: str) -> None:
        self.source = source
        self.keys: list[str] = []
        self.nodes: list[msgspec.Raw] = []
        self.doubtful: set[int] = set()
        # what is on screen is asked for again and again
        self.report = lru_cache(maxsize=1024)(self._report)

    def _report(self, slot: int) -> DiagnosticReport:
        with suppress(ValueError, RecursionError):
            if slot in self.doubtful:
                report = None
            else:
                report = _REPORT.decode(self.nodes[slot])
            # only these two may hold what is not sane
            if report and not report.credit and not report.provenance:
                return report
        try:
            return decode_report(self.nodes[slot], f"{self.source}: $.reports.{self.keys[slot]}")
        except UnreadableInput as error:  # what lies nested too deep in it, which no column needs
            return DiagnosticReport(notes=str(error))

    def text(self, slot: int) -> bytes:
        """One report as the file spells it."""
        return bytes(self.nodes[slot])


def _lazy_rows(document: Document, members: dict[str, msgspec.Raw]) -> Iterator[Finding]:
    """The reports of a big file as rows, and those that cannot be read as problems.

    Args:
        document: the file.
        members: its reports; emptied.
    """
    # imported for a big table: NumPy takes longer to import than a small one to read
    from fa_core.table import AuditTable

    source, decode = document.path, _lean_decoder()
    is_sane = not is_odd(document.data)
    # the fast decoder knows one name a field
    is_plain = SOURCE_DRIFT.encode() not in document.data
    store = StoredReports(source)
    attempt = Attempts(source)
    parts: list[AuditTable] = []
    rows: list[AuditRow] = []
    keys, nodes = list(members), list(members.values())
    members.clear()  # a tenth of the memory that all takes
    for start in range(0, len(keys), _BATCH):
        batch = list(zip(keys[start : start + _BATCH], nodes[start : start + _BATCH], strict=True))
        try:
            reports = [decode(node) for _, node in batch]
            numbers = AuditTable.of_reports(reports)
            is_valid = (
                is_plain
                and numbers.surely_valid()
                and not any(report.kept_verdict is not None for report in reports)
            )
            is_valid = is_valid and max(map(longest_list, reports)) <= MOST_LAYERS
            is_valid = is_valid and not _repeats([node for _, node in batch], reports)
            is_valid = is_valid and (is_sane or not is_odd(b"".join(node for _, node in batch)))
        except (ValueError, TypeError, RecursionError):  # not what the fast decoder reads
            is_valid = False
        if not is_valid:
            read = [(item, attempt(_reading(source, *item), "report")) for item in batch]
            yield from (report for _, report in read if isinstance(report, Problem))
            batch = [item for item, report in read if not isinstance(report, Problem)]
            reports = [report for _, report in read if not isinstance(report, Problem)]
            numbers = AuditTable.of_reports(reports)
            store.doubtful.update(range(len(store.nodes), len(store.nodes) + len(batch)))
        parts.append(numbers)
        rows += [
            LazyRow(
                source=source,
                key=key,
                report=UNREAD,
                store=store,
                slot=slot,
                **identity_of(key, report),
            )
            for slot, ((key, _), report) in enumerate(
                zip(batch, reports, strict=True), start=len(store.nodes)
            )
        ]
        store.keys += [key for key, _ in batch]
        store.nodes += [node for _, node in batch]
    del keys, nodes
    store.numbers = AuditTable.concat(parts)
    yield rows


_NUMBERS = [
    (field.name, field.type, field.default)
    for field in msgspec.structs.fields(DiagnosticThresholds)
]
_Integer = Annotated[int, msgspec.Meta(gt=-LARGEST // 2, lt=LARGEST // 2)]
_LEAN: dict[str, Any] = {
    "thresholds": msgspec.defstruct("LeanThresholds", _NUMBERS, gc=False),
    "seed": _Integer | None,
    "axes": dict[str, str | _Integer | float | bool | None],
    "credit": Credit | None,
    "provenance": Provenance,
}
"""Field → what the lean decoder reads it as, where that is another type than a report's."""


def _lean_decoder() -> Callable[[Node], Any]:
    """A decoder of reports in four fifths of the time of `DiagnosticReport`: no check of
    thresholds, no empty lists."""
    fields: list[tuple[str, Any, Any]] = [("kept_verdict", str | None, None)]
    for field in msgspec.structs.fields(DiagnosticReport):
        kind = _LEAN.get(field.name, field.type)
        if field.default is msgspec.NODEFAULT:
            default = ()
        else:
            default = field.default
        fields.append((field.name, kind, msgspec.field(default=default, name=field.encode_name)))
    lean = msgspec.defstruct(
        "LeanReport", fields, gc=False, rename={"kept_verdict": "recorded_verdict"}
    )
    return msgspec.json.Decoder(lean).decode


def _repeats(nodes: Sequence[msgspec.Raw], reports: Sequence[Any]) -> bool:
    """Whether a key that decides a verdict is in a report twice; `reports` are the decoded
    nodes."""
    text = b"".join(nodes)
    for name in _DECIDING:
        found = b'"%s"' % name.encode()
        values = list(map(attrgetter(name), reports))
        expected = len(values) - values.count(None) - values.count(())
        # one that is null, or a text, is found more often than it is expected
        if text.count(found) != expected and any(bytes(node).count(found) > 1 for node in nodes):
            return True
    return False


def _reading(source: str, key: str, node: Node) -> Callable[[], DiagnosticReport]:
    return partial(decode_report, node, f"{source}: $.reports.{key}")
