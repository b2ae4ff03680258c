"""Means over seeds, disagreement, second axes, and data that cannot say."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core import load_audits
from fa_core.analysis.seeds import over_seeds
from fa_core.errors import UsageError
from fa_core.formats import audit_table
from fa_core.formats.audit_table import StoredReports
from fa_core.option_values import listed
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
    runs = table(row(seed=1, growth=2.0, axes={"d": 256, "L": 4}), row(seed=2, growth=4.0, axes={"d": 512, "L": 8}))
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
    runs = table(*(row(seed=s, growth=math.nan, g_L=math.nan, cosine=math.nan, acc=math.nan) for s in (1, 2)))
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
    assert said == ([f"seed {listed(again)} more than once: are these the same runs?"] if again else [])


def test_the_reports_of_a_big_table_are_read_only_where_one_is_not_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = {
        f"bp_s{seed}": {"cross_batch_stability": 0.1, **({"evidence": {"c": "proxy"}} if seed == 5 else {})}
        for seed in range(9)
    }
    (tmp_path / "table.json").write_text(json.dumps({"reports": reports}))
    monkeypatch.setattr(audit_table, "LAZY_FROM", 0)
    runs = load_audits(tmp_path / "table.json").with_frozen_baseline(0.3)
    read: list[int] = []
    report = StoredReports.report
    monkeypatch.setattr(StoredReports, "report", lambda self, slot: read.append(slot) or report(self, slot))
    (group,) = over_seeds(runs).groups
    assert group.evidence == {"c": "proxy", "d": "assumed"}
    assert read == [0, 5, 8]


def test_no_runs_give_no_groups() -> None:
    analysis = over_seeds(table())
    assert analysis.groups == ()
    assert analysis.notes


def test_a_bound_in_a_group_is_marked_as_one() -> None:
    bounded = row(seed=1, acc=0.3, growth_bound=8.0, evidence={"a": "bound"})
    (group,) = over_seeds(table(bounded)).groups
    assert group.evidence == {"a": "bound"}
