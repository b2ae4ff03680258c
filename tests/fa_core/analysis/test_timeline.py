"""Traces replayed: first fires, early stops, and traces that lack something."""

import json
import math

import numpy as np
import pytest
from msgspec.structs import replace

from fa_core.analysis.timeline import by_method, timeline, timelines
from fa_core.formats import Trace, TraceEpoch, scan
from fa_core.judgement.baseline import FrozenBaseline
from fa_core.judgement.gamma import null_band
from fa_core.reporting.blocks import Grid
from fa_core.reporting.sections.analyses import timeline_blocks
from tests.fa_core.analysis.runs import row, table

EPOCHS = 100


def trace(
    seed=42,
    fires_a=None,
    fires_b=None,
    epochs=EPOCHS,
    first=1,
    acc=0.3076,
    **more,
):
    """A trace whose growth and gradient cross the default thresholds at the given epochs."""
    records = [
        TraceEpoch(
            epoch=epoch,
            test_acc=acc,
            residual_norms=[1.0, 100.0 if fires_a is not None and epoch >= fires_a else 2.0],
            bp_grad_norms=[1e-3, 1e-9 if fires_b is not None and epoch >= fires_b else 1e-3],
            **more,
        )
        for epoch in range(first, first + epochs)
    ]
    return Trace(source="runs", key=f"dfa_s{seed}", method="dfa", seed=seed, epochs=records)


PUBLISHED = [trace(42, 8, 4), trace(123, 11, 4), trace(456, 8, 3)]


def test_first_fires_of_the_published_dfa_runs_come_out_per_seed():
    (method,) = by_method([timeline(one) for one in PUBLISHED])
    assert method.seeds == (42, 123, 456)
    assert method.first_fire["a"] == (8, 11, 8)
    assert method.first_fire["b"] == (4, 4, 3)


def test_stopping_at_epoch_4_of_100_saves_96_percent_at_the_same_accuracy():
    stop = timeline(PUBLISHED[0]).stop
    assert stop is not None
    assert (stop.epoch, stop.on, stop.epochs_trained, stop.epochs_total) == (4, "b", 4, 100)
    assert stop.saved == pytest.approx(0.96)
    assert (stop.acc, stop.final_acc) == (0.3076, 0.3076)


def test_a_healthy_run_never_fires_and_has_no_stop():
    found = timeline(trace())
    assert found.first_fire == {"a": None, "b": None}
    assert found.stop is None
    (method,) = by_method([found])
    assert (method.stopped, method.saved, method.acc_at_stop) == (0, None, None)


def test_a_fire_that_heals_has_a_first_epoch_and_no_lasting_one():
    healed = trace(fires_a=5, epochs=9)
    calm = [TraceEpoch(epoch=10, residual_norms=[1.0, 2.0], bp_grad_norms=[1e-3, 1e-3])]
    found = timeline(Trace(source="", key="x", method="dfa", epochs=[*healed.epochs, *calm]))
    assert found.first_fire["a"] == 5
    assert found.lasting["a"] is None
    assert timeline(healed).lasting["a"] == 5


def test_which_diagnostics_stop_a_run_is_the_users_choice():
    stop = timeline(PUBLISHED[0], stop_on="a").stop
    assert stop is not None and (stop.epoch, stop.on) == (8, "a")


def test_epochs_numbered_from_zero_count_as_finished_ones():
    stop = timeline(trace(fires_b=3, first=0, seconds=2.0)).stop
    assert stop is not None
    assert (stop.epoch, stop.epochs_trained, stop.epochs_total) == (3, 4, 100)
    assert stop.saved == pytest.approx(0.96)


def test_an_untrained_record_zero_is_not_an_epoch():
    stop = timeline(trace(fires_b=4, first=0, epochs=101)).stop
    assert stop is not None
    assert (stop.epochs_trained, stop.epochs_total) == (4, 100)


def test_a_growing_trace_is_measured_against_its_planned_length():
    stop = timeline(trace(fires_b=4, epochs=10), total_epochs=100).stop
    assert stop is not None and stop.saved == pytest.approx(0.96)


def test_margin_needs_a_baseline_and_uses_the_one_given():
    without = timeline(trace(epochs=3))
    assert "d" not in without.first_fire
    assert any("--frozen-baseline" in note for note in without.skipped)
    found = timeline(trace(epochs=3), frozen_baseline=0.349)
    assert found.first_fire["d"] == 1 and found.lasting["d"] == 1
    assert found.points[0].margin_pp == pytest.approx(-4.14)


def test_an_audit_of_the_same_run_folder_lends_its_baseline_and_no_other_does():
    one = replace(trace(epochs=3), source="runs/dfa_s42/trace.jsonl")
    same = row(acc=0.3, baseline=0.349, source="runs/dfa_s42")
    elsewhere = [
        row(acc=0.3, baseline=0.2, source="table.json"),
        row("bp", acc=0.6, baseline=0.2, source="table.json"),
    ]
    (found,) = timelines([one], table(same, *elsewhere))
    assert found.points[-1].margin_pp == pytest.approx(-4.14)
    (found,) = timelines([one], table(*elsewhere))
    assert "d" not in found.first_fire
    (found,) = timelines([one], table(*elsewhere), assumed=FrozenBaseline(0.3))
    assert found.points[-1].margin_pp == pytest.approx(0.76)
    (found,) = timelines([one], table(same), assumed=FrozenBaseline(by_method={"dfa": 0.31}))
    assert found.points[-1].margin_pp == pytest.approx(-0.24)


def test_a_trace_without_norms_says_which_input_is_missing():
    bare = Trace(source="", key="x", method="dfa", epochs=[TraceEpoch(epoch=1, test_acc=0.3)])
    found = timeline(bare)
    assert found.first_fire == {} and found.stop is None
    said = " ".join(found.skipped)
    for words in ("(a) not judged", "(b) not judged", "(c) not judged", "no early stop"):
        assert words in said


def test_a_trace_without_accuracy_stops_without_one():
    found = timeline(trace(fires_b=2, epochs=5, acc=None))
    assert found.stop is not None
    assert (found.stop.acc, found.final_acc) == (None, None)
    assert any("no test accuracy" in note for note in found.skipped)


def test_a_trace_of_nans_fires_at_once():
    nan = float("nan")
    epochs = [
        TraceEpoch(epoch=e, residual_norms=[1.0, nan], bp_grad_norms=[nan, nan]) for e in (1, 2)
    ]
    found = timeline(Trace(source="", key="x", method="dfa", epochs=epochs))
    assert found.first_fire == {"a": 1, "b": 1}
    assert found.stop is not None and found.stop.on == "ab"


def test_the_table_says_what_is_by_proxy_and_what_is_assumed_and_nothing_where_all_is_exact(
    tmp_path,
):
    log = [
        {"epoch": e, "h_L_norm": 20.0, "g_2_norm": 1e-9 if e > 1 else 1e-3, "test_acc": 0.36}
        for e in (1, 2, 3)
    ]
    path = tmp_path / "dfa_pen_lam0.01_s42.json"
    path.write_text(json.dumps({"lam": 0.01, "seed": 42, "final_test_acc": 0.36, "log": log}))
    found = timelines(scan([path]).traces, table(), assumed=FrozenBaseline(0.4))
    methods, runs, *_ = timeline_blocks(found)
    assert isinstance(methods, Grid) and isinstance(runs, Grid)
    assert methods.rows[0][2:6] == ("N/A", "2 proxy", "N/A", "1 assumed")
    assert runs.rows[0][2:7] == ("N/A", "2 proxy", "N/A", "1 assumed", "2 (b proxy)")
    assert "proxy" in methods.caption and "proxy" in runs.caption
    assert by_method(found)[0].evidence == {"b": "proxy", "d": "assumed"}
    exact = [
        block for block in timeline_blocks([timeline(PUBLISHED[0])]) if isinstance(block, Grid)
    ]
    assert [grid.rows[0][3] for grid in exact] == ["4", "4"]
    assert not any("proxy" in grid.caption for grid in exact)


def test_gamma_goes_with_the_epochs_and_its_deep_mean_leaves_the_free_layer_out():
    gammas = [[0.9, 0.1, 0.3, 0.9], [0.8, 0.2, None, 0.7], []]
    epochs = [TraceEpoch(epoch=i, test_acc=0.5, gamma=gamma) for i, gamma in enumerate(gammas, 1)]
    found = {
        method: timeline(
            Trace(source="t", key=method, method=method, seed=1, axes={}, epochs=epochs)
        )
        for method in ("dfa", "fa")
    }
    assert [point.gamma for point in found["dfa"].points] == [tuple(gamma) for gamma in gammas]
    deep = {method: [point.deep_gamma for point in one.points] for method, one in found.items()}
    assert deep["dfa"] == [pytest.approx(1.3 / 3), pytest.approx(0.45), None]
    assert deep["fa"] == [pytest.approx(0.2), pytest.approx(0.2), None]


def test_a_run_has_the_null_of_its_own_audit_or_the_closed_form_or_none():
    gamma = [0.9, 0.1, 0.3]
    drawn = {"gamma": gamma, "null": {"deep_gamma_mean": 0.01, "deep_gamma_std": 0.02}}
    known = {"arch_args": {"d": 50}, "classes": 10}
    runs = table(
        row("dfa", source="a", credit=drawn, provenance=known),
        row("ep", source="b", credit={"gamma": gamma}, provenance=known),
        row("bp", source="c", credit={"gamma": gamma}, provenance=known),
        row("ep", source="d", credit={"gamma": gamma}),
    )
    epochs = [TraceEpoch(epoch=1, test_acc=0.5, gamma=gamma)]
    traces = [
        Trace(source=s, key=s, method=m, epochs=epochs)
        for s, m in zip("abcde", ("dfa", "ep", "bp", "ep", "ep"), strict=True)
    ]
    found = timelines(traces, runs)
    # BP's last layer comes free, so that its deep Γ is of one layer
    assert [one.null for one in found] == [
        (0.01, 0.02),
        (0.0, pytest.approx(1 / math.sqrt(50 * 9 * 2))),
        (0.0, pytest.approx(1 / math.sqrt(50 * 9))),
        None,
        None,
    ]


@pytest.mark.parametrize(("d", "classes"), [(64, 10), (32, 4)])
def test_the_closed_form_of_the_null_is_what_drawn_feedback_gives(d, classes):
    rng = np.random.default_rng(0)
    errors = rng.normal(size=(400, classes))
    errors -= errors.mean(1, keepdims=True)  # e_T sums to 0
    gradients = errors @ np.linalg.qr(rng.normal(size=(d, classes)))[0].T
    deep = []
    for _ in range(400):
        credit = errors @ rng.normal(size=(classes, d))
        norms = np.linalg.norm(credit, axis=1) * np.linalg.norm(gradients, axis=1)
        deep.append(((credit * gradients).sum(1) / norms).mean())
    _, std = null_band(
        {"gamma": [0.0, 0.0]}, "dfa", {"arch_args": {"d": d}, "classes": classes}
    ) or (0.0, 0.0)
    assert np.std(deep, ddof=1) == pytest.approx(std, rel=0.15)
    assert abs(np.mean(deep)) < 3 * std / math.sqrt(400)


def test_a_method_that_never_stops_has_a_final_accuracy():
    (found,) = by_method([timeline(trace(1, acc=0.25)), timeline(trace(2, fires_b=3, acc=0.75))])
    assert (found.stopped, found.acc_at_stop, found.final_acc) == (1, 0.75, 0.5)
