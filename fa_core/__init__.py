"""The four-diagnostic protocol for networks trained without backprop: measure, judge, compare.

Names load on first use, so that reading audits needs no torch and painting a screen no NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fa_core.formats import load_audits
    from fa_core.formats.table import AuditTable
    from fa_core.measure.accuracy import depth_ablation
    from fa_core.measure.diagnose import diagnose
    from fa_core.monitor import ProtocolMonitor
    from fa_core.report.diagnostic_report import DiagnosticReport
    from fa_core.report.report_facts import DiagnosticThresholds

__version__ = "0.1.0"
__all__ = [
    "AuditTable",
    "DiagnosticReport",
    "DiagnosticThresholds",
    "ProtocolMonitor",
    "depth_ablation",
    "diagnose",
    "load_audits",
]

_HOMES = {
    "AuditTable": "formats.table",
    "DiagnosticReport": "report.diagnostic_report",
    "DiagnosticThresholds": "report.report_facts",
    "ProtocolMonitor": "monitor",
    "depth_ablation": "measure.accuracy",
    "diagnose": "measure.diagnose",
    "load_audits": "formats",
}
"""Where a name is."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
