"""Claims: judged seed by seed, and what cannot be decided says why."""

import math

import pytest

from fa_core.analysis.claims import (
    FAILS,
    HOLDS,
    Claim,
    check_claim,
    check_claims,
    read_claims,
)
from fa_core.errors import UnreadableInput
from fa_core.formats import load_audits
from fa_core.report.diagnostics import NOT_MEASURED, UNDECIDED
from tests.fa_core.analysis.runs import row, seeds_of

WIDE = {"growth": (1.0, 4.0)}
GIVEN = {"provenance": {"frozen_baseline_from": "given"}}


def claim(metric, **limit):
    """Of dfa."""
    return Claim(method="dfa", metric=metric, **limit)


@pytest.mark.parametrize(
    ("limit", "outcome", "words"),
    [
        ({"at_least": 0.3}, HOLDS, "holds on 3 of 3"),
        ({"at_least": 0.31}, FAILS, "holds on 2 of 3; fails on s3"),
        ({"at_most": 0.31}, FAILS, "holds on 2 of 3; fails on s2"),
        ({"at_most": 0.33}, HOLDS, "holds on 3 of 3"),
    ],
)
def test_a_number_meets_its_limit_or_fails_on_its_seed(limit, outcome, words):
    runs = seeds_of("dfa", 0.31, 0.33, 0.3, of="acc")
    found = check_claim(claim("acc", **limit), runs)
    assert (found.outcome, found.words) == (outcome, words)


@pytest.mark.parametrize(
    ("limit", "outcome"),
    [
        ({"at_least": 1.0}, HOLDS),
        ({"at_least": 1.5}, UNDECIDED),
        ({"at_least": 4.1}, FAILS),
        ({"at_most": 4.0}, HOLDS),
        ({"at_most": 2.5}, UNDECIDED),
        ({"at_most": 0.9}, FAILS),
    ],
)
def test_where_a_run_has_an_interval_all_of_it_decides(limit, outcome):
    runs = [row(seed=1, growth=2.0, intervals=WIDE)]
    (seed,) = check_claim(claim("growth", **limit), runs).seeds
    assert (seed.outcome, seed.value, seed.interval) == (outcome, 2.0, (1.0, 4.0))
    assert bool(seed.why) == (outcome == UNDECIDED)
    (seed,) = check_claim(claim("growth", at_most=4.0), [row(growth=5.0, intervals=WIDE)]).seeds
    assert (seed.outcome, seed.why) == (UNDECIDED, "its number lies outside its 95 % interval")


def test_a_seed_that_fails_outweighs_one_that_is_undecided_and_that_one_not_measured():
    runs = seeds_of("dfa", 1.0, None, 2.0, 9.0)
    runs[2] = row(seed=3, growth=2.0, intervals=WIDE)
    one = claim("growth", at_most=3.0)
    found = [check_claim(one, runs[:n]).outcome for n in range(5)]
    assert found == [NOT_MEASURED, HOLDS, NOT_MEASURED, UNDECIDED, FAILS]
    words = "holds on 1 of 4; fails on s4; undecided on s3; not measured on s2"
    assert check_claim(one, runs).words == words
    assert check_claim(one, runs).to_dict()["outcome"] == FAILS


def test_a_named_seed_that_no_run_has_is_not_measured():
    runs = [row(seed=seed, cosine=0.1) for seed in (1, 2, 3)]
    one = claim("drift", at_most=0.3, seeds=[1, 2, 7])
    assert check_claim(one, runs).words == "holds on 2 of 3; not measured on s7"


@pytest.mark.parametrize("growth", [math.nan, math.inf])
def test_a_number_that_is_not_finite_decides_nothing(growth):
    one = claim("growth", at_most=50.0)
    assert check_claim(one, [row(growth=2.0), row(seed=2, growth=growth)]).outcome == UNDECIDED


def test_a_lower_bound_of_growth_never_shows_that_growth_is_small():
    bound = [row(growth_bound=8.0, evidence={"a": "bound"})]
    for side, limit, outcome in (
        ("at_most", 50.0, UNDECIDED),
        ("at_least", 5.0, HOLDS),
        ("at_most", 5.0, FAILS),
    ):
        assert check_claim(claim("growth", **{side: limit}), bound).outcome == outcome


@pytest.mark.parametrize(
    ("metric", "limit", "facts", "outcome"),
    [
        ("growth", {"at_most": 50.0}, {"partial_stream": "blocks"}, UNDECIDED),
        ("growth", {"at_least": 1.5}, {"partial_stream": "blocks"}, HOLDS),
        ("g_L", {"at_least": 1e-7}, {"partial_stream": "blocks"}, UNDECIDED),
        ("g_L", {"at_most": 1.0}, {"partial_stream": "blocks"}, UNDECIDED),
        ("h_L", {"at_most": 50.0}, {"partial_stream": "blocks"}, UNDECIDED),
        ("margin", {"at_least": 2.0}, {"acc": 0.5, "assumed_baseline_acc": 0.1}, NOT_MEASURED),
        ("frozen", {"at_most": 0.2}, {"acc": 0.5, "baseline": 0.1, **GIVEN}, NOT_MEASURED),
        ("growth", {"at_most": 1.5}, {"partial_stream": "blocks"}, FAILS),
        ("growth", {"at_most": 50.0}, {"growth": 0.0}, UNDECIDED),
        ("g_L", {"at_least": 1e-7}, {"growth": 0.0}, HOLDS),
        ("g_L", {"at_least": 1e-7}, {"evidence": {"b": "proxy"}}, UNDECIDED),
        ("g_L", {"at_least": 1.0}, {"evidence": {"b": "proxy"}}, UNDECIDED),
    ],
)
def test_a_number_of_a_part_by_proxy_or_given_by_hand_shows_nothing_that_others_may_undo(
    metric, limit, facts, outcome
):
    one = row(**{"growth": 2.0, "g_L": 1e-3} | facts)
    (seed,) = check_claim(claim(metric, **limit), [one]).seeds
    assert (seed.outcome, bool(seed.why)) == (outcome, outcome not in (HOLDS, FAILS))


def test_two_runs_of_one_seed_decide_nothing_until_an_axis_chooses_one():
    runs = [row(seed=1, acc=0.3, axes={"d": d}) for d in (64, 128)]
    one = claim("acc", at_least=0.2)
    (seed,) = check_claim(one, runs).seeds
    assert (seed.outcome, seed.why[:22]) == (UNDECIDED, "the seed is there twic")
    chosen = claim("acc", at_least=0.2, axes={"d": 64})
    assert check_claim(chosen, runs).words == "holds on 1 of 1"


def test_runs_without_a_seed_are_named_by_their_keys():
    one = claim("acc", at_least=0.4)
    assert (
        check_claim(one, [row(seed=None, acc=0.3)]).words == "holds on 0 of 1; fails on dfa_sNone"
    )


def test_the_published_claims_hold_on_the_published_runs(sample_runs, published_table):
    rows = list(load_audits([published_table]).rows())
    found = check_claims(read_claims(sample_runs / "claims.toml"), rows)
    assert {result.words for result in found} == {"holds on 3 of 3"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"it holds nothing, not \[\[claim\]\] alone"),
        ("claim = []", "it holds claim, not"),
        ("[[claims]]\n[[claim]]\nmethod='dfa'\nmetric='acc'\nat_least=0", "holds claims, claim,"),
        ("[[Claim]]\nmethod='dfa'\nmetric='acc'\nat_least=0", "it holds Claim, not"),
        ("claim = [1]", "claim 1: Expected `object`"),
        ("[[claim", "not TOML"),
        ("[[claim]]\nmethod='dfa'", "missing required field `metric`"),
        (
            "[[claim]]\nmethod='dfa'\nmetric='acc'\nequivalent_to=1",
            "unknown field `equivalent_to`; a claim has method",
        ),
        ("[[claim]]\nmethod='dfa'\nmetric='accc'\nat_least=1", "did you mean acc"),
        ("[[claim]]\nmethod='dfa'\nmetric='acc'\nat_least=nan", "needs one finite number"),
        ("[[claim]]\nmethod='dfa'\nmetric='acc'\nat_least=1\nat_most=2", "needs one finite number"),
        ("[[claim]]\nmethod='dfa'\nmetric='acc'\nat_least=1\naxes={d=[1]}", "got `array`"),
    ],
)
def test_a_claim_that_cannot_be_meant_says_which_and_why(text, says, tmp_path):
    path = tmp_path / "claims.toml"
    path.write_text(text)
    with pytest.raises(UnreadableInput, match=says):
        read_claims(path)
