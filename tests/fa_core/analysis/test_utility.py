"""Strategies against a direct reading of their definitions."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from fa_core.analysis.utility import decision_utility
from fa_core.report.diagnostics import LETTERS
from tests.fa_core.analysis.runs import row, table

FIRING = {"a": {"growth": 100.0}, "b": {"g_L": 1e-9}, "c": {"cosine": 0.9}, "d": {"acc": 0.3}}
PASSING = {"growth": 1.0, "g_L": 1e-2, "cosine": 0.0, "acc": 0.5, "baseline": 0.3}
flag_sets = st.lists(st.sets(st.sampled_from(LETTERS)), max_size=8)


def utility_of(sets):
    """Of runs that fire these letters."""
    rows = []
    for seed, letters in enumerate(sets):
        fired = [FIRING[letter] for letter in letters]
        rows.append(row(seed=seed, **dict(chain(PASSING.items(), *map(dict.items, fired)))))
    return decision_utility(table(*rows))


def counts(found):
    """How many runs S0 to S5 and S_full withdraw."""
    return [len(one.walked_back) for one in found.strategies]


@given(flag_sets)
def test_each_strategy_walks_back_what_its_diagnostic_fires_on(sets):
    found = utility_of(sets)
    caught = {one.name: set(one.walked_back) for one in found.strategies}
    assert caught["S0"] == caught["S1"] == set()
    every = set()
    for name, letter in zip(("S2", "S3", "S4", "S5"), LETTERS, strict=True):
        assert caught[name] == {f"dfa_s{i}" for i, fired in enumerate(sets) if letter in fired}
        every |= caught[name]
    assert caught["S_full"] == every


def test_accuracy_at_chance_is_walked_back_by_every_strategy():
    assert counts(decision_utility(table(row(acc=0.1, growth=1.0)))) == [1] * 7


def test_s1_walks_back_a_negative_mean_gamma_over_all_layers_as_the_field_reports_it():
    field = [0.429, -0.02, -0.03, -0.02, -0.018]
    for gamma, caught in (([0.1, -0.1, -0.2], 1), (field, 0), ([-0.2, None], 0)):
        runs = table(row(acc=0.5, growth=1.0, credit={"gamma": gamma}))
        assert counts(decision_utility(runs)) == [0, caught, 0, 0, 0, 0, 0]


def test_what_is_missing_or_undecided_is_counted():
    found = decision_utility(table(row(growth=1.0, partial_stream="blocks.1"), row(seed=2)))
    assert [one.judged for one in found.strategies] == [0, 0, 1, 0, 0, 0, 1]
    assert [one.undecided for one in found.strategies] == [0, 0, 1, 0, 0, 0, 1]
    assert found.runs == 1 and found.skipped[0].startswith("1 unmeasured run left out")


def test_of_no_walk_backs_nothing_is_caught():
    found = decision_utility(table())
    assert found.runs == 0
    assert all(one.caught is None for one in found.strategies)
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


def test_controls_are_no_claim_that_a_strategy_could_withdraw():
    controls = [row(name, acc=0.1, growth=400.0) for name in ("random_init", "frozen", "shallow")]
    runs = table(row("bp", acc=0.6, growth=1.0), row("dfa", acc=0.3, growth=400.0), *controls)
    found = decision_utility(runs)
    assert found.runs == 2 and counts(found) == [0, 0, 1, 0, 0, 0, 1]
    assert "controls are left out: random_init, frozen, shallow" in found.skipped
