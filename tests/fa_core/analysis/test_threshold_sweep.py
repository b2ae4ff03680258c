"""Group separation: closed forms, order, and data that cannot say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.analysis.method_groups import published_groups, split_groups
from fa_core.analysis.threshold_sweep import sensitivity
from fa_core.errors import UsageError
from fa_core.formats import load_audits
from fa_core.reporting.sections.analyses import group_range
from tests.fa_core.analysis.runs import row, seeds_of, table


def parted(runs, letter="a"):
    """BP set against DFA, as far as they are there."""
    present = set(runs.method.tolist())
    return sensitivity(runs, letter, healthy=[*{"bp"} & present], degenerate=[*{"dfa"} & present])


@pytest.mark.parametrize(
    ("letter", "number", "values", "expected"),
    [
        ("c", "cosine", (0.1, 0.6), (True, 0.5, (0.1, 0.6))),
        ("d", "acc", (0.5, 0.2), (True, 30.0, (-10.0, 20.0))),
        ("a", "growth", (5.0, 5.0), (False, None, None)),
        ("a", "growth", (1.0, math.inf), (True, None, None)),
        ("b", "g_L", (1e-3, 0.0), (True, None, (0.0, 1e-3))),
    ],
)
def test_a_gap_is_a_difference_or_a_ratio_where_there_is_one(letter, number, values, expected):
    rows = [row(m, baseline=0.3, **{number: v}) for m, v in zip(("bp", "dfa"), values, strict=True)]
    found = parted(table(*rows), letter)
    separable, gap, interval = expected
    assert (found.separable, found.gap) == (separable, gap and pytest.approx(gap))
    assert found.gap_interval == (interval and pytest.approx(interval))
    assert (found.unit == "pp") == (letter == "d")


values = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=6)


@given(values, values)
def test_separable_means_that_some_threshold_parts_the_groups(healthy, degenerate):
    found = parted(table(*seeds_of("bp", *healthy), *seeds_of("dfa", *degenerate)))
    fires = [
        [[v > t for v in group] for group in (healthy, degenerate)] for t in healthy + degenerate
    ]
    parts = any(not any(low) and all(high) for low, high in fires)
    assert found.separable == parts
    if parts:
        assert found.gap > 1


@pytest.mark.parametrize(
    ("healthy", "degenerate", "says"),
    [
        (["state_brigde"], [], "did you mean state_bridge"),
        (["dfa"], ["DFA"], "dfa in both groups"),
        ([], ["frozen"], "'frozen' is a control"),
    ],
)
def test_a_group_that_cannot_be_is_refused(healthy, degenerate, says):
    runs = table(*(row(name, growth=2.0) for name in ("state_bridge", "dfa", "frozen")))
    with pytest.raises(UsageError, match=says):
        split_groups(runs, healthy, degenerate)


def test_a_nan_in_the_healthy_group_cannot_be_separated_and_is_counted():
    found = parted(table(*seeds_of("bp", math.nan, 1.0), row("dfa", growth=100.0)))
    assert found.separable is False and found.healthy.max == 1.0
    assert group_range(found.healthy, 50.0) == "1..1 (1), 1/2 (1 NaN/inf)"
    noisy = replace(found.degenerate, median=0.1 + 0.2)
    assert group_range(noisy, 0.3) == "100..100 (0.3), 1/1"


def test_a_name_alone_puts_no_method_into_a_group():
    runs = table(*(row(name, growth=2.0) for name in ("bp", "dfa", "state_bridge", "ff")))
    found = sensitivity(runs, "a")
    assert (found.healthy.runs, found.degenerate.runs, len(found.neither)) == (0, 0, 4)
    assert (found.separable, found.gap, found.every.runs) == (None, None, 4)
    (said,) = found.skipped
    assert said.startswith("no method is in a group: nothing to separate (choose the groups by")


def test_the_published_runs_keep_their_groups_and_no_other_run_gets_one(published_table):
    published = load_audits([published_table])
    assert published_groups(published.select([0, 1])) == {"bp": "healthy", "dfa": "degenerate"}
    others = table(published.row(0), row("bp"), row("dfa"))
    assert published_groups(others) == {}, "not every bp run here is a published one"


def test_controls_are_neither_swept_nor_counted():
    claims = table(row("bp", growth=1.0), row("dfa", growth=400.0))
    runs = table(*claims.rows(), row("frozen", growth=60.0), row("random_init", growth=500.0))
    found, alone = parted(runs), parted(claims)
    assert found.every == alone.every and found.neither == () and found.plateau == (1.0, 400.0)
    assert "controls are left out: frozen, random_init" in found.skipped
    assert found.points == alone.points == [1.0, 400.0]
