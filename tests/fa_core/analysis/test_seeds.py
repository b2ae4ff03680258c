"""Means over seeds, disagreement, second axes, and data that cannot say."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core import load_audits
from fa_core.analysis.seeds import Difference, differences, over_seeds
from fa_core.errors import UsageError
from fa_core.option_values import listed
from fa_core.reporting.sections.analyses import differences_blocks, seeds_blocks
from tests.fa_core.analysis.runs import row, table


@given(st.lists(st.floats(1.0, 1e6), min_size=2, max_size=8))
def test_mean_and_std_equal_the_textbook_ones(values: list[float]) -> None:
    (group,) = over_seeds(table(*(row(seed=i, growth=v) for i, v in enumerate(values)))).groups
    stat = group.stats["growth"]
    assert stat.mean == pytest.approx(statistics.fmean(values))
    assert stat.std == pytest.approx(statistics.stdev(values), abs=1e-6)
    assert stat.geometric_mean == pytest.approx(statistics.geometric_mean(values))
    assert stat.factor == pytest.approx(math.exp(statistics.stdev(map(math.log, values))), rel=1e-6)
    assert (stat.n, stat.min, stat.max) == (len(values), min(values), max(values))


def test_population_deviations_on_request_are_labelled_so() -> None:
    found = over_seeds(
        table(*(row(seed=i, acc=acc) for i, acc in enumerate((0.1, 0.2, 0.6)))), ddof=0
    )
    assert found.groups[0].stats["headline_acc"].std == pytest.approx(
        statistics.pstdev([0.1, 0.2, 0.6])
    )
    (grid, *_) = seeds_blocks(found)
    assert "mean ± population standard deviation" in grid.caption


def test_of_many_groups_only_the_first_are_averaged_where_that_is_asked_for_and_a_note_says_so() -> (
    None
):
    runs = table(*(row(seed=seed, method=f"m{number}") for number in range(5) for seed in (1, 2)))
    found = over_seeds(runs, most=3)
    assert [group.method for group in found.groups] == ["m0", "m1", "m2"]
    assert "the first 3 of 5 groups; a filter chooses others" in found.notes
    assert over_seeds(runs, most=5) == over_seeds(runs)


def test_seeds_that_disagree_are_mixed_and_name_the_diagnostic() -> None:
    runs = table(row(seed=42, growth=10.0, g_L=1e-3), row(seed=123, growth=100.0, g_L=1e-3))
    (group,) = over_seeds(runs).groups
    assert (group.verdict, group.disagree) == ("MIXED", "a")
    assert group.verdicts == {"trustworthy": 1, "needs walk-back: residual stream exploded": 1}


def test_a_diagnostic_may_disagree_while_the_verdict_does_not() -> None:
    runs = table(row(seed=1, growth=100.0, cosine=0.1), row(seed=2, growth=100.0, cosine=0.9))
    (group,) = over_seeds(runs).groups
    assert (group.verdict, group.disagree) == ("walk-back", "c")


def test_the_published_penalty_case_fires_at_one_lambda_and_passes_at_the_other() -> None:
    frozen = 0.349
    strong = [
        row(seed=s, acc=frozen + pp / 100, baseline=frozen, axes={"lam": 1e-2})
        for s, pp in ((42, 1.35), (123, 1.4), (456, 1.45))
    ]
    weak = [row(seed=42, acc=frozen + 0.0231, baseline=frozen, axes={"lam": 1e-3})]
    analysis = over_seeds(table(*strong, *weak))
    assert analysis.by == ("lam",)
    by_lam = {group.axes["lam"]: group for group in analysis.groups}
    assert (by_lam[1e-2].fired["d"], by_lam[1e-2].verdict) == (3, "walk-back")
    assert (by_lam[1e-3].fired["d"], by_lam[1e-3].verdict) == (0, "trustworthy")
    assert by_lam[1e-3].stats["margin_pp"].mean == pytest.approx(2.31)


def test_an_axis_can_be_ignored_or_chosen() -> None:
    runs = table(
        row(seed=1, growth=2.0, axes={"d": 256, "L": 4}),
        row(seed=2, growth=4.0, axes={"d": 512, "L": 8}),
    )
    assert len(over_seeds(runs).groups) == 2
    assert len(over_seeds(runs, by=()).groups) == 1
    assert over_seeds(runs, by=["d"]).by == ("d",)
    with pytest.raises(UsageError, match="axes here: L, d"):
        over_seeds(runs, by=["lam"])


def test_the_same_runs_in_two_files_are_not_averaged_together() -> None:
    runs = table(
        *(row(seed=s, growth=2.0, source="mlp.json") for s in (1, 2)),
        *(row(seed=s, growth=4.0, source="cnn.json") for s in (1, 2)),
    )
    means = {group.collection: group.stats["growth"].mean for group in over_seeds(runs).groups}
    assert means == {"mlp.json": 2.0, "cnn.json": 4.0}


def test_seeds_spread_over_files_of_one_run_each_are_one_group() -> None:
    runs = table(*(row(seed=s, growth=2.0, source=f"logs/dfa_s{s}.json") for s in (1, 2, 3)))
    (group,) = over_seeds(runs).groups
    assert group.seeds == (1, 2, 3)


def test_one_seed_has_no_spread_and_says_so() -> None:
    (group,) = over_seeds(table(row(growth=2.0))).groups
    assert group.stats["growth"].std is None
    assert any("one seed" in note for note in group.notes)


def test_numbers_that_nobody_measured_have_no_mean() -> None:
    (group,) = over_seeds(table(row(seed=1, growth=2.0, acc=0.5), row(seed=2, growth=3.0))).groups
    assert group.stats["margin_pp"].mean is None
    assert any("--frozen-baseline" in note for note in group.notes)


def test_a_baseline_is_asked_for_only_where_an_accuracy_is_known() -> None:
    (group,) = over_seeds(table(row(seed=1, growth=2.0), row(seed=2, growth=3.0))).groups
    assert any("(d) not measured" in note for note in group.notes)
    assert not any("--frozen-baseline" in note for note in group.notes)


def test_everything_nan_gives_no_mean_and_walks_back() -> None:
    runs = table(
        *(row(seed=s, growth=math.nan, g_L=math.nan, cosine=math.nan, acc=math.nan) for s in (1, 2))
    )
    (group,) = over_seeds(runs).groups
    assert all(stat.mean is None for stat in group.stats.values())
    assert group.stats["growth"].nonfinite == 2
    assert group.verdict == "walk-back"
    assert any("not in the means" in note for note in group.notes)


def test_unmeasured_runs_are_told_and_do_not_make_a_group_mixed() -> None:
    (group,) = over_seeds(table(row(seed=1), row(seed=2, growth=2.0))).groups
    assert group.verdict == "trustworthy"
    assert any("1 of 2 runs not measured" in note for note in group.notes)
    (group,) = over_seeds(table(row(seed=1))).groups
    assert group.verdict == "not measured"


def test_a_seed_that_occurs_twice_is_pointed_out() -> None:
    (group,) = over_seeds(table(row(seed=1, growth=2.0), row(seed=1, growth=2.0))).groups
    assert any("more than once" in note for note in group.notes)


@given(st.lists(st.one_of(st.none(), st.integers(0, 3), st.sampled_from([-1, 2**63, 2**80]))))
def test_seeds_that_occur_more_than_once_are_named_in_order(seeds: list[int | None]) -> None:
    again = sorted({seed for seed in seeds if seed is not None and seeds.count(seed) > 1})
    groups = over_seeds(table(*(row(seed=seed, growth=2.0) for seed in seeds))).groups
    said = [note for group in groups for note in group.notes if "more than once" in note]
    assert said == (
        [f"seed {listed(again)} more than once: are these the same runs?"] if again else []
    )


def test_no_runs_give_no_groups() -> None:
    analysis = over_seeds(table())
    assert analysis.groups == ()
    assert analysis.notes


def test_a_bound_in_a_group_is_marked_as_one() -> None:
    bounded = row(seed=1, acc=0.3, growth_bound=8.0, evidence={"a": "bound"})
    (group,) = over_seeds(table(bounded)).groups
    assert group.evidence == {"a": "bound"}


CREDIT = {
    "gamma": [0.5, 0.1, 0.9],
    "rho": [0.4, 0.2, 0.8],
    "nudge": [-0.3, -0.1, -0.5],
    "free_layers": [2],
}


def test_credit_has_a_mean_and_a_sample_deviation_over_seeds_like_every_other_number() -> None:
    runs = table(
        row(
            "fa",
            1,
            acc=0.5,
            credit={**CREDIT, "null": {"deep_gamma_mean": 0.02, "deep_gamma_std": 0.1}},
        ),
        row(
            "fa",
            2,
            acc=0.5,
            credit={**CREDIT, "gamma": [0.5, 0.3, 0.7], "null": {"deep_gamma_mean": -0.02}},
        ),
        row("frozen", 1, acc=0.5, credit={"gamma": [0.5, None, None]}),
    )
    fa, frozen = over_seeds(runs).groups
    found = {name: (stat.n, stat.mean, stat.std) for name, stat in fa.stats.items() if stat.n}
    assert found == {
        "headline_acc": (2, 0.5, 0.0),
        "mean_gamma": (2, pytest.approx(0.5), pytest.approx(0.0)),
        "deep_gamma": (2, pytest.approx(0.2), pytest.approx(0.2 / math.sqrt(2))),
        "null_gamma": (2, pytest.approx(0.0), pytest.approx(0.04 / math.sqrt(2))),
        "deep_rho": (2, pytest.approx(0.2), pytest.approx(0.0)),
        "deep_nudge": (2, pytest.approx(-0.1), pytest.approx(0.0)),
        "collapse": (2, pytest.approx(8 / 15), pytest.approx(math.sqrt(2) / 15)),
    }
    assert (frozen.stats["mean_gamma"].mean, frozen.stats["deep_gamma"].n) == (0.5, 0)
    _, credit, *_ = seeds_blocks(over_seeds(runs))
    assert credit.headings == (
        "method",
        "Γ, all l",
        "deep Γ",
        "null Γ",
        "deep ρ",
        "deep nudge",
        "collapse",
    )
    assert credit.rows[1] == ("frozen", "0.5000", "N/A", "N/A", "N/A", "N/A", "N/A")


def test_runs_without_credit_have_no_table_of_it() -> None:
    blocks = [
        block
        for block in seeds_blocks(over_seeds(table(row(acc=0.5))))
        if hasattr(block, "headings")
    ]
    assert len(blocks) == 1


def named(found: tuple[Difference, ...]) -> dict[str, Difference]:
    """By the names that tables give them."""
    return {grid.rows[0][0]: one for one in found for grid in differences_blocks([one])}


def two_by_two() -> list[float]:
    """Accuracies of BP and DFA without and with the penalty, seeds 1 and 2."""
    return [0.58, 0.59, 0.53, 0.54, 0.30, 0.28, 0.36, 0.37]


def test_effects_gaps_and_the_interaction_of_a_two_by_two_are_those_by_hand() -> None:
    cells = [(m, lam, s) for m in ("bp", "dfa") for lam in ({}, {"lam": 0.01}) for s in (1, 2)]
    acc = two_by_two()
    runs = table(
        *(row(m, s, acc=a, growth=2.0, axes=lam) for (m, lam, s), a in zip(cells, acc, strict=True))
    )
    found = named(differences(runs))
    by_hand = {
        "bp (lam 0.01) − bp, n = 2": [acc[2] - acc[0], acc[3] - acc[1]],
        "dfa − bp, n = 2": [acc[4] - acc[0], acc[5] - acc[1]],
        "dfa (lam 0.01) − bp (lam 0.01), n = 2": [acc[6] - acc[2], acc[7] - acc[3]],
        "dfa (lam 0.01) − dfa, n = 2": [acc[6] - acc[4], acc[7] - acc[5]],
        "(dfa (lam 0.01) − dfa) − (bp (lam 0.01) − bp), n = 2": [
            acc[6 + s] - acc[4 + s] - acc[2 + s] + acc[s] for s in (0, 1)
        ],
    }
    assert {
        name: (one.stats["headline_acc"].mean, one.stats["headline_acc"].std)
        for name, one in found.items()
    } == {
        name: (pytest.approx(statistics.fmean(values)), pytest.approx(statistics.stdev(values)))
        for name, values in by_hand.items()
    }
    assert all(one.seeds == (1, 2) for one in found.values())
    assert {one.factors for one in found.values()} == {("method",), ("lam",), ("method", "lam")}


def test_norms_and_growth_differ_by_a_ratio() -> None:
    runs = table(
        *(row("bp", s, growth=g, g_L=1e-3) for s, g in ((1, 1.0), (2, 2.0))),
        *(row("dfa", s, growth=g, g_L=0.0) for s, g in ((1, 100.0), (2, 800.0))),
    )
    (one,) = differences(runs)
    growth = one.stats["growth"]
    assert (growth.n, growth.mean, growth.geometric_mean) == (2, None, pytest.approx(200.0))
    assert growth.factor == pytest.approx(
        math.exp(statistics.stdev([math.log(100), math.log(400)]))
    )
    assert one.stats["g_L"].n == 0  # a gradient of zero has no ratio


@given(
    st.lists(st.floats(-1, 1), min_size=2, max_size=6),
    st.lists(st.floats(-1, 1), min_size=2, max_size=6),
)
def test_conditions_without_a_common_seed_differ_by_their_means(
    ours: list[float], theirs: list[float]
) -> None:
    runs = table(
        *(row("bp", s, cosine=value) for s, value in enumerate(theirs)),
        *(row("dfa", 100 + s, cosine=value) for s, value in enumerate(ours)),
    )
    (one,) = differences(runs)
    stat = one.stats["stability"]
    assert one.seeds == ()
    assert stat.mean == pytest.approx(statistics.fmean(ours) - statistics.fmean(theirs), abs=1e-12)
    assert stat.std == pytest.approx(
        math.hypot(statistics.stdev(ours), statistics.stdev(theirs)), abs=1e-9
    )


def test_only_common_seeds_are_paired_and_what_is_not_finite_is_left_out() -> None:
    runs = table(
        *(row("bp", s, acc=a) for s, a in ((1, 0.5), (2, 0.6), (3, 0.7))),
        *(row("dfa", s, acc=a) for s, a in ((2, 0.4), (3, math.nan), (4, 0.1))),
    )
    (one,) = differences(runs)
    assert (one.seeds, one.stats["headline_acc"].n) == ((2, 3), 1)
    assert (one.stats["headline_acc"].mean, one.stats["headline_acc"].std) == (
        pytest.approx(-0.2),
        None,
    )


def test_a_method_without_its_reference_at_the_same_axes_is_compared_with_the_plain_one() -> None:
    plain = [row(m, s, acc=0.5) for m in ("bp", "dfa", "frozen") for s in (1, 2)]
    runs = table(*plain, *(row("dfa", s, acc=0.6, axes={"lam": 0.01}) for s in (1, 2)))
    assert list(named(differences(runs))) == [
        "dfa − bp, n = 2",
        "dfa (lam 0.01) − bp, n = 2",
        "dfa (lam 0.01) − dfa, n = 2",
    ]
    assert differences(table()) == ()
    assert list(differences_blocks(())) == []


def test_the_published_gap_of_dfa_to_bp_is_paired_over_the_three_seeds(sample_runs: Path) -> None:
    runs = load_audits(sample_runs / "audit_table_s42_s123_s456.json")
    acc = named(differences(runs))["dfa − bp, n = 3"].stats["headline_acc"]
    pairs = [
        [runs.acc[(runs.method == m) & (runs.seed == s)][0] for m in ("dfa", "bp")]
        for s in (42, 123, 456)
    ]
    by_seed = [float(dfa - bp) for dfa, bp in pairs]
    assert (acc.mean, acc.std) == (
        pytest.approx(statistics.fmean(by_seed)),
        pytest.approx(statistics.stdev(by_seed)),
    )
    assert acc.mean == pytest.approx(-0.309, abs=5e-4)


def test_an_axis_of_numbers_has_its_smallest_as_the_reference_in_whatever_order_it_comes() -> None:
    found = differences(
        table(*(row(seed=1, acc=acc, axes={"lam": lam}) for lam, acc in ((0.01, 0.5), (0.0, 0.4))))
    )
    assert [(one.conditions[0].axes, one.conditions[1].axes) for one in found] == [
        ({"lam": 0.01}, {"lam": 0.0})
    ]
    assert found[0].stats["headline_acc"].mean == pytest.approx(0.1)
