"""The successor's verdict on the same numbers: `--protocol v2` of `show`, `check` and `report`."""

from __future__ import annotations

from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.provenance import has_gamma
from fa_core.report.verdict import CONTROL, NOT_MEASURED, SUCCESSOR

PASS = "PASS"


def second_reading(report: DiagnosticReport) -> str:
    """The successor's verdict: ``PASS``, ``FAIL(D1+D2)`` or ``not measured``, and open points.

    D1 scale growth, D2 reference validity and D3 depth utility are (a), (b) and (d), judged by the
    thresholds of the report; (c) is no check, and a control makes no claim. Γ per layer of a
    trained network is required.

    Source: docs/protocol.md §3.2.

    >>> second_reading(DiagnosticReport(residual_norms=[1.0, 100.0], bp_grad_norms=[1e-9, 1e-9]))
    'FAIL(D1+D2); Γ missing'
    """
    failed = [check for check, letter in SUCCESSOR.items() if letter in report.flags]
    doubtful = [check for check, letter in SUCCESSOR.items() if letter in report.undecided]
    if report.is_control:
        return CONTROL
    if failed:
        notes = [f"FAIL({'+'.join(failed)})"]
    elif not set(SUCCESSOR.values()) & set(report.coverage):
        return NOT_MEASURED
    else:
        notes = [] if doubtful else [PASS]
    if doubtful:
        notes.append(f"undecided on {', '.join(doubtful)}")
    if not has_gamma(report.credit):
        notes.append("Γ missing")
    return "; ".join(notes)
