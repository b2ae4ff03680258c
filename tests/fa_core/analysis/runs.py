"""Small tables and traces for tests, one keyword per measured number."""

from msgspec.structs import replace

from fa_core.analysis.timeline import Replay
from fa_core.formats import Trace, TraceEpoch
from fa_core.formats.table import AuditTable
from fa_core.report.diagnostic_report import DiagnosticReport
from tests.fa_core.rows import row_of

SHORT = {
    "cosine": "cross_batch_stability",
    "acc": "headline_acc",
    "baseline": "frozen_baseline_acc",
}


def row(method="dfa", seed=42, *, growth=None, g_L=None, source="audits.json", axes=None, **more):
    """A run with exactly these numbers; two layers, so that growth is the ratio of their norms."""
    report = DiagnosticReport(
        method_name=method,
        seed=seed,
        residual_norms=[] if growth is None else [1.0, growth],
        bp_grad_norms=[] if g_L is None else [1e-3, g_L],
        **{SHORT.get(name, name): value for name, value in more.items()},
    )
    named = {"method": method, "seed": seed, "axes": axes or {}}
    return row_of(f"{method}_s{seed}", source, report=report, **named)


def seeds_of(method, *values, of="growth", **fields):
    """Runs that differ in one number and in their seeds, which begin at 1."""
    return [row(method, seed, **fields, **{of: value}) for seed, value in enumerate(values, 1)]


def table(*rows):
    """A table of these runs."""
    return AuditTable.from_rows(list(rows))


def trace(method="dfa", seed=42, *, first=1, key=None, source="runs", **series):
    """A run's epochs: a list of numbers per field; `growth` and `g_L` are those of `row`."""
    epochs = []
    for n, values in enumerate(zip(*series.values(), strict=True)):
        fields = dict(zip(series, values, strict=True))
        for name, start, field in (
            ("growth", 1.0, "residual_norms"),
            ("g_L", 1e-3, "bp_grad_norms"),
        ):
            if name in fields:
                fields[field] = [start, fields.pop(name)]
        epochs.append(TraceEpoch(epoch=first + n, **fields))
    key = key or f"{method}_s{seed}"
    return Trace(source=source, key=key, method=method, seed=seed, epochs=epochs)


def timeline(one, *options, frozen_baseline=None, **more):
    """One trace, replayed alone."""
    audit = row(one.method, baseline=frozen_baseline, source=one.source, growth=1.0)
    [found] = Replay([one], table(replace(audit, key=one.key))).timelines(*options, **more)
    return found
