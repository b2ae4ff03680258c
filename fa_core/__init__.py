"""The four-diagnostic protocol for networks trained without backprop: measure, judge, compare.

Names load on first use, so that reading audits needs no torch and painting a screen no NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fa_core.diagnostics import DiagnosticThresholds
    from fa_core.formats import load_audits
    from fa_core.measure.diagnose import diagnose
    from fa_core.report import DiagnosticReport
    from fa_core.table import AuditTable

__version__ = "0.1.0"
__all__ = ["AuditTable", "DiagnosticReport", "DiagnosticThresholds", "diagnose", "load_audits"]


_HOMES = {
    "AuditTable": "table",
    "DiagnosticReport": "report",
    "DiagnosticThresholds": "report",
    "diagnose": "measure.diagnose",
    "load_audits": "formats",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
