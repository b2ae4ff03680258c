"""Points of flips and plateaus against brute force over thresholds."""

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fa_core.analysis.threshold_sweep import sensitivity
from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS
from fa_core.report.report_facts import NEVER_NEGATIVE, DiagnosticThresholds
from tests.fa_core.analysis.runs import row, table

numbers = st.one_of(
    st.none(),
    st.sampled_from([0.1, 0.3, 0.5]),
    st.floats(0.01, 0.99),
    st.sampled_from([math.nan, math.inf]),
)
ends = st.tuples(st.floats(0.01, 1.0), st.floats(0.01, 1.0)).map(lambda pair: tuple(sorted(pair)))
tables = st.lists(
    st.builds(
        row,
        growth=numbers,
        g_L=numbers,
        cosine=numbers,
        acc=numbers,
        baseline=st.just(0.25),
        intervals=st.dictionaries(st.sampled_from(["growth", "g_L", "stability", "acc"]), ends),
        partial_stream=st.sampled_from(["", "blocks.1"]),
    ),
    max_size=8,
).map(lambda rows: table(*rows))
letters = st.sampled_from(LETTERS)
DEFAULT = DiagnosticThresholds()


def moved(letter, limit):
    """With one threshold moved; to 0 where neither it nor a value is ever lower."""
    never_negative = DIAGNOSTICS[letter].threshold in NEVER_NEGATIVE
    return DIAGNOSTICS[letter].moved(DEFAULT, max(limit, 0.0) if never_negative else limit)


def states_at(runs, letter, limit):
    """Slow reference: every report judged on its own."""
    thresholds = moved(letter, limit)
    return [runs.report(i).with_thresholds(thresholds).states for i in range(len(runs))]


def probes(runs, letter):
    """Every number and end, its neighbours, and points between: all places where something could
    happen."""
    found = set()
    for run in runs.rows():
        found |= {run.report.numbers[letter], *(run.report.interval(letter) or ())}
    values = sorted(value for value in found if value is not None and math.isfinite(value))
    near = [math.nextafter(value, end) for value in values for end in (-math.inf, math.inf)]
    between = [(lo + hi) / 2 for lo, hi in pairwise(values)]
    return sorted({*values, *near, *between, -1e9, 1e9})


@given(tables, letters)
def test_states_change_exactly_at_the_points(runs, letter):
    points = set(sensitivity(runs, letter).points)
    places = probes(runs, letter)
    for lower, upper in pairwise(places):
        changes = states_at(runs, letter, lower) != states_at(runs, letter, upper)
        crossed = lower if not DIAGNOSTICS[letter].fires_above else upper
        assert changes == (crossed in points)


@given(tables, letters, st.floats(-2, 2))
def test_plateau_is_the_widest_interval_of_equal_states(runs, letter, limit):
    lo, hi = DIAGNOSTICS[letter].plateau(runs.points(letter), limit)
    assert lo <= limit <= hi
    here = states_at(runs, letter, limit)
    assert all(states_at(runs, letter, t) == here for t in probes(runs, letter) if lo < t < hi)
    above = DIAGNOSTICS[letter].fires_above
    if math.isfinite(hi):
        assert states_at(runs, letter, hi if above else math.nextafter(hi, math.inf)) != here
    if math.isfinite(lo):
        assert states_at(runs, letter, math.nextafter(lo, -math.inf) if above else lo) != here
