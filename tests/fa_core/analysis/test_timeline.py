"""Traces replayed: first fires, early stops, and traces that lack something."""

import math

import pytest
from msgspec.structs import replace

from fa_core.analysis.timeline import Replay, by_method
from fa_core.formats.trace import without_copies
from fa_core.report.baseline import FrozenBaseline
from fa_core.reporting.sections.analyses import timeline_blocks
from tests.fa_core.analysis.runs import row, table, timeline, trace


def crossing(seed=42, a=None, b=None, epochs=100, first=1, acc=0.3076, seconds=None):
    """A trace whose growth and gradient cross the default thresholds at the given epochs."""
    counted = range(first, first + epochs)
    growth = [100.0 if a and epoch >= a else 2.0 for epoch in counted]
    gradient = [1e-9 if b and epoch >= b else 1e-3 for epoch in counted]
    return trace(
        seed=seed,
        first=first,
        growth=growth,
        g_L=gradient,
        test_acc=[acc] * epochs,
        seconds=[seconds] * epochs,
    )


PUBLISHED = [crossing(42, 8, 4), crossing(123, 11, 4), crossing(456, 8, 3)]
NAN = trace(growth=[math.nan] * 2, g_L=[math.nan] * 2)


def test_first_fires_of_the_published_dfa_runs_come_out_per_seed():
    together = Replay(PUBLISHED, table()).timelines()
    assert together == [timeline(one) for one in PUBLISHED]
    (method,) = by_method(together)
    assert method.seeds == (42, 123, 456)
    assert method.first_fire["a"] == (8, 11, 8)
    assert method.first_fire["b"] == (4, 4, 3)


@pytest.mark.parametrize(
    ("run", "options", "expected"),
    [
        (PUBLISHED[0], {}, (4, "b", 4, 100)),
        (PUBLISHED[0], {"stop_on": "a"}, (8, "a", 8, 100)),
        (crossing(b=3, first=0, seconds=2.0), {}, (3, "b", 4, 100)),
        (crossing(b=4, first=0, epochs=101), {}, (4, "b", 4, 100)),
        (NAN, {}, (1, "ab", 1, 2)),
    ],
    ids=["published", "on choice", "from zero", "an untrained record", "NaN"],
)
def test_a_run_stops_at_the_first_fire_and_saves_the_epochs_after_it(run, options, expected):
    stop = timeline(run, **options).stop
    assert (stop.epoch, stop.on, stop.epochs_trained, stop.epochs_total) == expected
    assert stop.saved == pytest.approx(1 - expected[2] / expected[3])
    assert stop.acc == stop.final_acc == (None if run is NAN else 0.3076)


def test_runs_of_two_folders_are_no_seeds_of_each_other_where_a_run_is_in_both():
    once = [trace(seed=seed, source=f"main/dfa_s{seed}/trace.jsonl") for seed in (1, 2)]
    again = trace(seed=1, source="wide/dfa_s1/trace.jsonl")
    found = by_method(Replay([*once, again], table()).timelines())
    assert [(one.collection, one.seeds) for one in found] == [("main", (1, 2)), ("wide", (1,))]


def test_a_healthy_run_never_fires_and_has_no_stop():
    found = timeline(crossing(1, acc=0.25))
    assert found.first_fire == {"a": None, "b": None}
    assert found.stop is None
    (alone,) = by_method([found])
    assert (alone.stopped, alone.saved, alone.acc_at_stop) == (0, None, None)
    (both,) = by_method([found, timeline(crossing(2, b=3, acc=0.75))])
    assert (both.stopped, both.acc_at_stop, both.final_acc) == (1, 0.75, 0.75)


def test_a_fire_that_heals_has_a_first_epoch_and_no_lasting_one():
    for last, lasting in ((2.0, None), (99.0, 2)):
        found = timeline(trace(growth=[2.0, 99.0, last]))
        assert (found.first_fire["a"], found.lasting["a"]) == (2, lasting)


def test_margin_needs_a_baseline_and_uses_the_one_given():
    without = timeline(crossing(epochs=3))
    assert "d" not in without.first_fire
    assert any("--frozen-baseline" in note for note in without.skipped)
    found = timeline(crossing(epochs=3), frozen_baseline=0.349)
    assert found.first_fire["d"] == 3  # the baseline is of the end
    assert [point.margin_pp for point in found.points] == [None, None, pytest.approx(-4.14)]


def test_an_audit_of_the_same_run_folder_lends_its_baseline_and_no_other_does():
    one = replace(crossing(epochs=3), source="runs/dfa_s42/trace.jsonl")
    ends = {"margin_pp": [-9, 3]}
    same = row(acc=0.3076, baseline=0.349, source="runs/dfa_s42", intervals=ends)
    elsewhere = row(acc=0.3, baseline=0.2), row("bp", acc=0.6, baseline=0.2)
    typed = replace(same, report=replace(same.report, provenance={"frozen_baseline_from": "given"}))
    for rows, assumed, margin in (
        ([same, *elsewhere], FrozenBaseline(), -4.14),
        ([typed], FrozenBaseline(), -4.14),
        (elsewhere, FrozenBaseline(0.3), 0.76),
        ([same], FrozenBaseline(by_method={"dfa": 0.31}), -0.24),
    ):
        (found,) = Replay([one], table(*rows), assumed).timelines()
        assert found.points[-1].margin_pp == pytest.approx(margin)
        is_lent = rows[0] is same and not assumed.by_method
        assert found.evidence == ({} if is_lent else {"d": "assumed"})
        # with the interval of (d)
        assert ("d" in found.undecided) == is_lent
    facts = {"data_hash": "sha256:1", "trained_on": "sha256:2"}
    for changed in ({"provenance": facts}, {"headline_acc": 0.3176}, {"changed": "its files"}):
        other = replace(same, report=replace(same.report, **changed))
        (found,) = Replay([one], table(other)).timelines()
        assert found.points[-1].margin_pp is None
        assert "its audit lends nothing" in found.skipped[0]
    # a record elsewhere: of the folder that it names, or the run of a log; a file's name is no proof
    for place, checkpoint, is_lent in (
        ("w/dfa_s42.jsonl", "dfa_s42", False),
        ("w/traces.jsonl", "dfa_s42", True),
        ("/w/dfa/trace.jsonl", "/w/dfa/model.safetensors", True),
    ):
        record = replace(same, source="w/audits.json", checkpoint=checkpoint)
        (found,) = Replay([replace(one, source=place)], table(record)).timelines()
        assert ("d" in found.first_fire) == is_lent
    begun = replace(one, notes=("training, epoch 3 of 9",))
    (found,) = Replay([begun], table(*elsewhere)).timelines()
    assert "(d) not judged: done when its training is complete" in found.skipped


def test_a_copied_run_folder_is_one_run_and_the_last_stands():
    copies = [replace(crossing(), source=f"{place}/dfa_s42/trace.jsonl") for place in "fg"]
    assert len(without_copies(copies)) == 2
    copies = [replace(one, provenance={"method": "dfa"}) for one in copies]
    other = replace(copies[0], epochs=copies[0].epochs[:-1])
    assert without_copies([*copies, other]) == [copies[1], other]


def test_runs_whose_manifests_are_not_alike_are_no_seeds_of_one_method():
    traces = [
        replace(crossing(s), source=f"r/dfa_s{s}", provenance={"recipe": {"lr": lr}})
        for s, lr in ((1, 0.1), (2, 0.1), (3, 0.3))
    ]
    # whether or not an audit is there
    found = Replay(traces, table(row(seed=1, acc=0.3076, source="r/dfa_s1"))).timelines()
    assert [(one.axes["lr"], one.seeds) for one in by_method(found)] == [
        (0.1, (1, 2)),
        (0.3, (3,)),
    ]


def test_a_trace_says_which_input_is_missing():
    found = timeline(trace(test_acc=[0.3]))
    assert found.first_fire == {} and found.stop is None
    said = " ".join(found.skipped)
    for words in ("(a) not judged", "(b) not judged", "(c) not judged"):
        assert words in said
    found = timeline(crossing(b=2, epochs=5, acc=None))
    assert (found.stop.acc, found.final_acc) == (None, None)
    assert "(a), (b) judged by the number alone" in " ".join(found.skipped)


def test_the_table_says_what_is_by_proxy_and_what_is_assumed_and_nothing_where_all_is_exact():
    proxy = trace(g_L=[1e-3, 1e-9], test_acc=[0.36] * 2, evidence=[{"b": "proxy"}] * 2)
    found = Replay([proxy], table(), FrozenBaseline(0.4)).timelines()
    methods, runs, *_ = timeline_blocks(found)
    assert methods.rows[0][2:6] == ("N/A", "2 proxy", "N/A", "2 assumed")
    assert runs.rows[0][2:7] == ("N/A", "2 proxy", "N/A", "2 assumed", "2 (b proxy)")
    assert by_method(found)[0].evidence == {"b": "proxy", "d": "assumed"}
    seeds = [trace(seed=1, growth=[99.0]), trace(seed=2, test_acc=[0.3])]
    found = Replay(seeds, table()).timelines(stop_on="a")
    methods, runs, *_ = timeline_blocks(found)
    assert methods.rows[0][2:7:4] == ("1/·", "1 of 1")
    assert (runs.rows[1][6], by_method(found)[0].measured) == ("N/A", ("a", ""))
    for grid in list(timeline_blocks([timeline(PUBLISHED[0])]))[:2]:
        assert grid.rows[0][3] == "4"


def test_gamma_goes_with_the_epochs_and_its_deep_mean_is_over_the_same_layers():
    gammas = [[0.9, 0.1, 0.3, 0.9], [0.8, 0.2, None, 0.7], []]
    for method, deep in (("dfa", 1.3 / 3), ("fa", 0.2)):
        points = timeline(trace(method, gamma=gammas)).points
        assert [point.gamma for point in points] == [tuple(gamma) for gamma in gammas]
        # a mean over fewer layers than in the epoch before would be another number
        assert [point.deep_gamma for point in points] == [pytest.approx(deep), None, None]


def test_a_run_has_the_null_of_its_own_audit_or_none():
    gamma = [0.9, 0.1, 0.3]
    drawn = {"gamma": gamma, "null": {"deep_gamma_mean": 0.01, "deep_gamma_std": 0.02}}
    audits = {"a": drawn, "b": {"gamma": gamma}, "c": None}
    runs = table(*(row(source=s, credit=credit, growth=1.0) for s, credit in audits.items()))
    traces = [trace("dfa", key=s, source=s, gamma=[gamma]) for s in "abcd"]
    assert [one.null for one in Replay(traces, runs).timelines()] == [(0.01, 0.02), *[None] * 3]
