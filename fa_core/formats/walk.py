"""Files and folders under some paths: recursive, by name and number, each once, safe against loops of links."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from fa_core.errors import UnreadableInput
from fa_core.rows import Problem


class Place(msgspec.Struct, frozen=True):
    """A file, or a folder before its content.

    Attributes:
        path: where it is.
        is_folder: which of the two.
        named: whether it is what the user named.
    """

    path: str
    is_folder: bool
    named: bool


Identity: TypeAlias = "tuple[int, int] | str"
"""Device and inode; the resolved path where a system has none."""


class Walk:
    """An iterator over places.

    A consumer that has dealt with a folder's own files adds their names to `skip` before going on.

    Args:
        path: a file or folder as the user named it.
        seen: identities of what was visited before; shared between paths, so that nothing is read twice.
    """

    def __init__(self, path: str, seen: set[Identity]) -> None:
        self._path = path
        self._seen = seen
        self.skip: frozenset[str] = frozenset()
        self.problems: list[Problem] = []

    def __iter__(self) -> Iterator[Place]:
        """The places.

        Raises:
            UnreadableInput: the named path does not exist, may not be read, or is neither file nor folder.
        """
        try:
            status = Path(self._path).stat()
        except FileNotFoundError as error:
            raise UnreadableInput("no such file or folder", where=self._path, hint=_nearest(self._path)) from error
        except (OSError, ValueError) as error:
            raise _unreadable(self._path, error) from error
        if stat.S_ISDIR(status.st_mode):
            yield from self._folder(self._path, status, named=True)
        elif stat.S_ISREG(status.st_mode):
            if self._is_new(self._path, status):
                yield Place(self._path, is_folder=False, named=True)
        else:
            raise UnreadableInput("neither a file nor a folder", where=self._path, hint="write it to a file first")

    def _folder(self, folder: str, status: os.stat_result, *, named: bool) -> Iterator[Place]:
        if not self._is_new(folder, status):
            return
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError as error:
            problem = _unreadable(folder, error)
            if named:
                raise problem from error
            self.problems.append(Problem(folder, str(problem)))
            return
        self.skip = frozenset()
        yield Place(folder, is_folder=True, named=named)
        skip = self.skip
        entries = [entry for entry in entries if entry.name not in skip and not entry.name.startswith(".")]
        for entry in sorted(entries, key=_by_number) if len(entries) > 1 else entries:
            found = _status(entry)
            if found is None:
                continue
            if stat.S_ISDIR(found.st_mode):
                yield from self._folder(entry.path, found, named=False)
            elif stat.S_ISREG(found.st_mode) and self._is_new(entry.path, found):
                yield Place(entry.path, is_folder=False, named=False)

    def _is_new(self, path: str, status: os.stat_result) -> bool:
        identity: Identity = (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(path)
        if identity in self._seen:
            return False
        self._seen.add(identity)
        return True


_NUMBER = re.compile(r"(\d+)")


def _by_number(entry: os.DirEntry[str]) -> tuple[list[str | int], str]:
    """Seed 42 comes before seed 123; names that are equal but for leading zeros come in their own order."""
    parts: list[str | int] = [*_NUMBER.split(entry.name)]
    parts[1::2] = map(int, _NUMBER.findall(entry.name))
    return parts, entry.name


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """What an entry, or the end of a link, is; None for a link that leads nowhere and a file that just went."""
    try:
        return entry.stat()
    except OSError:
        return None


def _unreadable(path: str, error: Exception) -> UnreadableInput:
    if isinstance(error, PermissionError):
        return UnreadableInput("no permission to read it", where=path, hint="ask its owner or change its mode")
    reason = getattr(error, "strerror", None) or str(error)
    return UnreadableInput(f"cannot be read ({reason})", where=path)


def _nearest(path: str) -> str:
    """The part of a path that does exist, as a hint."""
    parents = Path(path).absolute().parents
    return f"the nearest folder that exists is {next((p for p in parents if p.is_dir()), parents[-1])}"
