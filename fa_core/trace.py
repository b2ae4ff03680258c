"""What a trace holds: one JSON object per measured epoch (format 5). No torch here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fa_core.atomic import write_bytes
from fa_core.report import DiagnosticReport


def trace_entry(epoch: int, report: DiagnosticReport, seconds: float, **logged: Any) -> dict[str, Any]:
    """One line of a trace.

    Args:
        epoch: 1, 2, ...
        report: measured after it.
        seconds: what it took.
        logged: what else is known of it: ``loss``, ``lr``, ``step``, ``gamma`` (Γ_l per layer).
    """
    return {
        "epoch": epoch,
        "test_acc": report.headline_acc,
        "residual_norms": report.residual_norms,
        "bp_grad_norms": report.bp_grad_norms,
        "cross_batch_stability": report.cross_batch_stability,
        "error_norm": report.error_norm,
        "seconds": round(seconds, 4),
        **logged,
    }


def write_trace(path: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Write the whole trace, so that whoever follows it never reads half a line.

    Raises:
        FaError: it cannot be written.
    """
    write_bytes(path, "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries).encode())
