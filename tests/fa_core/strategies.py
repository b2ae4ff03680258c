"""Hypothesis strategies for measurements, thresholds and JSON."""

from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.formats.rows import AuditRow
from fa_core.formats.table import AuditTable
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.report_facts import DiagnosticThresholds

norms = st.floats(min_value=0.0, max_value=1e300)
accuracies = st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.349, 0.369, 0.1, 0.5]))
cosines = st.floats(-1.0, 1.0)
INTERVALS = ["growth", "g_L", "stability", "acc", "margin_pp"]
broken = st.sampled_from([float("nan"), float("inf")])


@st.composite
def reports(draw, nonfinite=False):
    """Any valid report: each diagnostic measured or not, with non-finite values if asked for."""
    number = st.one_of(norms, broken) if nonfinite else norms
    cosine = st.one_of(cosines, broken) if nonfinite else cosines
    acc = st.one_of(accuracies, broken) if nonfinite else accuracies
    layers = draw(st.integers(1, 6))
    values = st.lists(number, min_size=layers, max_size=layers)
    stream = draw(st.one_of(st.just([]), values))
    bound = st.none() if len(stream) > 1 else st.none() | number
    return DiagnosticReport(
        method_name=draw(st.sampled_from(["BP", "DFA", "STATE_BRIDGE", ""])),
        residual_norms=stream,
        bp_grad_norms=draw(st.one_of(st.just([]), values)),
        cross_batch_stability=draw(st.none() | cosine),
        headline_acc=draw(st.none() | acc),
        frozen_baseline_acc=draw(st.none() | acc),
        growth_bound=draw(bound),
        intervals=draw(st.dictionaries(st.sampled_from(INTERVALS), intervals())),
    )


def intervals():
    """(low, high), of numbers that may lie on either side of a threshold."""
    number = st.one_of(st.floats(-1e300, 1e300), st.sampled_from([1e-7, 50.0, 0.3, 2.0, 0.369]))
    return st.tuples(number, number).map(lambda ends: (min(ends), max(ends)))


@st.composite
def thresholds(draw):
    """Any thresholds, ±inf included."""
    return DiagnosticThresholds(
        g_norm_floor=draw(st.floats(0, allow_nan=False)),
        h_norm_explosion_ratio=draw(st.floats(0, allow_nan=False)),
        stability_drift_ceiling=draw(st.floats(allow_nan=False)),
        frozen_acc_margin_pp=draw(st.one_of(st.floats(allow_nan=False), st.just(2.0))),
    )


@st.composite
def audit_rows(draw):
    """A row as `write_audit_table` may be given it."""
    method = draw(st.sampled_from(["bp", "dfa", "state_bridge", "my_rule"]))
    seed = draw(st.none() | st.integers(0, 10**6))
    return AuditRow(
        source="here",
        key="any",
        method=method,
        seed=seed,
        report=draw(reports(nonfinite=True)),
        checkpoint=draw(st.none() | st.just("runs/a")),
        axes=dict(draw(st.sets(st.sampled_from([("lam", 0.01), ("d", 128), ("arch", "resmlp")])))),
    )


def assuming(table, default=None, **by_method):
    """The table judged by frozen baselines that are assumed."""
    baseline = FrozenBaseline(default, by_method)
    rows = [
        replace(row, report=baseline.assumed_in(row.report, row.method)) for row in table.rows()
    ]
    return AuditTable.from_rows(rows, table.problems)
