"""The measured runs of one audit, on disk after every one of them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fa_core.engine.baselines import filled, with_measured_baselines
from fa_core.engine.resume import recorded_audits
from fa_core.errors import FaError, UsageError
from fa_core.formats import write_audit_table
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow

Adjust = Callable[[Iterable[AuditRow]], list[AuditRow]]
"""What is done to finished rows before they are written: thresholds, baselines that the person gave."""

WRITING_SHARE = 0.05
"""Largest part of the time that writing may take: a file of 10,000 runs is not rewritten for each of them."""


class Ledger:
    """Collects finished rows and keeps a file of them. Its methods may be called from any thread.

    Args:
        out: the audit table to write; None = none.
        order: the rows to be measured, in the order they are to be written.
        adjust: see `Adjust`.
        before: rows that stay in the file in front of them.
    """

    def __init__(
        self, out: Path | None, order: Sequence[AuditRow], adjust: Adjust = list, before: Iterable[AuditRow] = ()
    ) -> None:
        self._out, self._order, self._adjust = out, list(order), adjust
        self._before = list(before)
        self._reports: dict[int, DiagnosticReport] = {}
        self._lock = threading.RLock()
        self._next_write = 0.0
        self._unwritten = False
        self._later: threading.Timer | None = None

    def put(self, index: int, report: DiagnosticReport) -> None:
        """Take the report of the row of this index, and write: now, or soon if there was a write just now.

        Raises:
            FaError: the file cannot be written.
        """
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
        """Write what is not written yet."""
        with self._lock:
            if self._later is not None:
                self._later.cancel()
                self._later = None
            if self._out is None or not self._unwritten:
                return
            begun = time.monotonic()
            write_audit_table(self._out, [*self._before, *self.rows()])
            ended = time.monotonic()
            self._next_write = ended + (ended - begun) * (1 / WRITING_SHARE - 1)
            self._unwritten = False

    def _write_what_waits(self) -> None:
        # whoever writes next is told of a disk that is full
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
        UsageError: a folder, a file that is no audit table, or a place that cannot be written to.
    """
    if out.is_dir():
        raise UsageError("is a folder", where=out, hint="--out names a file, e.g. --out audit.json")
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
    return filled(after, acc, "given")
