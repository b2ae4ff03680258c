"""The journal of an audit in progress: JSON lines, one appended per measured run.

The first line names the writing process. Finished runs survive its end, at a cost that does not
grow with the file; the table of all runs replaces it at the end.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from fa_core.errors import BeingWritten, FaError
from fa_core.files.atomic import json_bytes, keep_old, place_of, write_bytes
from fa_core.files.decode import Json, loads
from fa_core.files.opening import flags_of
from fa_core.formats.audit_table import stored_report, write_audit_table
from fa_core.formats.rows import AuditRow

_HEAD = 4096
_FLAGS = os.O_RDWR | flags_of("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY")
FORMAT = "fa-audit/1"
KEPT = "the runs before are in it, and --resume goes on"


class Journal:
    """A journal, locked against other processes while it is written.

    Args:
        path: its path; an existing file is replaced.
        rows: its first rows, read while no other process writes the file.
        goes_on: whether a journal that is there is continued, with its own rows.

    Attributes:
        has_rows: whether it may hold rows.

    Raises:
        BeingWritten: another process writes it.
        UsageError: the path cannot be a regular file.
        FaError: it cannot be written.
    """

    def __init__(self, path: Path, rows: Iterable[AuditRow] = (), *, goes_on: bool = False) -> None:
        self.path = place_of(path)
        self.has_rows = True
        with _held(self.path):
            if not (goes_on and _is_whole(self.path)):
                head = {"journal": FORMAT, "pid": os.getpid(), "host": socket.gethostname()}
                lines = [json_bytes(head), *map(_line, rows)]
                self.has_rows = len(lines) > 1
                write_bytes(self.path, b"".join(lines))
        try:
            file = open(os.open(self.path, _FLAGS), "r+b", buffering=0)  # noqa: SIM115, PTH123
        except OSError as error:
            raise FaError(f"cannot be opened ({error.strerror})", where=self.path) from error
        _lock(file, self.path)
        self._file: IO[bytes] = file
        self._stat = os.fstat(file.fileno())
        self._end = file.seek(0, os.SEEK_END)

    def append(self, row: AuditRow) -> None:
        """Append a row and sync it to disk.

        Raises:
            FaError: the disk is full or gone; earlier rows stay intact.
        """
        line = _line(row)
        try:
            self._file.seek(self._end)
            rest = line
            while rest:  # a write where room ends takes a part, and only the next one fails
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            raise FaError(f"cannot write ({error.strerror})", where=self.path, hint=KEPT) from error
        self._end += len(line)
        self.has_rows = True

    def finish(self, rows: Iterable[AuditRow]) -> None:
        """Replace the journal by the table of all rows; without rows, remove it.

        A file that another program put in its place is kept under a numbered name.

        Raises:
            FaError: it cannot be written; the journal stays.
        """
        table = list(rows)
        is_written = False
        try:
            if table:
                if not self._is_there():
                    keep_old(self.path)
                write_audit_table(self.path, table)
                is_written = True
        finally:
            self.close()
            if not (self.has_rows or is_written):
                with contextlib.suppress(OSError):
                    self.path.unlink()

    def close(self) -> None:
        """Leave the journal to other processes."""
        self._file.close()

    def _is_there(self) -> bool:
        """Whether the file of that path is still this one."""
        with contextlib.suppress(OSError):
            return os.path.samestat(self._stat, self.path.lstat())
        return False


def _line(row: AuditRow) -> bytes:
    return json_bytes({"report": stored_report(row).to_dict()})


def _is_whole(path: Path) -> bool:
    """Whether a file is a journal whose last line was not cut off."""
    with path.open("rb") as file:
        is_journal = file.readline(_HEAD).startswith(b'{"journal"')
        if is_journal:
            file.seek(-1, os.SEEK_END)
        return is_journal and file.read() == b"\n"


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Context for replacing a file, also one that is not there yet; refuses if another process
    writes it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise FaError(f"cannot be written ({error.strerror})", where=path) from error
    with file:
        _lock(file, path)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if not path.stat().st_size:
                    path.unlink()


def _lock(file: IO[bytes], path: Path) -> None:
    """Lock an open file until it is closed or the process ends.

    Raises:
        BeingWritten: another process has locked it; names the process.
    """
    try:
        import fcntl
    except ImportError:  # a system without such locks
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        held = False
    if not held:
        raise BeingWritten(
            f"is being written by {_writer(path)}",
            where=path,
            hint="wait for it, or choose another file",
        )


def _writer(path: Path) -> str:
    """The writer of a journal, from its first line."""
    who: Json = {}
    with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
        who = loads(file.read(_HEAD).partition(b"\n")[0])
    if "pid" not in who:
        return "another process"
    return f"process {who['pid']} on {who.get('host')}"
