"""Threshold sets saved by name, in `presets.toml` of the config folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from fa_core.atomic import write_bytes
from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import FaError, UsageError
from fa_core.rows import Problem
from fa_tui.settings import Fitting, config_folder, load, quoted

FILE = "presets.toml"
PROTOCOL = "protocol"
"""The preset that is always there: the protocol's defaults."""

_LONGEST_NAME = 40


class Presets:
    """The presets of a file. Every change reads it first: another explorer may have saved one meanwhile.

    Args:
        path: the file (default: in the config folder).
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or config_folder() / FILE
        self.problems: list[Problem] = []

    def read(self) -> dict[str, DiagnosticThresholds]:
        """Name → thresholds, `PROTOCOL` first. What is wrong with the file is in `problems` then."""
        self.problems = []
        presets = {PROTOCOL: DiagnosticThresholds()}
        try:
            data, text = load(self.path)
        except FaError as error:
            self.problems.append(Problem(str(self.path), str(error)))
            return presets
        fitting = Fitting(self.path, text)
        for name, table in data.items():
            if isinstance(table, Mapping) and name != PROTOCOL:
                presets[name] = fitting.struct(DiagnosticThresholds, table, [name])
        self.problems += fitting.problems
        return presets

    def save(self, name: str, thresholds: DiagnosticThresholds) -> None:
        """Keep thresholds under a name; those that had it before are replaced.

        Raises:
            UsageError: a name that cannot be used, or a file that must be mended first.
            FaError: the file cannot be written.
        """
        name = name.strip()
        problem = name_problem(name)
        if problem:
            raise UsageError(problem)
        self._write({**self._kept(), name: thresholds})

    def remove(self, name: str) -> None:
        """Forget a preset.

        Raises:
            UsageError: there is none of that name, or the file must be mended first.
            FaError: the file cannot be written.
        """
        kept = self._kept()
        if name not in kept:
            raise UsageError(f"no preset {name!r} to remove", where=self.path)
        del kept[name]
        self._write(kept)

    def _kept(self) -> dict[str, DiagnosticThresholds]:
        kept = self.read()
        if self.problems:
            raise UsageError(self.problems[0].message, hint="mend the file first: writing it anew would lose that")
        del kept[PROTOCOL]
        return kept

    def _write(self, presets: Mapping[str, DiagnosticThresholds]) -> None:
        lines = ["# Threshold presets of fa-tui; each may leave out what it does not change."]
        for name, thresholds in presets.items():
            lines += ["", f"[{quoted(name)}]"]
            lines += [f"{field} = {value!r}" for field, value in msgspec.structs.asdict(thresholds).items()]
        write_bytes(self.path, ("\n".join(lines) + "\n").encode())


def name_problem(name: str) -> str:
    """Why a preset cannot have a name, or ``""``.

    >>> name_problem("strict"), name_problem("protocol")
    ('', "'protocol' is the protocol's own: choose another name")
    """
    name = name.strip()
    if not name:
        return "a preset needs a name"
    if name == PROTOCOL:
        return f"{PROTOCOL!r} is the protocol's own: choose another name"
    if len(name) > _LONGEST_NAME or not name.isprintable():
        return f"a name has at most {_LONGEST_NAME} characters, all of them printable"
    return ""
