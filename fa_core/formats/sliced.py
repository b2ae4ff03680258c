"""The rows of a big audit table: their numbers as columns at once, the rest decoded when a row is looked at."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

import msgspec

from fa_core import lenient_json
from fa_core.errors import FaError
from fa_core.formats.document import Node, RepeatedKeys, loads_keeping_repeats
from fa_core.formats.lean import lean_decoder, recorded_verdicts
from fa_core.formats.made_rows import MadeRows
from fa_core.formats.reports import decode_report
from fa_core.formats.stored_row import UNREAD, StoredRow
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem

if TYPE_CHECKING:
    from fa_core.formats.slices import Slice, Text
    from fa_core.report_columns import ReportColumns

T = TypeVar("T")

SLICED_FROM = 1 << 20
"""Bytes from which a table is read in slices; a smaller one is read faster whole, and without NumPy."""

REPORTS = b'"reports"'
"""What stands at the beginning of a file that `read_sliced` can read."""

_BATCH = 32
_REPORTS_REMEMBERED = 1024
_SLICES_REMEMBERED = 16
_RAWS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class SlicedRows(MadeRows):
    """Rows as columns, with the text they were read from.

    Args:
        source: the file.
        columns: what was read.
        text: what it was read from.
        slices: where in the text the rows are.
        counts: how many of them are in each slice.
    """

    def __init__(
        self, source: str, columns: ReportColumns, text: Text, slices: Sequence[Slice], counts: Sequence[int]
    ) -> None:
        self.source = source
        self.columns = columns
        self.slices = slices
        self.counts = counts
        self.has_credit = columns.has_credit
        self._text = text
        self._ends = list(accumulate(counts))
        self._decoded: dict[int, DiagnosticReport] = {}
        self._opened: dict[int, Mapping[str, Node]] = {}

    def __len__(self) -> int:
        return len(self.columns)

    def made(self, index: int) -> StoredRow:
        """One row, its report not read yet."""
        columns = self.columns
        return StoredRow(
            source=self.source,
            key=columns.key[index],
            method=columns.method[index],
            seed=columns.seed[index],
            report=UNREAD,
            checkpoint=columns.checkpoint[index],
            axes=columns.axes[index],
            store=self,
            slot=index,
        )

    def __iter__(self) -> Iterator[AuditRow]:
        columns = self.columns
        names = zip(columns.key, columns.method, columns.seed, columns.checkpoint, columns.axes, strict=True)
        for slot, (key, method, seed, checkpoint, axes) in enumerate(names):
            yield StoredRow(
                source=self.source,
                key=key,
                method=method,
                seed=seed,
                report=UNREAD,
                checkpoint=checkpoint,
                axes=axes,
                store=self,
                slot=slot,
            )

    def report(self, slot: int) -> DiagnosticReport:
        """One row's report. The last few are remembered: what is on screen is looked at again and again."""
        known = self._decoded.get(slot)
        if known is None:
            known = decode_report(self._node(slot), f"{self.source}: $.reports.{self.columns.key[slot]}")
            if len(self._decoded) >= _REPORTS_REMEMBERED:
                self._decoded.clear()
            self._decoded[slot] = known
        return known

    def text(self, slot: int) -> bytes | None:
        """One row's report as it stands in the file; None where only a slow decoder can read it."""
        node = self._node(slot)
        return bytes(node) if isinstance(node, msgspec.Raw) else None

    def _node(self, slot: int) -> Node:
        return self._nodes(bisect_right(self._ends, slot))[self.columns.key[slot]]

    def _nodes(self, number: int) -> Mapping[str, Node]:
        """The members of a slice."""
        nodes = self._opened.get(number)
        if nodes is None:
            nodes = _members(self._text.object_of(self.slices[number]))
            if len(self._opened) >= _SLICES_REMEMBERED:
                self._opened.clear()
            self._opened[number] = nodes
        return nodes


class SlicedTable(NamedTuple):
    """What a big audit table holds: rows, and what is wrong with the others."""

    rows: SlicedRows
    problems: list[Problem]


def read_sliced(path: str, file: BinaryIO, head: bytes) -> SlicedTable | None:
    """A big audit table; None for another file, and where something about it is so odd that it has to be read whole.

    That is one that ends too early, and one with a key twice.

    Args:
        path: the file.
        file: the same, opened for reading.
        head: its first bytes.
    """
    from fa_core.formats.slices import Text, slices
    from fa_core.report_columns import ReportColumns

    try:
        text = Text(os.fstat(file.fileno()).st_size)
        reader = _Reader(path, text)
        pieces = slices(text, file, head)
        while batch := list(islice(pieces, _BATCH)):
            reader.take(batch)
    except (ValueError, RecursionError):
        return None
    columns = ReportColumns.concat(reader.columns)
    if len(set(columns.key)) < len(columns):
        return None
    return SlicedTable(SlicedRows(path, columns, text, reader.slices, reader.counts), reader.problems)


class _Reader:
    """Reads slices into columns."""

    def __init__(self, path: str, text: Text) -> None:
        self.columns: list[ReportColumns] = []
        self.slices: list[Slice] = []
        self.counts: list[int] = []
        self.problems: list[Problem] = []
        self._path = path
        self._text = text
        self._lean = lean_decoder()

    def take(self, batch: Sequence[Slice]) -> None:
        """Take some slices.

        Raises:
            ValueError: a slice is no JSON object, or has a key twice.
        """
        from fa_core.report_columns import Numbers, ReportColumns

        objects = [self._text.object_of(piece) for piece in batch]
        read = [self._lean(data) for data in objects]
        if None not in read and (numbers := Numbers.of(reports := _values(read))).surely_valid():
            recorded = recorded_verdicts(reports)
        else:
            surely = [reports is not None for reports in read]
            read = [dict(self._checked(data, sure)) for data, sure in zip(objects, surely, strict=True)]
            reports = _values(read)
            recorded = [report.recorded_verdict for report in reports]
            numbers = Numbers.of(reports)
        keys = [key for members in read for key in members or ()]
        self.columns.append(ReportColumns.of(keys, reports, recorded, numbers))
        self.slices += batch
        self.counts += [len(members or ()) for members in read]

    def _checked(self, data: bytes, surely: bool) -> Iterator[tuple[str, DiagnosticReport]]:
        """The slice's good reports; the others become problems.

        Args:
            data: the slice.
            surely: whether it is known that no key stands twice.
        """
        if not surely and isinstance(loads_keeping_repeats(data), RepeatedKeys):
            raise ValueError("a key stands twice")
        for key, node in _members(data).items():
            report = self._report(key, node)
            if report is not None:
                yield key, report

    def _report(self, key: str, node: Node) -> DiagnosticReport | None:
        try:
            return decode_report(node, f"{self._path}: $.reports.{key}")
        except FaError as error:
            self.problems.append(Problem(self._path, f"{error}; the report is skipped"))
            return None


def _members(data: bytes) -> Mapping[str, Node]:
    """The members of a slice."""
    try:
        return _RAWS.decode(data)
    except msgspec.DecodeError:  # NaN, which Python writes
        members: dict[str, Any] = lenient_json.loads(data)
        return members


def _values(read: Sequence[Mapping[str, T] | None]) -> list[T]:
    return [value for members in read if members for value in members.values()]
