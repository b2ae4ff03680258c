"""Flip points, plateaus and verdict counts against brute force over thresholds."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core.analysis.threshold_sweep import plateau, verdict_curve
from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS
from fa_core.report.thresholds import NEVER_NEGATIVE, DiagnosticThresholds
from tests.fa_core.analysis.runs import row, table

numbers = st.one_of(
    st.none(),
    st.sampled_from([0.1, 0.3, 0.5]),
    st.floats(0.01, 0.99),
    st.sampled_from([math.nan, math.inf]),
)
tables = st.lists(
    st.builds(
        row, growth=numbers, g_L=numbers, cosine=numbers, acc=numbers, baseline=st.just(0.25)
    ),
    max_size=8,
).map(lambda rows: table(*rows))
letters = st.sampled_from(LETTERS)
DEFAULT = DiagnosticThresholds()


def moved(letter, limit):
    """With one threshold moved; to 0 where neither it nor a value is ever lower."""
    never_negative = DIAGNOSTICS[letter].threshold in NEVER_NEGATIVE
    return DIAGNOSTICS[letter].moved(DEFAULT, max(limit, 0.0) if never_negative else limit)


def verdicts_at(runs, letter, limit):
    """Slow reference: every report judged on its own."""
    thresholds = moved(letter, limit)
    return [runs.report(i).with_thresholds(thresholds).verdict for i in range(len(runs))]


def probes(runs, letter):
    """Every value, its neighbours, and points between: all places where something could happen."""
    values = sorted(
        {*filter(math.isfinite, getattr(runs, DIAGNOSTICS[letter].quantity.column).tolist())}
    )
    near = [math.nextafter(value, end) for value in values for end in (-math.inf, math.inf)]
    between = [(lo + hi) / 2 for lo, hi in pairwise(values)]
    return sorted({*values, *near, *between, -1e9, 1e9})


@given(tables, letters)
def test_verdicts_change_exactly_at_the_flip_points(runs, letter):
    points = set(verdict_curve(runs, letter, DEFAULT).points.tolist())
    places = probes(runs, letter)
    for lower, upper in pairwise(places):
        changes = verdicts_at(runs, letter, lower) != verdicts_at(runs, letter, upper)
        crossed = lower if not DIAGNOSTICS[letter].fires_above else upper
        assert changes == (crossed in points)


@given(tables, letters, st.floats(-2, 2))
def test_plateau_is_the_widest_interval_of_equal_verdicts(runs, letter, limit):
    lo, hi = plateau(runs, letter, limit)
    assert lo <= limit <= hi
    here = verdicts_at(runs, letter, limit)
    assert all(verdicts_at(runs, letter, t) == here for t in probes(runs, letter) if lo < t < hi)
    above = DIAGNOSTICS[letter].fires_above
    if math.isfinite(hi):
        assert verdicts_at(runs, letter, hi if above else math.nextafter(hi, math.inf)) != here
    if math.isfinite(lo):
        assert verdicts_at(runs, letter, math.nextafter(lo, -math.inf) if above else lo) != here


@given(tables, letters)
def test_verdict_counts_equal_those_of_single_reports(runs, letter):
    curve = verdict_curve(runs, letter, DEFAULT)
    assert len(curve.fired) == len(curve.walk_backs) == len(curve.points) + 1
    for limit in probes(runs, letter):
        thresholds = moved(letter, limit)
        reports = [runs.report(i).with_thresholds(thresholds) for i in range(len(runs))]
        expected = (sum(letter in r.flags for r in reports), sum(bool(r.flags) for r in reports))
        assert curve.at(limit) == expected


def test_a_nan_threshold_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        plateau(table(row(growth=2.0)), "a", math.nan)


def test_nothing_measured_gives_no_flips_and_an_unbounded_plateau():
    runs = table(row(), row(growth=math.nan))
    assert verdict_curve(runs, "a", DEFAULT).points.tolist() == []
    assert plateau(runs, "a", 50.0) == (-math.inf, math.inf)
    assert verdict_curve(runs, "a", DEFAULT).at(50.0) == (1, 1)


def test_an_answer_holds_numbers_as_such_and_writes_them_as_plain_lists():
    runs = table(row(growth=3.0), row(growth=2.0), row(growth=3.0))
    curve = verdict_curve(runs, "a", DEFAULT)
    for array in (curve.points, curve.fired, curve.walk_backs):
        assert array.dtype in (np.float64, np.int64)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert json.dumps(curve.to_dict()) == (
        '{"letter": "a", "points": [2.0, 3.0], "fired": [3, 2, 0], "walk_backs": [3, 2, 0], "closed": "left"}'
    )
