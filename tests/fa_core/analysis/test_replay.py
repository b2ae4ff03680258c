"""The table of epochs says what replaying one trace says, at any thresholds."""

import math

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.analysis.timeline import Replay, timeline
from fa_core.formats import TraceEpoch
from fa_core.report.diagnostics import letters_of
from fa_core.report.thresholds import DiagnosticThresholds
from tests.fa_core.analysis.runs import trace

numbers = st.one_of(st.floats(1e-10, 1e10), st.sampled_from([math.nan, math.inf, 0.0]))
accs = st.one_of(st.none(), st.floats(0, 1))
records = st.builds(
    TraceEpoch,
    epoch=st.just(0),
    residual_norms=st.one_of(st.just([]), st.lists(numbers, min_size=2, max_size=4)),
    bp_grad_norms=st.lists(numbers, max_size=3),
    cross_batch_stability=st.one_of(st.none(), st.floats(-1, 1), st.just(math.nan)),
    test_acc=accs,
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
def test_first_fires_stops_and_letters_are_those_of_each_trace_replayed_alone(
    given, limits, stop_on
):
    replay = Replay([one for one, _ in given], [baseline for _, baseline in given])
    flags = replay.flags(limits)
    expected = [timeline(one, limits, stop_on, baseline) for one, baseline in given if one.epochs]
    assert len(expected) == len(replay.traces)
    for run, one in enumerate(expected):
        assert replay.first_fires(run, flags) == one.first_fire
        assert repr(replay.stop(run, flags, stop_on)) == repr(one.stop)
        letters = [letters_of(int(bits)) for bits in flags[replay.records(run)]]
        assert letters == [point.flags for point in one.points]


def test_a_run_stands_where_its_last_record_left_it():
    replay = Replay([trace(growth=[1, 2, 3, 4]), trace(growth=[5, 6], first=3)])
    assert replay.epochs == [1, 2, 3, 4]
    assert replay.row_at(0, 2).report.residual_norms == [1.0, 2.0]
    assert replay.row_at(0, 99).report.residual_norms == [1.0, 4.0]
    assert replay.record_at(1, 2) is None
    assert replay.row_at(1, 2).report.coverage == ""


def test_letters_change_within_runs_and_not_from_one_run_to_the_next():
    replay = Replay([trace(growth=growth) for growth in ([99, 99], [1, 1, 99], [1])])
    assert replay.flips(replay.flags()) == [3]


def test_a_trace_without_an_epoch_is_left_out():
    replay = Replay([trace(key="empty"), trace(key="fine", growth=[1])], [0.3, None])
    assert [one.key for one in replay.traces] == ["fine"]
    assert len(Replay([]).flags()) == 0
