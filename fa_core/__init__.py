"""The four-diagnostic protocol for networks trained without backprop: measure, judge, compare.

Names load on first use, so that reading audits needs no torch and painting a screen no NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fa_core.diagnostics import DiagnosticThresholds
    from fa_core.formats import load_audits
    from fa_core.measure.diagnose import diagnose
    from fa_core.report import DiagnosticReport
    from fa_core.table import AuditTable

__version__ = "0.1.0"
__all__ = ["AuditTable", "DiagnosticReport", "DiagnosticThresholds", "diagnose", "load_audits"]


def on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's ``__getattr__``, which imports a name from its home, a module of the package, when it is used."""

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home}"), name)

    return load


__getattr__ = on_first_use(
    __name__,
    {
        "AuditTable": "table",
        "DiagnosticReport": "report",
        "DiagnosticThresholds": "report",
        "diagnose": "measure.diagnose",
        "load_audits": "formats",
    },
)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
