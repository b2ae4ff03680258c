"""Where a measured report goes: beside the run it belongs to, or into one results file."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.runs import AUDIT, is_run

RESULTS = "fa-tui-audit.json"
"""The results file for checkpoints that are not in a run folder."""


class Results:
    """Saves reports as they come: `audit.json` in a run folder, else all others in one audit table.

    Args:
        out: the results file for bare checkpoints; what it holds already is kept.
    """

    def __init__(self, out: Path | None = None) -> None:
        self.out = out or Path.cwd() / RESULTS
        self._rows: list[AuditRow] | None = None

    def save(self, row: AuditRow) -> Path:
        """Write one measured run to disk, whole or not at all; where it went."""
        checkpoint = Path(row.checkpoint or "")
        if is_run(checkpoint):
            return write_report(checkpoint / AUDIT, row.report)
        from fa_core.formats import write_audit_table

        kept = [other for other in self._kept() if (other.method, other.seed, other.axes) != _who(row)]
        self._rows = [*kept, row]
        write_audit_table(self.out, self._rows)
        return self.out

    def _kept(self) -> list[AuditRow]:
        if self._rows is None:
            from fa_core.formats import scan

            self._rows = scan([self.out]).rows if self.out.exists() else []
        return self._rows


def write_report(path: Path, report: DiagnosticReport) -> Path:
    """Write one report as JSON (NaN and Infinity as Python writes them), by rename."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(report.to_dict(), file, indent=1)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def _who(row: AuditRow) -> tuple[str, int | None, object]:
    return row.method, row.seed, row.axes
