"""Reading audits, traces and checkpoints; `formats.write` writes. Files are recognised by content, never by name."""

from __future__ import annotations

from fa_core.formats.findings import Scan, Trace, TraceEpoch, growth_bound
from fa_core.formats.reading import iter_rows, load_audits, scan, scan_again

__all__ = [
    "Scan",
    "Trace",
    "TraceEpoch",
    "growth_bound",
    "iter_rows",
    "load_audits",
    "scan",
    "scan_again",
]
