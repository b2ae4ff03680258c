"""The measured runs of one audit, on disk after every one of them."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fa_core.atomic import place_of
from fa_core.engine.baselines import filled, with_measured_baselines
from fa_core.engine.resume import recorded_audits
from fa_core.errors import FaError, UsageError
from fa_core.formats.write import write_audit_table
from fa_core.report import GIVEN, DiagnosticReport
from fa_core.rows import AuditRow

Adjust = Callable[[Iterable[AuditRow]], list[AuditRow]]
"""What is done to finished rows before they are written: thresholds, baselines that the person gave."""

WRITING_SHARE = 0.05
"""Largest part of the time that writing may take: a file of 10,000 runs is not rewritten for each of them."""

AT_ONCE = 0.02
"""Seconds that a write may take for the next one not to wait: a file of some hundred runs is never behind."""


class Ledger:
    """Collects finished rows and keeps a file of them. Its methods may be called from any thread.

    Args:
        out: the audit table to write; None = none.
        order: the rows to be measured, in the order they are to be written.
        adjust: see `Adjust`.
        before: rows that stay in the file in front of them.
        on_trouble: told, once, that the file cannot be written. Measuring goes on; the rows go to a spare file.

    Attributes:
        unsaved: why the file does not hold every row, and which one does; None = it does.
    """

    def __init__(
        self,
        out: Path | None,
        order: Sequence[AuditRow],
        adjust: Adjust = list,
        before: Iterable[AuditRow] = (),
        on_trouble: Callable[[str], None] | None = None,
    ) -> None:
        self._out, self._order, self._adjust = out, list(order), adjust
        self._before = list(before)
        self._on_trouble = on_trouble
        self._spare: Path | None = None
        self.unsaved: FaError | None = None
        self._reports: dict[int, DiagnosticReport] = {}
        self._lock = threading.RLock()
        self._next_write = 0.0
        self._unwritten = False
        self._later: threading.Timer | None = None

    def put(self, index: int, report: DiagnosticReport) -> None:
        """Take the report of the row of this index, and write: now, or soon if a write just now took long."""
        with self._lock:
            self._reports[index] = report
            self._unwritten = True
            pause = self._next_write - time.monotonic()
            if pause <= 0:
                self.write()
            elif self._out is not None and self._later is None:
                # the next report may be hours away
                self._later = threading.Timer(pause, self._write_what_waits)
                self._later.daemon = True
                self._later.start()

    def write(self) -> None:
        """Write what is not written yet; to the spare file where the file's disk fails (see `unsaved`)."""
        with self._lock:
            if self._later is not None:
                self._later.cancel()
                self._later = None
            if self._out is None or not self._unwritten:
                return
            begun = time.monotonic()
            self._save(self._out, [*self._before, *self.rows()])
            ended = time.monotonic()
            took = ended - begun
            self._next_write = ended + (took * (1 / WRITING_SHARE - 1) if took > AT_ONCE else 0.0)

    def _save(self, out: Path, table: list[AuditRow]) -> None:
        try:
            write_audit_table(out, table)
        except FaError as error:
            first = self.unsaved is None
            self.unsaved = FaError(error.what, where=out, hint=self._spill(out, table))
            if first and self._on_trouble is not None:
                self._on_trouble(f"{self.unsaved}; measuring goes on")
        else:
            # a disk that has room again
            self._unwritten, self.unsaved = False, None

    def _spill(self, out: Path, table: list[AuditRow]) -> str:
        """Put the rows into the spare file; says where they are."""
        try:
            if self._spare is None:
                self._spare = Path(tempfile.mkdtemp(prefix="fa-audit-")) / out.name
            write_audit_table(self._spare, table)
        except (OSError, FaError):
            return "no other place could be written to either"
        return f"what is finished is in {self._spare}"

    def _write_what_waits(self) -> None:
        # whoever writes next is told what is wrong with the rows
        with contextlib.suppress(FaError):
            self.write()

    def rows(self) -> list[AuditRow]:
        """The finished rows, in order, with their baselines."""
        finished = [replace(row, report=self._reports[i]) for i, row in enumerate(self._order) if i in self._reports]
        measured = with_measured_baselines(finished)
        return [_marked(before, after) for before, after in zip(measured, self._adjust(measured), strict=True)]


def check_writable(out: Path) -> None:
    """Refuse an output file before hours of measuring, not after.

    Raises:
        UsageError: a folder, a device, a file that is no audit table, or a place that cannot be written to.
    """
    if out.is_dir():
        raise UsageError("is a folder", where=out, hint="--out names a file, e.g. --out audit.json")
    out = place_of(out)
    try:
        if out.exists() and out.stat().st_size:
            recorded_audits(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        probe = out.with_name(f".{out.name}.probe")
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(f"cannot be written ({error.strerror})", where=out) from error


def check_nothing_lost(out: Path, targets: Iterable[AuditRow]) -> None:
    """Refuse to write over an audit of runs that are not to be measured now.

    Raises:
        UsageError: the file holds such runs.
    """
    if not out.exists() or not out.stat().st_size:
        return
    again = {row.checkpoint for row in targets}
    lost = [row for row in recorded_audits(out) if str(Path(row.checkpoint or "").resolve()) not in again]
    if lost:
        what = f"holds {len(lost)} other measured {'run' if len(lost) == 1 else 'runs'}, which would be lost"
        raise UsageError(what, where=out, hint="add --resume to keep them, or choose another --out")


def _marked(before: AuditRow, after: AuditRow) -> AuditRow:
    """A baseline that the person gave says so, so that a resumed audit does not take it for the run's own."""
    acc: Any = after.report.frozen_baseline_acc
    if acc == before.report.frozen_baseline_acc:
        return after
    return filled(after, acc, GIVEN)
