"""Runs to compare, made by hand."""

from fa_core.formats.rows import AuditRow
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_tui.session import Session


def row_of(method, seed, *norms):
    """A run with these residual norms."""
    report = DiagnosticReport(residual_norms=list(norms), bp_grad_norms=[1e-3] * len(norms))
    return AuditRow(
        source="a.json", key=f"{method}_{seed}", method=method, seed=seed, report=report
    )


def ten_seeds():
    """Ten seeds, of which only the last one explodes at layer 2."""
    return Session(
        [
            row_of("bp", seed, 1.0, 2.0, 4000.0 if seed == 10 else 3.0 + seed / 100)
            for seed in range(1, 11)
        ]
    )
