"""The rows of an audit table as they stand in the file, decoded when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias, overload

import msgspec

from fa_core.errors import FaError
from fa_core.formats.document import Node
from fa_core.formats.findings import Trace
from fa_core.formats.reports import decode_report, row_of
from fa_core.report import DiagnosticReport, DiagnosticThresholds
from fa_core.rows import AuditRow, Problem


def _lean() -> type[msgspec.Struct]:
    """`DiagnosticReport` to take numbers out of: it refuses what that refuses, in four fifths of the time.

    All empty lists and dicts are one ``()``, and thresholds are not looked through for the NaN that msgspec refuses.
    `kept_verdict` is the recorded verdict that the report's own has replaced, if the file has kept one.
    """
    numbers = [(name, float, 0.0) for name in DiagnosticThresholds.__struct_fields__]
    thresholds = msgspec.defstruct("LeanThresholds", numbers, gc=False)
    fields: list[tuple[str, Any, Any]] = [
        ("kept_verdict", str | None, msgspec.field(default=None, name="recorded_verdict"))
    ]
    for field in msgspec.structs.fields(DiagnosticReport):
        kind = thresholds if field.type is DiagnosticThresholds else field.type
        default = () if field.default is msgspec.NODEFAULT else field.default
        fields.append((field.name, kind, msgspec.field(default=default, name=field.encode_name)))
    return msgspec.defstruct("LeanReport", fields, gc=False)


_LEAN = msgspec.json.Decoder(_lean())


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

    def decoded(self) -> list[Any] | None:
        """All reports (the attributes of `DiagnosticReport`), numbers unchecked; None if one is slow to decode."""
        try:
            return [_LEAN.decode(node) for node in self._nodes]
        except (ValueError, TypeError, RecursionError):
            return None

    def _row_or_problem(self, index: int) -> AuditRow | Problem:
        try:
            return self[index]
        except FaError as error:
            return Problem(self.source, f"{error}; the report is skipped")


Finding: TypeAlias = AuditRow | StoredRows | Trace | Problem
"""What reading a file yields."""
