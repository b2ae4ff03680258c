"""The rows of an audit table as they stand in the file, decoded when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypeAlias, overload

import msgspec

from fa_core.errors import FaError
from fa_core.formats.document import Node
from fa_core.formats.findings import Trace
from fa_core.formats.lean import Lean, lean_type
from fa_core.formats.reports import decode_report, row_of
from fa_core.formats.sliced import SlicedRows
from fa_core.rows import AuditRow, Problem


@cache
def _lean_decoder() -> msgspec.json.Decoder[Lean]:
    return msgspec.json.Decoder(lean_type())


class StoredRows(Sequence[AuditRow]):
    """Rows kept as JSON: a tenth of the memory of report objects. Not checked before they are decoded.

    Args:
        source: the file.
        keys: the rows' names in it.
        nodes: their reports.
    """

    def __init__(self, source: str, keys: Sequence[str], nodes: Sequence[Node]) -> None:
        self.source = source
        self.keys = keys
        self._nodes = nodes

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, index: int) -> AuditRow: ...
    @overload
    def __getitem__(self, index: slice) -> StoredRows: ...
    def __getitem__(self, index: int | slice) -> AuditRow | StoredRows:
        """A row, or some of them.

        Raises:
            UnreadableInput: the row's report is none.
        """
        if isinstance(index, slice):
            return StoredRows(self.source, self.keys[index], self._nodes[index])
        key = self.keys[index]
        return row_of(self.source, key, decode_report(self._nodes[index], f"{self.source}: $.reports.{key}"))

    def checked(self) -> Iterator[AuditRow | Problem]:
        """Each row, or what is wrong with it."""
        return map(self._row_or_problem, range(len(self)))

    def decoded(self) -> list[Lean] | None:
        """All reports (the attributes of `DiagnosticReport`), numbers unchecked; None if one is slow to decode."""
        try:
            decode = _lean_decoder().decode
            return [decode(node) for node in self._nodes]
        except (ValueError, TypeError, RecursionError):
            return None

    def _row_or_problem(self, index: int) -> AuditRow | Problem:
        try:
            return self[index]
        except FaError as error:
            return Problem(self.source, f"{error}; the report is skipped")


Finding: TypeAlias = AuditRow | StoredRows | SlicedRows | Trace | Problem
"""What reading a file yields."""
