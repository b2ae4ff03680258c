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

from fa_core.errors import FaError, UsageError
from fa_core.files.atomic import json_bytes, keep_old, place_of, write_bytes
from fa_core.files.decode import Json, loads
from fa_core.files.opening import flags_of
from fa_core.formats.audit_table import stored_report, write_audit_table
from fa_core.formats.rows import AuditRow

_HEAD = 4096
_FLAGS = os.O_RDWR | flags_of("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY")
KEPT = "the runs before are in it, and --resume goes on"


class Journal:
    """A journal, locked against other processes while it is written.

    Args:
        path: its path; an existing file is replaced.
        rows: its first rows.

    Attributes:
        count: number of rows.

    Raises:
        UsageError: another process writes it, or the path cannot be a regular file.
        FaError: it cannot be written.
    """

    def __init__(self, path: Path, rows: Iterable[AuditRow] = ()) -> None:
        self.path = place_of(path)
        lines = [_line(row) for row in rows]
        self.count = len(lines)
        head = {"journal": "fa-audit/1", "pid": os.getpid(), "host": socket.gethostname()}
        with _held(self.path):
            write_bytes(self.path, b"".join([json_bytes(head), *lines]))
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
        self.count += 1

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
            self._file.close()
            if not (self.count or is_written):
                with contextlib.suppress(OSError):
                    self.path.unlink()

    def _is_there(self) -> bool:
        """Whether the file of that path is still this one."""
        with contextlib.suppress(OSError):
            return os.path.samestat(self._stat, self.path.lstat())
        return False


def _line(row: AuditRow) -> bytes:
    return json_bytes({"report": stored_report(row).to_dict()})


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """Context for replacing a file; refuses if another process writes a journal there."""
    with path.open("rb") if path.exists() else contextlib.nullcontext() as file:
        if file is not None:
            _lock(file, path)
        yield


def _lock(file: IO[bytes], path: Path) -> None:
    """Lock an open file until it is closed or the process ends.

    Raises:
        UsageError: another process has locked it; names the process.
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
        raise UsageError(
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
