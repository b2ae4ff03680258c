"""Strategies against a direct reading of their definitions."""

from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from fa_core.analysis.utility import decision_utility
from fa_core.judgement.diagnostics import LETTERS
from tests.fa_core.analysis.runs import row, table

FIRING = {
    "a": {"growth": 100.0},
    "b": {"g_L": 1e-9},
    "c": {"cosine": 0.9},
    "d": {"acc": 0.3, "baseline": 0.35},
}
PASSING = {"growth": 1.0, "g_L": 1e-2, "cosine": 0.0, "acc": 0.5, "baseline": 0.3}
flag_sets = st.lists(st.sets(st.sampled_from(LETTERS)), max_size=8)


def runs_firing(sets):
    rows = []
    for seed, letters in enumerate(sets):
        numbers = dict(PASSING)
        for letter in letters:
            numbers.update(FIRING[letter])
        rows.append(row(seed=seed, **numbers))
    return table(*rows)


@given(flag_sets)
def test_each_strategy_walks_back_what_its_diagnostic_fires_on(sets):
    found = {
        one.name: set(one.walked_back) for one in decision_utility(runs_firing(sets)).strategies
    }
    expected = {
        letter: {f"dfa_s{i}" for i, fired in enumerate(sets) if letter in fired}
        for letter in LETTERS
    }
    assert [found[name] for name in ("S2", "S3", "S4", "S5")] == [
        expected[letter] for letter in LETTERS
    ]
    assert found["S_full"] == set().union(*expected.values())
    assert found["S0"] == found["S1"] == set()


@given(flag_sets)
def test_the_smallest_sets_are_sufficient_and_nothing_smaller_is(sets):
    found = decision_utility(runs_firing(sets))
    caught = [fired for fired in sets if fired]
    subsets = chain.from_iterable(combinations(LETTERS, size) for size in range(5))
    covers = [subset for subset in subsets if all(fired & set(subset) for fired in caught)]
    smallest = min(map(len, covers))
    expected = tuple("".join(subset) for subset in covers if len(subset) == smallest)
    assert found.smallest_sets == (expected if caught else ())


@given(flag_sets)
def test_what_is_missed_without_a_diagnostic_fires_it_alone(sets):
    missed = decision_utility(runs_firing(sets)).missed_without
    for letter in LETTERS:
        assert missed[letter] == tuple(
            f"dfa_s{i}" for i, fired in enumerate(sets) if fired == {letter}
        )


def test_accuracy_at_chance_is_walked_back_by_every_strategy():
    found = decision_utility(table(row(acc=0.1, growth=1.0)))
    assert all(len(one.walked_back) == 1 for one in found.strategies)
    assert found.smallest_sets == ("",)


def test_a_negative_mean_gamma_is_walked_back_by_s1_only():
    found = decision_utility(table(row(acc=0.5, growth=1.0, credit={"gamma": [0.1, -0.1, -0.2]})))
    caught = {one.name: len(one.walked_back) for one in found.strategies}
    assert caught == {"S0": 0, "S1": 1, "S2": 0, "S3": 0, "S4": 0, "S5": 0, "S_full": 0}


def test_what_is_missing_is_said():
    found = decision_utility(table(row(growth=1.0), row(seed=2)))
    said = " ".join(found.skipped)
    assert found.runs == 1
    for words in (
        "1 unmeasured",
        "no accuracy on 1 of 1",
        "no Γ on 1 of 1",
        "(b) not measured",
        "(d) not measured",
    ):
        assert words in said


def test_no_runs_give_no_agreement():
    found = decision_utility(table())
    assert found.runs == 0
    assert all(one.agreement is None for one in found.strategies)
    assert "no measured run: nothing to decide" in found.skipped


def test_chance_follows_from_the_classes_that_a_run_was_measured_with():
    runs = table(
        row("bp", 1, acc=0.45, growth=2.0, provenance={"classes": 2}),
        row("bp", 2, acc=0.45, growth=2.0, provenance={"classes": 100}),
        row("bp", 3, acc=0.09, growth=2.0),
    )
    by_default, given = decision_utility(runs), decision_utility(runs, chance=0.05)
    assert by_default.strategies[0].walked_back == ("bp_s1", "bp_s3") and by_default.chance is None
    assert given.strategies[0].walked_back == () and given.chance == 0.05


def test_the_field_reports_a_mean_over_all_layers_so_layer_0_carries_s1():
    gamma = [0.429, -0.02, -0.03, -0.02, -0.018]
    runs = table(row("dfa", 42, acc=0.3, growth=2.0, credit={"gamma": gamma}))
    assert decision_utility(runs).strategies[1].walked_back == ()


def test_controls_are_no_claim_that_a_strategy_could_withdraw():
    runs = table(
        row("bp", acc=0.6, growth=1.0),
        row("dfa", acc=0.3, growth=400.0),
        row("random_init", acc=0.1, growth=400.0),
        row("frozen", acc=0.35, growth=1.0),
        row("shallow", acc=0.35, growth=1.0),
    )
    found = decision_utility(runs)
    note = "controls are in no group: random_init, frozen, shallow"
    assert found.runs == 2 and [len(one.walked_back) for one in found.strategies] == [
        0,
        0,
        1,
        0,
        0,
        0,
        1,
    ]
    assert note in found.skipped
