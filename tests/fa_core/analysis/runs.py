"""Small tables for tests, one keyword per measured number."""

from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.table import AuditTable


def row(
    method="dfa",
    seed=42,
    *,
    growth=None,
    g_L=None,
    cosine=None,
    acc=None,
    baseline=None,
    source="audits.json",
    axes=None,
    **more,
):
    """A run with exactly these numbers; two layers, so that growth is the ratio of their norms."""
    report = DiagnosticReport(
        method_name=method,
        seed=seed,
        residual_norms=[] if growth is None else [1.0, growth],
        bp_grad_norms=[] if g_L is None else [1e-3, g_L],
        cross_batch_stability=cosine,
        headline_acc=acc,
        frozen_baseline_acc=baseline,
        **more,
    )
    return AuditRow(
        source=source,
        key=f"{method}_s{seed}",
        method=method,
        seed=seed,
        report=report,
        axes=axes or {},
    )


def table(*rows):
    """A table of these runs."""
    return AuditTable.from_rows(list(rows))
