"""Contents of files and run folders that changed while the explorer is open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from fa_core.formats import Trace
from fa_core.formats.rows import AuditRow, Problem
from fa_core.formats.scan import NOTHING_HERE
from fa_core.report.names import run_place


class Reading(msgspec.Struct, frozen=True):
    """Current contents of a file or run folder.

    Attributes:
        place: its path, as named by `scan`.
        rows, traces, problems: its contents.
        gone: whether it was removed.
    """

    place: str
    rows: Sequence[AuditRow] = []
    traces: list[Trace] = []
    problems: list[Problem] = []
    gone: bool = False

    def owns(self, path: str) -> bool:
        """Whether a source path belongs to this place."""
        return self.place in (path, run_place(path))

    def settles(self, problem: Problem) -> bool:
        """Whether this reading replaces a problem.

        A reading with findings also replaces the problem of a parent folder that was empty.
        """
        if self.owns(problem.path):
            return True
        found = self.rows or self.traces or self.problems
        return (
            bool(found)
            and NOTHING_HERE in problem.message
            and Path(problem.path) in Path(self.place).parents
        )
