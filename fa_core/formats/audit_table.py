"""Format 1: the audit table, ``{"reports": {"<method>_s<seed>": report}, "summary": [...]}``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import overload

import msgspec

from fa_core.errors import FaError, UnreadableInput
from fa_core.formats.document import Document, Node, RepeatedKeys, convert, loads_keeping_repeats
from fa_core.formats.findings import Finding, RowBlock
from fa_core.formats.reports import decode_report, row_of
from fa_core.rows import AuditRow, Problem

NAME = "audit table"
MARKERS = (b'"reports"', b'"summary"')
_CHUNK = 2000


def sniff(document: Document) -> bool:
    """Whether the object has ``reports``."""
    return document.kind == "object" and "reports" in document.members


def read(document: Document) -> Iterator[Finding]:
    """The rows in blocks of 2,000, and the reports that are none.

    Raises:
        UnreadableInput: ``reports`` is not an object, or none of its reports can be read.
    """
    place = f"{document.path}: $.reports"
    reports = _members(document.members["reports"], place)
    if isinstance(reports, RepeatedKeys):
        for key in reports.repeated:
            first = key.rpartition("#")[0]
            yield Problem(document.path, f"{place}.{first}: the key stands more than once; one more is read as {key}")
    may_differ = b'"recorded_verdict"' in document.data
    readable, failures = 0, list[Problem]()
    entries = iter(reports.items())
    while chunk := list(islice(entries, _CHUNK)):
        rows: list[AuditRow] = []
        kept: list[tuple[str, Node]] = []
        for key, node in chunk:
            try:
                report = decode_report(node, f"{place}.{key}", may_differ=may_differ)
            except FaError as error:
                failures.append(Problem(document.path, f"{error}; the report is skipped"))
            else:
                rows.append(row_of(document.path, key, report))
                kept.append((key, node))
        readable += len(rows)
        if rows:
            yield RowBlock(rows, StoredRows(document.path, kept, may_differ))
    if failures and not readable:
        raise UnreadableInput(
            f"none of the {len(failures)} reports can be read, the first because: {failures[0].message}",
            where=document.path,
        )
    yield from failures


class StoredRows(Sequence[AuditRow]):
    """Rows kept as JSON and decoded on access: a tenth of the memory of report objects."""

    def __init__(self, source: str, entries: Sequence[tuple[str, Node]], may_differ: bool) -> None:
        self._source = source
        self._entries = entries
        self._may_differ = may_differ

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> AuditRow: ...
    @overload
    def __getitem__(self, index: slice) -> StoredRows: ...
    def __getitem__(self, index: int | slice) -> AuditRow | StoredRows:
        if isinstance(index, slice):
            return StoredRows(self._source, self._entries[index], self._may_differ)
        key, node = self._entries[index]
        place = f"{self._source}: $.reports.{key}"
        return row_of(self._source, key, decode_report(node, place, may_differ=self._may_differ))


def _members(node: Node, place: str) -> Mapping[str, Node]:
    """The members of ``reports``, one level deep; `RepeatedKeys` if a key stands twice."""
    if not isinstance(node, msgspec.Raw):
        if isinstance(node, dict):
            return node
        raise UnreadableInput(f"not an object but a {type(node).__name__}", where=place, hint="see `fa-tui schema`")
    members = convert(node, dict[str, msgspec.Raw], place)
    return members if _is_gapless(node, members) else _read_again(node, members)


def _is_gapless(node: msgspec.Raw, members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether the members fill the object, supposing that all are set apart like the first.

    A decoder drops the earlier of two equal keys without a word; then bytes are left over. Adding lengths
    costs a hundredth of reading; what it doubts (mixed indentation, escaped keys) is read again slowly.
    """
    if not members:
        return True
    text = memoryview(node)
    first_key, first = next(iter(members.items()))
    head = bytes(text[: 4096 + len(memoryview(first))])
    before_first = head.find(bytes(first))
    tail = bytes(text[-4096:])
    after_last = len(tail) - len(tail[:-1].rstrip())
    names = "".join(members)
    if before_first < 0 or not names.isascii():
        return False
    per_member = before_first - len(first_key)
    values = sum(map(len, map(memoryview, members.values())))
    return len(text) == values + len(names) + per_member * len(members) + after_last


def _read_again(node: msgspec.Raw, members: Mapping[str, Node]) -> Mapping[str, Node]:
    again = loads_keeping_repeats(bytes(node))
    return again if isinstance(again, RepeatedKeys) else members
