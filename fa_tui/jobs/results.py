"""Where a measured report goes: beside the run it belongs to, or into one results file."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

from fa_core.atomic import write_json
from fa_core.rows import AuditRow
from fa_core.runs import AUDIT, is_run

RESULTS = "fa-tui-audit.json"
"""The results file for checkpoints that are not in a run folder."""

WRITING_SHARE = 0.05
"""Largest part of the time that writing the results file may take: it is not rewritten for each of many runs."""


class Results:
    """Saves reports as they come: `audit.json` in a run folder, else all others in one audit table.

    Several threads may save; when the last has, `flush`.

    Args:
        out: the results file for bare checkpoints; what it holds already is kept.
    """

    def __init__(self, out: Path | None = None) -> None:
        self.out = out or Path.cwd() / RESULTS
        self._rows: dict[object, AuditRow] | None = None
        self._lock = threading.Lock()
        self._next_write = 0.0
        self._unwritten = False

    def save(self, row: AuditRow) -> Path:
        """Write one measured run to disk, whole or not at all, or soon with those that follow; where it goes."""
        checkpoint = Path(row.checkpoint or "")
        if is_run(checkpoint):
            write_json(checkpoint / AUDIT, row.report.to_dict())
            return checkpoint / AUDIT
        with self._lock:
            rows = self._kept()
            rows.pop(_who(row), None)
            rows[_who(row)] = row
            self._unwritten = True
            if time.monotonic() >= self._next_write:
                self._write()
        return self.out

    def flush(self) -> None:
        """Write what is not written yet."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        from fa_core.formats.write import write_audit_table

        if not self._unwritten or self._rows is None:
            return
        begun = time.monotonic()
        write_audit_table(self.out, self._rows.values())
        ended = time.monotonic()
        self._next_write = ended + (ended - begun) * (1 / WRITING_SHARE - 1)
        self._unwritten = False

    def _kept(self) -> dict[object, AuditRow]:
        if self._rows is None:
            from fa_core.formats import scan

            before = scan([self.out]).rows if self.out.exists() else []
            self._rows = {_who(row) if row.checkpoint else (place, row.key): row for place, row in enumerate(before)}
        return self._rows


def _who(row: AuditRow) -> object:
    """What a later measurement replaces: that of the same run and file."""
    checkpoint = None if row.checkpoint is None else os.path.realpath(row.checkpoint)
    return row.method, row.seed, json.dumps(row.axes, sort_keys=True, default=str), checkpoint
