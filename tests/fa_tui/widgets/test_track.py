"""The values a threshold stops at."""

import math

from hypothesis import given
from hypothesis import strategies as st

from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import DIAGNOSTICS
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.views.scale import R10, R20, drawable, next_multiple, next_rung
from fa_tui.widgets.slider import Flips

positive = st.floats(min_value=1e-200, max_value=1e200)
ladders = st.sampled_from([R20, R10, (1.0,)])


@given(ladders, positive)
def test_a_step_moves_strictly_and_a_step_back_does_not_pass_the_start(ladder, value):
    up = next_rung(value, ladder, upward=True)
    down = next_rung(value, ladder, upward=False)
    assert down < value < up
    assert next_rung(up, ladder, upward=False) <= value
    assert next_rung(down, ladder, upward=True) >= value


@given(st.integers(-(10**6), 10**6), st.sampled_from([0.01, 0.1, 1.0]))
def test_linear_steps_land_on_short_decimals(count, unit):
    value = float(f"{count * unit:.12g}")
    up = next_multiple(value, unit, upward=True)
    assert up == float(f"{(count + 1) * unit:.12g}")
    assert len(repr(up)) <= 12


def test_a_value_between_rungs_steps_to_the_nearest_one():
    assert next_multiple(2.04, 0.1, upward=True) == 2.1
    assert next_multiple(2.04, 0.1, upward=False) == 2.0


def _above(value, threshold):
    thresholds = DiagnosticThresholds(stability_drift_ceiling=threshold)
    return DiagnosticReport(cross_batch_stability=value, thresholds=thresholds).flags


def _below(value, threshold):
    return DiagnosticReport(
        bp_grad_norms=[value], thresholds=DiagnosticThresholds(g_norm_floor=threshold)
    ).flags


values = st.floats(1e-9, 1e9) | st.sampled_from([1.0, math.nextafter(1.0, 2.0), 1.0000001])


@given(st.lists(values, min_size=1, max_size=8), values, st.booleans(), st.booleans())
def test_a_jump_flips_a_verdict_and_every_flip_value_is_met_on_the_way(runs, start, above, upward):
    judge = _above if above else _below

    def verdicts(at):
        return [judge(run, at) for run in runs]

    flips = Flips(sorted(drawable(runs, log=False)), DIAGNOSTICS["c" if above else "b"])
    here, jumps = start, 0
    while (there := flips.next(here, upward=upward)) is not None:
        assert there > here if upward else there < here
        changed = sum(old != new for old, new in zip(verdicts(here), verdicts(there), strict=True))
        assert changed >= 1
        assert len({run for run in runs if judge(run, here) != judge(run, there)}) == 1, (
            "one value at a time"
        )
        here, jumps = there, jumps + 1
    beyond = math.inf if upward else 0.0  # below every value
    assert verdicts(here) == verdicts(beyond)
    assert jumps <= len(set(runs))


def test_runs_that_are_not_finite_never_flip():
    assert (
        Flips(drawable([math.nan, math.inf], log=False), DIAGNOSTICS["c"]).next(1.0, upward=True)
        is None
    )
    assert Flips(drawable([math.nan], log=False), DIAGNOSTICS["c"]).plateau(1.0) is None
