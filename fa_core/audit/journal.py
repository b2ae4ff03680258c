"""The journal of an audit in progress: JSON lines, one appended per measured run.

Finished runs survive the end of the writing process, at a cost that does not
grow with the file; the table of all runs replaces it at the end.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from fa_core.errors import FaError, UsageError
from fa_core.files.atomic import json_bytes, keep_old, place_of, write_bytes
from fa_core.files.opening import flags_of
from fa_core.formats.audit_table import stored_report, write_audit_table
from fa_core.formats.rows import AuditRow

_HEAD = 4096
_FLAGS = os.O_RDWR | os.O_CREAT | flags_of("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY")
TRIES, _TRY_SECONDS = 100, 0.02
"""How often a file that another process writes is looked at, and how long each try lasts."""
KEPT = "the runs before are in it, and --resume goes on"


class Journal:
    """A journal, locked against other processes while it is written.

    Args:
        path: its path; an existing file is replaced.
        rows: its first rows, read while no other process writes the file.
        goes_on: whether a journal that is there is continued, with its own rows.

    Raises:
        UsageError: another process writes it, or the path cannot be a regular file.
        FaError: it cannot be written.
    """

    def __init__(self, path: Path, rows: Iterable[AuditRow] = (), *, goes_on: bool = False) -> None:
        self.path = place_of(path)
        self._file = _locked(self.path)
        if not (goes_on and _is_whole(self._file)):
            with self._file:
                head = {"journal": "fa-audit/1", "pid": os.getpid()}
                lines = [json_bytes(head), *map(_line, rows)]
                try:
                    write_bytes(self.path, b"".join(lines))
                finally:
                    if not self.path.stat().st_size:
                        self.path.unlink()
            self._file = _locked(self.path)
        self._end = self._file.seek(0, os.SEEK_END)

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

    def finish(self, rows: Iterable[AuditRow]) -> None:
        """Replace the journal by the table of all rows; without rows, remove it.

        A file that another program put in its place is kept under a numbered name.

        Raises:
            FaError: it cannot be written; the journal stays.
        """
        table = list(rows)
        with contextlib.closing(self):
            if table:
                if not _is_held(self._file, self.path):
                    keep_old(self.path)
                write_audit_table(self.path, table)
            else:
                self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the journal to other processes."""
        self._file.close()


def _line(row: AuditRow) -> bytes:
    return json_bytes({"report": stored_report(row).to_dict()})


def _is_whole(file: IO[bytes]) -> bool:
    """Whether a file is a journal whose last line was not cut off."""
    if not file.readline(_HEAD).startswith(b'{"journal"'):
        return False
    file.seek(-1, os.SEEK_END)
    return file.read() == b"\n"


def _locked(path: Path) -> IO[bytes]:
    """A file, made where none is, that is locked until it is closed or the process ends.

    Raises:
        UsageError: other processes keep it locked, or replace it, for longer than all `TRIES`.
        FaError: it cannot be opened.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(TRIES):
            file = open(os.open(path, _FLAGS, 0o666), "r+b", buffering=0)  # noqa: SIM115, PTH123
            if _is_held(file, path):
                return file
            file.close()
            time.sleep(_TRY_SECONDS)
    except OSError as error:
        raise FaError(f"cannot be opened ({error.strerror})", where=path) from error
    hint = "wait for it, or choose another file"
    raise UsageError("is being written by another process", where=path, hint=hint)


def _is_held(file: IO[bytes], path: Path) -> bool:
    """Whether a file could be locked, and still is the one of its path."""
    try:
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except ImportError:  # a system without such locks
        return True
    except OSError:
        return False
