"""A row whose report is decoded when somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Protocol

from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow


class ReportStore(Protocol):
    """Where the reports of rows are; `has_credit`: whether any of them says something of credit quality."""

    has_credit: bool

    def report(self, slot: int) -> DiagnosticReport: ...

    def text(self, slot: int) -> bytes | None:
        """A report as it stands in the file, if that is at hand."""


UNREAD = DiagnosticReport()
"""What the row itself holds in place of its report."""

_own_report: Callable[[AuditRow], DiagnosticReport] = AuditRow.__dict__["report"].__get__
_content = attrgetter(*AuditRow.__struct_fields__)
_names = attrgetter(*(name for name in AuditRow.__struct_fields__ if name != "report"))


class StoredRow(AuditRow, frozen=True, kw_only=True, eq=False):
    """A row like any other, in a tenth of the memory.

    Attributes:
        store: where its report is.
        slot: which of the store's it is.
    """

    store: ReportStore
    slot: int

    @property  # type: ignore[misc]  # over an attribute, but that is read-only too
    def report(self) -> DiagnosticReport:
        """The report; another one if the row was given that (`msgspec.structs.replace`)."""
        return self.store.report(self.slot) if self.is_as_stored else _own_report(self)

    @property
    def is_as_stored(self) -> bool:
        """Whether its report is the one in the store."""
        return _own_report(self) is UNREAD

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, AuditRow) or _names(self) != _names(other):
            return False
        if isinstance(other, StoredRow) and self.is_as_stored and other.is_as_stored:
            text = self.store.text(self.slot)
            if text is not None and text == other.store.text(other.slot):  # a file that was written anew, mostly alike
                return True
        return bool(self.report == other.report)

    def __ne__(self, other: Any) -> bool:
        return not self == other  # not msgspec's own, to which other stores are other rows

    def __reduce__(self) -> tuple[Callable[..., AuditRow], tuple[object, ...]]:
        """Sent elsewhere it is a plain row: its store stays here."""
        return _plain, _content(self)


def _plain(*content: Any) -> AuditRow:
    return AuditRow(**dict(zip(AuditRow.__struct_fields__, content, strict=True)))
