"""Format 1: the audit table, ``{"reports": {"<method>_s<seed>": report}, "summary": [...]}``, a part of it, a journal.

Of a big table the numbers become columns at once, and the rest of a report is decoded when its row is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from fa_core.baseline import with_measured_baselines
from fa_core.decode import LARGEST, RepeatedKeys, is_odd, loads
from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import UnreadableInput
from fa_core.formats.audit_table_writer import unique_keys
from fa_core.formats.json_document import Document, Finding, Node, attempt, convert, plain
from fa_core.formats.reports import MEASURED, decode_report, identity_of, read_list, row_of, sniff_list
from fa_core.report import Credit, DiagnosticReport, Provenance
from fa_core.rows import UNREAD, AuditRow, LazyRow, Problem
from fa_core.runs import numbered

if TYPE_CHECKING:
    from fa_core.table import AuditTable

LAZY_FROM = 1 << 20
"""Bytes from which a table's rows are lazy; those of a smaller one are decoded at once, without NumPy."""

_BATCH = 2000
"""Reports decoded at a time: so many are in memory at once."""

_REMEMBERED = 1024
_DECIDING = tuple(b'"%s"' % name.encode() for name in (*MEASURED, "frozen_baseline_acc", "growth_bound"))
"""Keys that decide a verdict."""
_BRACE = 64  # bytes in which an object's brace follows its last member


_OF_A_REPORT = frozenset({"method_name", "residual_norms", "bp_grad_norms", "cross_batch_stability", "verdict"})
"""Two of these in the first member of an object show that its members are reports."""


def sniff(document: Document) -> bool:
    """Whether the object has ``reports`` or a ``summary`` that lists runs, or is itself one of reports."""
    if document.kind != "object" or "reports" in document.members:
        return document.kind == "object"
    if "summary" in document.members and _listed(document, "summary"):
        return True
    first = plain(next(iter(document.members.values()), None))
    return isinstance(first, dict) and len(_OF_A_REPORT & first.keys()) > 1


def _listed(document: Document, name: str) -> Document | None:
    """A member that is a list of runs, as a document of format 3."""
    found = plain(document.members[name])
    items = list(enumerate(found)) if isinstance(found, list) else []
    listed = Document(path=document.path, kind="list", items=items, at=f"$.{name}")
    return listed if sniff_list(listed) else None


def read(document: Document) -> Iterator[Finding]:
    """The rows, the reports that are none, and the keys that occur more than once.

    Raises:
        UnreadableInput: ``reports`` is not an object.
    """
    known = [name for name in ("reports", "summary") if name in document.members]
    if known and not _is_object(document.members[known[0]]) and (listed := _listed(document, known[0])):
        yield from read_list(listed)
        return
    place = f"{document.path}: $.reports" if known else f"{document.path}: $"
    reports = _members(document, place)
    if isinstance(reports, RepeatedKeys):
        names = numbered(key for key, _ in reports.pairs)
        for name, (key, _) in zip(names, reports.pairs, strict=True):
            if name != key:
                said = f"{place}.{key}: the key stands more than once; one more is read as {name}"
                yield Problem(document.path, said)
        reports = {name: report for name, (_, report) in zip(names, reports.pairs, strict=True)}
    if len(document.data) >= LAZY_FROM:
        yield from _lazy_rows(document.path, reports, _is_odd(document.data, len(reports)))
        return
    for key, node in reports.items():
        report = _report_or_problem(document.path, key, node)
        yield report if isinstance(report, Problem) else row_of(document.path, key, report)


def sniff_journal(document: Document) -> bool:
    """Whether the first line is that of a `fa_core.engine.journal`."""
    first = document.members if document.kind == "object" else next((fields for _, fields in document.objects(1)), {})
    return document.kind != "list" and "journal" in first and "pid" in first


def read_journal(document: Document) -> Iterator[Finding]:
    """The rows of an audit that goes on, or was ended before its table was written; (d) by its own frozen runs."""
    yield from document.problems
    rows: list[AuditRow] = []
    for index, fields in document.items[1:]:
        where = f"{document.place(index)}: $.report"
        node = fields.get("report") if isinstance(fields, dict) else None
        report = attempt(partial(decode_report, node, where), document.path, "report")
        if isinstance(report, Problem):
            yield report
        else:
            rows.append(row_of(document.path, "", report))
    named = [msgspec.structs.replace(row, key=key) for key, row in zip(unique_keys(rows), rows, strict=True)]
    yield with_measured_baselines(named)


class StoredReports:
    """The undecoded reports of one file (a `RowStore`), each a view of the file's text.

    Attributes:
        source: the file.
        keys: their names in it.
        nodes: the reports.
        numbers: what was measured, as columns.
    """

    numbers: AuditTable

    def __init__(self, source: str) -> None:
        self.source = source
        self.keys: list[str] = []
        self.nodes: list[Node] = []
        self._decoded: dict[int, DiagnosticReport] = {}

    def report(self, slot: int) -> DiagnosticReport:
        """One report. The last few are remembered: what is on screen is asked for again and again."""
        known = self._decoded.get(slot)
        if known is None:
            try:
                known = decode_report(self.nodes[slot], f"{self.source}: $.reports.{self.keys[slot]}")
            except UnreadableInput as error:  # what lies nested too deep in it, which no column needs
                known = DiagnosticReport(notes=str(error))
            if len(self._decoded) >= _REMEMBERED:
                self._decoded.clear()
            self._decoded[slot] = known
        return known

    def text(self, slot: int) -> bytes | None:
        """One report as the file spells it; None where Python's json had to read it."""
        node = self.nodes[slot]
        return bytes(node) if isinstance(node, msgspec.Raw) else None


def _lazy_rows(source: str, members: dict[str, Node], odd: bool) -> Iterator[Finding]:
    """The reports of a big file as rows, and those that cannot be read as problems.

    Args:
        source: the file.
        members: its reports; emptied.
        odd: whether some of them may be odd (see `_is_odd`).
    """
    # imported for a big table: NumPy takes longer to import than a small one to read
    from fa_core.table import AuditTable

    decode = _lean_decoder()
    store = StoredReports(source)
    parts: list[AuditTable] = []
    rows: list[AuditRow] = []
    keys, nodes = list(members), list(members.values())
    members.clear()  # a tenth of the memory that all takes
    for start in range(0, len(keys), _BATCH):
        batch = list(zip(keys[start : start + _BATCH], nodes[start : start + _BATCH], strict=True))
        try:
            reports = [decode(node) for _, node in batch]
            numbers = AuditTable.of_reports(reports)
            is_valid = numbers.surely_valid() and all(map(_is_in_range, reports))
            is_valid = is_valid and not (odd and any(_is_odd(bytes(node), 1) for _, node in batch))
        except (ValueError, TypeError, RecursionError):  # not what the fast decoder reads
            is_valid = False
        if not is_valid:
            read = [(item, _report_or_problem(source, *item)) for item in batch]
            yield from (report for _, report in read if isinstance(report, Problem))
            batch = [item for item, report in read if not isinstance(report, Problem)]
            reports = [report for _, report in read if not isinstance(report, Problem)]
            numbers = AuditTable.of_reports(reports)
        parts.append(numbers)
        for slot, ((key, _), report) in enumerate(zip(batch, reports, strict=True), start=len(store.nodes)):
            method, seed, axes, checkpoint = identity_of(key, report)
            rows.append(
                LazyRow(
                    source=source,
                    key=key,
                    method=method,
                    seed=seed,
                    report=UNREAD,
                    checkpoint=checkpoint,
                    axes=axes,
                    store=store,
                    slot=slot,
                )
            )
        store.keys += [key for key, _ in batch]
        store.nodes += [node for _, node in batch]
    del keys, nodes
    store.numbers = AuditTable.concat(parts)
    yield rows


_NUMBERS = [(field.name, field.type, field.default) for field in msgspec.structs.fields(DiagnosticThresholds)]
_LEAN: dict[str, Any] = {
    "thresholds": msgspec.defstruct("LeanThresholds", _NUMBERS, gc=False),
    "credit": Credit | None,
    "provenance": Provenance,
}
"""Field → what the lean decoder reads it as, where that is another type than a report's."""


def _lean_decoder() -> Callable[[Node], Any]:
    """A decoder of reports in four fifths of the time of `DiagnosticReport`: no check of thresholds, no empty lists.

    It gives the attributes of a report, and as ``recorded_verdict`` what `decode_report` does.
    """
    fields: list[tuple[str, Any, Any]] = []
    for field in msgspec.structs.fields(DiagnosticReport):
        kind = _LEAN.get(field.name, field.type)
        default = () if field.default is msgspec.NODEFAULT else field.default
        name = "own_verdict" if field.name == "recorded_verdict" else field.name
        fields.append((name, kind, msgspec.field(default=default, name=field.encode_name)))
    fields.append(("kept_verdict", str | None, msgspec.field(default=None, name="recorded_verdict")))
    verdict = property(lambda report: report.own_verdict if report.kept_verdict is None else report.kept_verdict)
    lean = msgspec.defstruct("LeanReport", fields, gc=False, namespace={"recorded_verdict": verdict})
    return msgspec.json.Decoder(lean).decode


def _is_in_range(lean: Any) -> bool:
    """Whether the integers that name a run fit into 64 bits."""
    numbers = [lean.seed, *lean.axes.values()] if lean.axes else [lean.seed]
    return not any(type(number) is int and abs(number) >= LARGEST for number in numbers)


def _is_odd(text: bytes, reports: int) -> bool:
    """Whether some of so many reports are to be decoded with all checks: a key that may occur twice, odd texts."""
    return any(text.count(name) > reports for name in _DECIDING) or is_odd(text)


def _report_or_problem(source: str, key: str, node: Node) -> DiagnosticReport | Problem:
    return attempt(partial(decode_report, node, f"{source}: $.reports.{key}"), source, "report")


def _is_object(node: Node) -> bool:
    return bytes(memoryview(node)[:1]) == b"{" if isinstance(node, msgspec.Raw) else isinstance(node, dict)


def _members(document: Document, place: str) -> dict[str, Node]:
    """The reports, one level deep; `RepeatedKeys` if a key occurs twice."""
    node = document.members.get("reports", document.members)
    members = convert(node, dict[str, msgspec.Raw], place) if isinstance(node, msgspec.Raw) else node
    if not isinstance(members, dict):
        raise UnreadableInput(f"not an object but a {type(members).__name__}", where=place, hint="see `fa-tui schema`")
    undecoded = isinstance(next(iter(members.values()), None), msgspec.Raw)  # all are, or none
    if undecoded and not _is_gapless(document.data, members):
        again = loads(document.data, repeats=True)
        again = again.get("reports", again)
        return again if isinstance(again, RepeatedKeys) else members
    return members


def _is_gapless(data: bytes, members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether the members fill their object from the first to the last, supposing equal gaps between all.

    A decoder drops the earlier of two equal keys silently; then bytes are left over. Adding lengths costs a hundredth
    of reading; what is in doubt (mixed indentation, escaped keys) is read again slowly.
    """
    names = list(members)
    joined = "".join(names)
    if len(names) < 2 or not joined.isascii():
        return False
    first, second, last = (bytes(members[name]) for name in (names[0], names[1], names[-1]))
    start = data.find(first)
    gap = data.find(second, start + len(first)) - start - len(first)
    values = sum([len(memoryview(value)) for value in members.values()])
    between = (gap - len(names[1])) * (len(names) - 1) + len(joined) - len(names[0])
    end = start + values + between
    return gap > 0 and data.startswith(last, end - len(last)) and data[end : end + _BRACE].lstrip().startswith(b"}")
