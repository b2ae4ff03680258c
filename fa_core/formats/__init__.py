"""Readers of audits, traces and checkpoints; files are recognised by content, not by name."""

from __future__ import annotations

from fa_core.formats.scan import Scan, load_audits, scan, scan_again
from fa_core.trace import Trace, TraceEpoch, growth_bound

__all__ = ["Scan", "Trace", "TraceEpoch", "growth_bound", "load_audits", "scan", "scan_again"]
