"""Threshold sets saved by name, in `presets.toml` of the config folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import asdict

from fa_core.atomic import write_bytes
from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import FaError, UsageError
from fa_core.rows import Problem
from fa_tui.settings import TomlFile, config_folder

FILE = "presets.toml"
PROTOCOL = "protocol"
"""The preset that is always there: the protocol's defaults."""

_HEAD = "# Threshold presets of fa-tui; each may leave out what it does not change.\n"
_LONGEST_NAME = 40


class Presets:
    """The presets of a file. Every change reads it first: another explorer may have saved one meanwhile.

    Args:
        path: the file (default: in the config folder).
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or config_folder() / FILE
        self.problems: list[Problem] = []
        self._text = ""

    def read(self) -> dict[str, DiagnosticThresholds]:
        """Name → thresholds, `PROTOCOL` first. What is wrong with the file is in `problems` then."""
        presets = {PROTOCOL: DiagnosticThresholds()}
        try:
            file = TomlFile(self.path)
        except FaError as error:
            self.problems = [Problem(str(self.path), str(error))]
            return presets
        for name, table in file.tables.items():
            if isinstance(table, Mapping) and name != PROTOCOL:
                presets[name] = file.fitted(DiagnosticThresholds, table, [name])
        self.problems, self._text = file.problems, file.text
        return presets

    def save(self, name: str, thresholds: DiagnosticThresholds) -> None:
        """Keep thresholds under a name; those that had it before are replaced.

        Raises:
            UsageError: a name that cannot be used, or a file that must be fixed first.
            FaError: the file cannot be written.
        """
        name = name.strip()
        problem = name_problem(name)
        if problem:
            raise UsageError(problem)
        self._write(name, thresholds)

    def remove(self, name: str) -> None:
        """Remove a preset.

        Raises:
            UsageError: there is none of that name, or the file must be fixed first.
            FaError: the file cannot be written.
        """
        self._write(name, None)

    def _write(self, name: str, thresholds: DiagnosticThresholds | None) -> None:
        """Set or remove one table of the file; the others and all comments stay as they are."""
        import tomlkit

        presets = self.read()
        if self.problems:
            raise UsageError(self.problems[0].message, hint="mend the file first")
        document = tomlkit.parse(self._text or _HEAD)
        if thresholds is not None:
            document[name] = asdict(thresholds)
        elif name in presets and name != PROTOCOL:
            del document[name]
        else:
            raise UsageError(f"no preset {name!r} to remove", where=self.path)
        write_bytes(self.path, tomlkit.dumps(document).encode())


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
