"""Group separation: closed forms, order, and data that cannot say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core.analysis.method_groups import published_groups, split_groups
from fa_core.analysis.threshold_sweep import sensitivity, verdict_curve
from fa_core.errors import UsageError
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.formats import load_audits
from fa_core.table import AuditTable
from tests.fa_core.analysis.runs import row, table


def parted(runs, letter):
    """BP set against DFA, as far as they are there."""
    present = set(runs.method.tolist())
    return sensitivity(runs, letter, healthy=[*{"bp"} & present], degenerate=[*{"dfa"} & present])


def test_gap_of_a_linear_diagnostic_is_a_difference():
    found = parted(table(row("bp", cosine=0.1), row("dfa", cosine=0.6)), "c")
    assert found.separable is True
    assert found.gap == pytest.approx(0.5)
    assert found.gap_interval == (0.1, 0.6)


def test_margin_gap_is_between_the_lowest_healthy_and_the_highest_degenerate():
    runs = table(row("bp", acc=0.5, baseline=0.3), row("dfa", acc=0.2, baseline=0.3))
    found = parted(runs, "d")
    assert found.gap == pytest.approx(30.0)
    assert found.unit == "pp"


@given(
    st.lists(st.floats(0.1, 1e6), min_size=1, max_size=6),
    st.lists(st.floats(0.1, 1e6), min_size=1, max_size=6),
)
def test_separable_means_that_some_threshold_parts_the_groups(healthy, degenerate):
    runs = table(
        *(row("bp", i, growth=v) for i, v in enumerate(healthy)),
        *(row("dfa", i, growth=v) for i, v in enumerate(degenerate)),
    )
    found = parted(runs, "a")
    growth = dict(zip(runs.key.tolist(), runs.growth.tolist(), strict=True))
    candidates = list(growth.values())
    parts = any(
        all((v > t) == key.startswith("dfa") for key, v in growth.items()) for t in candidates
    )
    assert found.separable == parts
    if parts:
        assert found.gap is not None and found.gap > 1


def test_an_equal_value_on_both_sides_is_not_separable():
    assert parted(table(row("bp", growth=5.0), row("dfa", growth=5.0)), "a").separable is False


def test_groups_come_from_the_user():
    runs = table(row("bp", growth=1.0), row("state_bridge", growth=2.0), row("dfa", growth=100.0))
    found = sensitivity(runs, "a", healthy=["BP", "State Bridge"], degenerate=["dfa"])
    assert (found.healthy.runs, found.degenerate.runs) == (2, 1)
    assert found.gap == pytest.approx(50.0)


def test_an_unknown_method_is_refused_with_the_nearest_one():
    with pytest.raises(UsageError, match="did you mean state_bridge"):
        split_groups(table(row("state_bridge", growth=2.0)), ["state_brigde"])


def test_an_empty_group_is_said_and_gives_no_gap():
    found = parted(table(row("dfa", growth=100.0)), "a")
    assert found.separable is None and found.gap is None
    assert any("healthy group is empty" in note for note in found.skipped)
    found = parted(table(row("bp", growth=1.0)), "a")
    assert any("degenerate group is empty" in note for note in found.skipped)


def test_a_nan_in_the_healthy_group_cannot_be_separated_and_is_said():
    found = parted(
        table(row("bp", growth=math.nan), row("bp", 1, growth=1.0), row("dfa", growth=100.0)), "a"
    )
    assert found.separable is False
    assert found.healthy.nonfinite == 1 and found.healthy.fired == 1
    assert found.healthy.max == 1.0
    assert any("every threshold" in note for note in found.skipped)


def test_a_degenerate_group_of_nans_only_always_fires():
    found = parted(table(row("bp", growth=1.0), row("dfa", growth=math.inf)), "a")
    assert found.separable is True
    assert found.gap is None and found.degenerate.max is None


def test_a_gradient_of_zero_separates_without_a_ratio():
    found = parted(table(row("bp", g_L=1e-3), row("dfa", g_L=0.0)), "b")
    assert found.separable is True
    assert found.gap is None
    assert found.gap_interval == (0.0, 1e-3)


def test_a_name_alone_puts_no_method_into_a_group():
    runs = table(
        *(row(name, growth=2.0) for name in ("bp", "ep", "fa", "dfa", "state_bridge", "kp", "pc"))
    )
    found = sensitivity(runs, "a")
    assert (found.healthy.runs, found.degenerate.runs, len(found.neither)) == (0, 0, 7)
    assert (found.separable, found.gap, found.every.runs) == (None, None, 7)
    assert found.skipped == (
        "no method is in a group: nothing to separate (choose the groups with --healthy and --degenerate)",
    )


def test_the_published_runs_keep_their_groups_and_no_other_run_gets_one(
    published_table,
):
    published = load_audits([published_table])
    assert published_groups(published.select([0, 1])) == {"bp": "healthy", "dfa": "degenerate"}
    others = AuditTable.from_rows(
        [published.row(0), *(table(row("bp"), row("dfa")).row(i) for i in range(2))]
    )
    assert published_groups(others) == {}, "not every bp run here is a published one"


def test_a_method_is_in_one_group_only():
    with pytest.raises(UsageError, match="dfa in both groups"):
        split_groups(table(row("dfa", growth=2.0)), ["dfa"], ["DFA"])


def test_controls_are_neither_swept_nor_counted():
    claims = table(row("bp", growth=1.0), row("dfa", growth=400.0))
    runs = table(*claims.rows(), row("frozen", growth=60.0), row("random_init", growth=500.0))
    thresholds = DiagnosticThresholds()
    found, alone = parted(runs, "a"), parted(claims, "a")
    assert found.every == alone.every and found.neither == () and found.plateau == (1.0, 400.0)
    assert "controls are in no group: frozen, random_init" in found.skipped
    assert verdict_curve(runs, "a", thresholds) == verdict_curve(claims, "a", thresholds)
    with pytest.raises(UsageError, match="'frozen' is a control"):
        sensitivity(runs, "a", degenerate=["frozen"])
