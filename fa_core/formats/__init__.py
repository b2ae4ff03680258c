"""Readers and writers of audits, traces and checkpoints, recognised by content, not by name.

Imports no torch, and is never imported by `facts` or `judgement`.
"""

from __future__ import annotations

from fa_core.formats.log_columns import given_columns
from fa_core.formats.scan import Scan, load_audits, scan, scan_again
from fa_core.trace import Trace, TraceEpoch, growth_bound

__all__ = [
    "Scan",
    "Trace",
    "TraceEpoch",
    "given_columns",
    "growth_bound",
    "load_audits",
    "scan",
    "scan_again",
]
