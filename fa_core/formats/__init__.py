"""Reading audits, traces and checkpoints, and writing audit tables. Files are recognised by content, never by name."""

from __future__ import annotations

from fa_core.formats.findings import Scan, Trace, TraceEpoch, growth_bound
from fa_core.formats.reading import iter_rows, load_audits, scan, scan_again
from fa_core.formats.write import write_audit_table

__all__ = [
    "Scan",
    "Trace",
    "TraceEpoch",
    "growth_bound",
    "iter_rows",
    "load_audits",
    "scan",
    "scan_again",
    "write_audit_table",
]
