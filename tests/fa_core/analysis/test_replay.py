"""Many traces judged in one table are judged as each alone, at any thresholds."""

import math

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.analysis.timeline import Replay, by_condition
from fa_core.formats import TraceEpoch
from fa_core.report.thresholds import DiagnosticThresholds
from tests.fa_core.analysis.runs import timeline, trace

numbers = st.one_of(st.floats(1e-10, 1e10), st.sampled_from([math.nan, math.inf, 0.0]))
accs = st.one_of(st.none(), st.floats(0, 1))
records = st.builds(
    TraceEpoch,
    epoch=st.just(0),
    residual_norms=st.one_of(st.just([]), st.lists(numbers, min_size=2, max_size=4)),
    bp_grad_norms=st.lists(numbers, max_size=3),
    cross_batch_stability=st.one_of(st.none(), st.floats(-1, 1), st.just(math.nan)),
    test_acc=accs,
    loss=accs,
)
thresholds = st.builds(
    DiagnosticThresholds,
    g_norm_floor=st.floats(1e-10, 1e5),
    h_norm_explosion_ratio=st.floats(1e-3, 1e8),
    stability_drift_ceiling=st.floats(-1, 1),
    frozen_acc_margin_pp=st.floats(-50, 50),
)


@st.composite
def traces(draw):
    first = draw(st.integers(0, 3))
    found = enumerate(draw(st.lists(records, max_size=6)))
    epochs = [replace(one, epoch=first + 2 * n) for n, one in found]
    return replace(trace("m", first), epochs=epochs)


@given(
    st.lists(st.tuples(traces(), accs), max_size=4),
    thresholds,
    st.sampled_from(["a", "b", "ab", "abcd"]),
)
def test_runs_are_judged_together_as_each_alone(given, limits, stop_on):
    runs = [replace(one, key=f"run {n}") for n, (one, _) in enumerate(given)]
    baselines = [baseline for _, baseline in given]
    replay = Replay(runs, baselines)
    alone = [
        timeline(one, limits, stop_on, frozen_baseline=baseline)
        for one, baseline in zip(runs, baselines, strict=True)
    ]
    assert repr(replay.timelines(limits, stop_on)) == repr(alone)


def test_runs_of_two_folders_are_no_seeds_of_each_other_where_a_run_is_in_both():
    once = [trace(seed=seed, source=f"main/dfa_s{seed}/trace.jsonl") for seed in (1, 2)]
    again = trace(seed=1, source="wide/dfa_s1/trace.jsonl")
    assert [place for place, _ in by_condition([timeline(one) for one in once])] == [""]
    apart = by_condition([timeline(one) for one in (*once, again)])
    assert [(place, len(runs)) for place, runs in apart] == [("main", 2), ("wide", 1)]
