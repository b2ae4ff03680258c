"""Rows that are made when somebody looks at them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import overload

from fa_core.rows import AuditRow


class MadeRows(Sequence[AuditRow]):
    """Rows that take memory while they are looked at: a subclass says how many there are, and makes one."""

    __slots__ = ()

    @abstractmethod
    def made(self, index: int) -> AuditRow:
        """One row.

        Args:
            index: which, 0 ≤ index < len(self).
        """

    @overload
    def __getitem__(self, index: int) -> AuditRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[AuditRow]: ...
    def __getitem__(self, index: int | slice) -> AuditRow | list[AuditRow]:
        places = range(len(self))[index]
        return self.made(places) if isinstance(places, int) else list(map(self.made, places))
