"""Means over seeds, disagreement, second axes, and data that cannot say."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core.analysis.seeds import over_seeds
from fa_core.reporting.blocks import Grid
from fa_core.reporting.sections.analyses import seeds_blocks
from tests.fa_core.analysis.runs import row, table


@given(st.lists(st.floats(1.0, 1e6), min_size=2, max_size=8))
def test_mean_and_std_equal_the_textbook_ones(values):
    (group,) = over_seeds(table(*(row(seed=i, growth=v) for i, v in enumerate(values)))).groups
    stat = group.stats["growth"]
    assert stat.mean == pytest.approx(statistics.fmean(values))
    assert stat.std == pytest.approx(statistics.stdev(values), abs=1e-6)
    assert stat.geometric_mean == pytest.approx(statistics.geometric_mean(values))
    assert stat.factor == pytest.approx(math.exp(statistics.stdev(map(math.log, values))), rel=1e-6)
    assert (stat.n, stat.min, stat.max) == (len(values), min(values), max(values))


def test_seeds_that_disagree_are_mixed_and_name_the_diagnostic():
    runs = table(row(seed=42, growth=10.0, g_L=1e-3), row(seed=123, growth=100.0, g_L=1e-3))
    (group,) = over_seeds(runs).groups
    assert (group.verdict, group.disagree) == ("MIXED", "a")
    assert group.verdicts == {"trustworthy": 1, "needs walk-back: residual stream exploded": 1}


def test_a_diagnostic_may_disagree_while_the_verdict_does_not():
    runs = table(row(seed=1, growth=100.0, cosine=0.1), row(seed=2, growth=100.0, cosine=0.9))
    (group,) = over_seeds(runs).groups
    assert (group.verdict, group.disagree) == ("walk-back", "c")


def test_the_published_penalty_case_fires_at_one_lambda_and_passes_at_the_other():
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


def test_the_same_runs_in_two_files_are_not_averaged_together():
    runs = table(
        *(row(seed=s, growth=2.0, source="mlp.json") for s in (1, 2)),
        *(row(seed=s, growth=4.0, source="cnn.json") for s in (1, 2)),
    )
    means = {group.collection: group.stats["growth"].mean for group in over_seeds(runs).groups}
    assert means == {"mlp.json": 2.0, "cnn.json": 4.0}


def test_seeds_spread_over_files_of_one_run_each_are_one_group():
    runs = table(*(row(seed=s, growth=2.0, source=f"logs/dfa_s{s}.json") for s in (1, 2, 3)))
    (group,) = over_seeds(runs).groups
    assert group.seeds == (1, 2, 3)


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        ([row(growth=2.0)], "one seed"),
        ([row(seed=1, growth=2.0, acc=0.5), row(seed=2, growth=3.0)], "--frozen-baseline"),
        ([row(seed=1), row(seed=2, growth=2.0)], "1 of 2 runs not measured"),
        ([row(seed=1, growth=2.0), row(seed=1, growth=2.0)], "seed 1 more than once"),
    ],
)
def test_a_group_says_what_it_lacks(runs, says):
    (group,) = over_seeds(table(*runs)).groups
    assert any(says in note for note in group.notes)
    assert group.stats["margin_pp"].mean is None and group.verdict == "trustworthy"


def test_a_baseline_is_asked_for_only_where_an_accuracy_is_known():
    (group,) = over_seeds(table(row(seed=1, growth=2.0), row(seed=2, growth=3.0))).groups
    assert any("(d) not measured" in note for note in group.notes)
    assert not any("--frozen-baseline" in note for note in group.notes)


def test_everything_nan_gives_no_mean_and_walks_back():
    runs = table(
        *(row(seed=s, growth=math.nan, g_L=math.nan, cosine=math.nan, acc=math.nan) for s in (1, 2))
    )
    (group,) = over_seeds(runs).groups
    assert all(stat.mean is None for stat in group.stats.values())
    assert group.stats["growth"].nonfinite == 2
    assert group.verdict == "walk-back"
    assert any("not in the means" in note for note in group.notes)


def test_no_runs_give_no_groups():
    analysis = over_seeds(table())
    assert analysis.groups == ()
    assert analysis.notes


def test_a_table_shows_the_range_and_on_how_many_seeds_a_number_was_measured():
    runs = [row(seed=s, acc=acc, growth=2.0) for s, acc in enumerate((0.298, 0.305, 0.315))]
    (grid, *_) = seeds_blocks(over_seeds(table(*runs, row(seed=4, growth=4.0))))
    assert isinstance(grid, Grid)
    cells = dict(zip(grid.headings, grid.rows[0], strict=True))
    assert cells["n"] == "4"
    assert cells["acc"] == "0.3060 ± 0.0085 (0.298 … 0.315; n = 3)"
    assert cells["(a) growth"] == "2.38 ×/÷ 1.4 (2 … 4)"
    assert cells["(c) drift"] == "N/A"


def test_a_bound_in_a_group_is_marked_as_one():
    bounded = row(seed=1, acc=0.3, growth_bound=8.0, evidence={"a": "bound"})
    (group,) = over_seeds(table(bounded)).groups
    assert group.evidence == {"a": "bound"}


CREDIT = {
    "gamma": [0.5, 0.1, 0.9],
    "rho": [0.4, 0.2, 0.8],
    "nudge": [-0.3, -0.1, -0.5],
    "free_layers": [2],
}


def test_credit_has_a_mean_and_a_sample_deviation_over_seeds_like_every_other_number():
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
