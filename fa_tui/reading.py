"""The contents of a file or run folder, read again while the explorer is open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from fa_core.facts.run_names import run_place
from fa_core.formats import Trace
from fa_core.formats.scan import NOTHING_HERE
from fa_core.rows import AuditRow, Problem


class Reading(msgspec.Struct, frozen=True):
    """What a file or run folder holds now.

    Attributes:
        place: its path, as `scan` names it.
        rows, traces, problems: what is in it.
        gone: it is no longer there.
    """

    place: str
    rows: Sequence[AuditRow] = []
    traces: list[Trace] = []
    problems: list[Problem] = []
    gone: bool = False

    def owns(self, path: str) -> bool:
        """Whether what was read from a path was read from this place."""
        return self.place in (path, run_place(path))

    def settles(self, problem: Problem) -> bool:
        """Whether what this place holds reports a problem again, or ends it.

        Also that of a folder in which there was nothing, when this place in it holds something.
        """
        if self.owns(problem.path):
            return True
        found = self.rows or self.traces or self.problems
        return (
            bool(found)
            and NOTHING_HERE in problem.message
            and Path(problem.path) in Path(self.place).parents
        )
