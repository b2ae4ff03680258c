"""Format 1, the audit table: ``{"reports": {"<method>_s<seed>": report}, "summary": [...]}``, read
and written; and the journal of one that goes on."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from fa_core.errors import FaError, UsageError
from fa_core.files.atomic import (
    folder_of,
    json_bytes,
    keep_old,
    place_of,
    remove,
    write_bytes,
    write_json,
)
from fa_core.files.decode import Json
from fa_core.files.opening import flags_of
from fa_core.formats.json_document import Document, Finding, Node, attempt, convert
from fa_core.formats.report_object import (
    decode_report,
    keyed,
    read_list,
    row_of,
    sniff_list,
)
from fa_core.formats.rows import AuditRow, Problem
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.names import canonical_method, said_names, unique_names
from fa_core.report.report_facts import NO_REASON
from fa_core.sanitize import sanitize

_OF_A_REPORT = frozenset(
    {"method_name", "residual_norms", "bp_grad_norms", "cross_batch_stability", "verdict"}
)
"""Fields of which a report has at least two."""


def sniff(document: Document) -> bool:
    """Whether the object has ``reports`` or a ``summary`` list of runs, or its members are
    reports."""
    if "reports" in document.members or _listed(document, "summary"):
        return True
    first = next(iter(document.members.values()), None)
    return isinstance(first, dict) and len(_OF_A_REPORT & first.keys()) > 1


def _listed(document: Document, name: str) -> Document | None:
    """A member that lists runs, as a document of format 3."""
    listed = document.listed(name)
    if listed and sniff_list(listed):
        return listed
    return None


def read(document: Document) -> Iterator[Finding]:
    """The rows, and problems for invalid reports.

    Raises:
        UnreadableInput: ``reports`` is not an object.
    """
    members = document.members
    if listed := _listed(document, "reports" if "reports" in members else "summary"):
        yield from read_list(listed)
        return
    reports = members.get("reports", members)
    reports = convert(reports, Json, f"{document.path}: $.reports")
    lines = members.get("summary")
    if isinstance(lines, list) and len(lines) == len(reports):
        lines = [line or {} for line in lines]
    else:
        lines = [lines and "not a line for each report"] * len(reports)
    for (key, node), line in zip(reports.items(), lines, strict=True):
        yield attempt(document.path, partial(_row, document.path, key, node, line), "report")


def _row(path: str, key: str, node: Node, line: object) -> AuditRow:
    where = f"{path}: $.reports.{key:.100}"
    row = row_of(path, key, decode_report(node, where), where)
    return replace(row, summary=line)


def sniff_journal(document: Document) -> bool:
    """Whether a file begins as a `Journal`."""
    return document.data.startswith(JOURNAL)


def read_journal(document: Document) -> Iterator[Finding]:
    """The rows of a running or interrupted audit."""
    yield from document.problems
    if document.unfinished:
        where = document.place(document.data.count(b"\n") + 1)
        yield Problem(document.path, f"{where}: cut off; `fa-tui audit --resume` measures its run")
    parts = (
        partial(_line_row, document.path, node, f"{document.place(index)}: $.report")
        for index, node in document.items[1:]
    )
    yield from keyed(document.path, parts, "report", unique_keys)


def _line_row(path: str, node: Node, where: str) -> AuditRow:
    fields = convert(node, Json, where)
    report = decode_report(fields.get("report"), where)
    key = "" if report.method_name else str(fields.get("key", ""))
    return row_of(path, key, report, where)


def write_audit_table(path: Path | str, rows: Iterable[AuditRow]) -> None:
    """Write rows as an audit table, atomically.

    Args:
        path: the file.
        rows: the rows, in order.

    Raises:
        UsageError: the path is a link, a folder, a device, a FIFO or a socket.
        FaError: the folder is not writable, or the disk is full.
    """
    rows = list(rows)
    reports = [printable_drift(stored_report(row)) for row in rows]
    table = dict(zip(unique_keys(rows), reports, strict=True))
    write_json(Path(path), {"reports": table, "summary": [*map(summary_row, rows)]})


def summary_row(row: AuditRow) -> Json:
    """A run's entry in ``summary`` (docs/protocol.md §10.1); (c) as in `printable_drift`."""
    report = row.report.as_recorded()
    drift = report.cross_batch_stability
    return {
        "method": row.method,
        "seed": row.seed,
        "acc": report.headline_acc,
        "h_L": report.h_L,
        "g_L": report.g_L,
        "stability": math.nan if drift is None else drift,
        "frozen_acc": report.frozen_baseline_acc,
        "verdict": report.verdict,
    }


def printable_drift(report: DiagnosticReport) -> Json:
    """The report as JSON with NaN for an unmeasured (c), which programs of the published files
    print as a number. ``unmeasured`` has the reason, by which it is read back as not measured.
    """
    data = report.to_dict()
    if report.cross_batch_stability is not None:
        return data
    reasons = {"c": NO_REASON, **report.unmeasured}
    return {**data, "cross_batch_stability": math.nan, "unmeasured": reasons}


def stored_report(row: AuditRow) -> DiagnosticReport:
    """The row's report with the row's own facts, so that reading the file restores the row, but no
    method where it names none: its key would make it a control. An assumed baseline is left out:
    in a file it would count as measured.
    """
    report = row.report.as_recorded()
    provenance = report.provenance
    if row.checkpoint is not None and "checkpoint" not in provenance:
        provenance = {**provenance, "checkpoint": row.checkpoint}
    return replace(
        report,
        method_name=report.method_name
        if canonical_method(sanitize(report.method_name)) in ("", row.method)
        else row.method,
        seed=row.seed,
        axes=row.axes,
        provenance=provenance,
    )


def unique_keys(rows: Sequence[AuditRow]) -> list[str]:
    """A unique key per row, by method, seed and the axes that differ among the method's runs.

    Equal keys get the distinguishing end of the checkpoint's path, or a number: without a seed a
    path would be read as a part of the method's name.
    """
    places = [(row.checkpoint or "") * (row.seed is not None) for row in rows]
    return unique_names(said_names(rows), places)


_HEAD = 4096
_FLAGS = os.O_RDWR | os.O_CREAT | flags_of("O_NOFOLLOW", "O_CLOEXEC")
TRIES, _TRY_SECONDS = 100, 0.02
"""How often a file that another process writes is looked at, and how long each try lasts."""
KEPT = "the runs before are in it, and --resume goes on"


JOURNAL = b'{"journal": "fa-audit/1"'
"""Beginning of a `Journal`, which may hold no run yet."""


class Journal:
    """The journal of an audit in progress, locked against other processes: JSON lines.

    Finished runs survive the end of the writing process, at a cost that does not grow with the
    file; the table of all runs replaces it at the end.

    Args:
        path: its path; an existing file is replaced.
        rows: gives its first rows; called while no other process writes the file.
        goes_on: whether a journal that is there is continued, with its own rows.

    Raises:
        UsageError: another process writes it, or the path cannot be a regular file.
        FaError: it cannot be written.
    """

    def __init__(
        self, path: Path, rows: Callable[[], Iterable[AuditRow]] = tuple, *, goes_on: bool = False
    ) -> None:
        self.path = place_of(path)
        self._file = _locked(self.path)
        while not (goes_on and _is_whole(self._file)):
            with self._file:
                head = {"journal": "fa-audit/1", "pid": os.getpid()}
                lines = [json_bytes(head), *map(_line, rows())]
                try:
                    write_bytes(self.path, b"".join(lines))
                finally:
                    if not self.path.stat().st_size:
                        remove(self.path)
            self._file = _locked(self.path)
            # unless another process had the new file first, and made a table of it
            goes_on = True
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
                remove(self.path)

    def close(self) -> None:
        """Leave the journal to other processes."""
        self._file.close()


def _line(row: AuditRow) -> bytes:
    return json_bytes({"key": row.method, "report": stored_report(row).to_dict()})


def _is_whole(file: IO[bytes]) -> bool:
    """Whether a file is a journal whose last line was not cut off."""
    if not file.readline(_HEAD).startswith(JOURNAL):
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
        for _ in range(TRIES):
            with folder_of(path, made=True) as folder:
                descriptor = os.open(path.name, _FLAGS, 0o666, dir_fd=folder)
            file = open(descriptor, "r+b", buffering=0)  # noqa: SIM115, PTH123
            if _is_held(file, path):
                return file
            file.close()
            time.sleep(_TRY_SECONDS)
    except OSError as error:
        raise FaError(f"cannot be opened ({error.strerror})", where=path) from error
    raise UsageError(
        "is being written by another process",
        where=path,
        hint="wait for it, or choose another file",
    )


def _is_held(file: IO[bytes], path: Path) -> bool:
    """Whether a file could be locked, and still is the one of its path."""
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False
