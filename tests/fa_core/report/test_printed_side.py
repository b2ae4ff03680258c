"""A number that stands beside a verdict reads on the side of its threshold on which it was judged."""

import math

from hypothesis import given
from hypothesis import strategies as st

from fa_core.report.diagnostic_record import record_of
from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.reporting.blocks import Grid
from fa_core.reporting.sections.runs import verdict_table
from fa_tui.commands.verdict_table import numbers
from tests.fa_core.analysis.runs import row, table

LIMITS = {letter: DIAGNOSTICS[letter].limit(DiagnosticThresholds()) for letter in LETTERS}


def side(number, limit):
    return (number > limit) - (number < limit)


def a_run(letter, value):
    """A run with this number of a diagnostic and the interval from its limit to it."""
    column = DIAGNOSTICS[letter].quantity.column
    measured = {
        "a": {"growth": value},
        "b": {"g_L": value},
        "c": {"cosine": value},
        "d": {"acc": value / 100, "baseline": 0.0},
    }
    ends = sorted((value, math.nextafter(value, math.inf)))
    return row("dfa", intervals={column: ends}, **measured[letter])


@given(st.sampled_from(LETTERS), st.floats(-1e-2, 1e-2))
def test_rounding_never_moves_a_number_onto_or_across_its_threshold(letter, near):
    run = a_run(letter, LIMITS[letter] * (1 + near * abs(near) ** 3 / 1e-6))
    value, limit = DIAGNOSTICS[letter].quantity.of(run.report), LIMITS[letter]
    (grid,) = [
        one for one in verdict_table(table(run), run.report.thresholds) if isinstance(one, Grid)
    ]
    heading = grid.headings.index(DIAGNOSTICS[letter].quantity.heading)
    cell, *_ = grid.rows[0][heading].split(" ")
    words = record_of(run.report, letter).number.removeprefix(
        f"{DIAGNOSTICS[letter].quantity.words} "
    )
    printed = [DIAGNOSTICS[letter].quantity.text(value, limit), cell, words.split(" [")[0]]
    printed += [text for text in numbers(run) if text in printed]
    assert len(printed) >= 4
    for text in printed:
        assert side(float(text.removesuffix(" pp")), limit) == side(value, limit), text


def test_digits_grow_only_where_the_side_needs_them():
    growth, g_L, drift, margin = (DIAGNOSTICS[letter].quantity for letter in LETTERS)
    shown = [growth.text(50.93, 50), growth.text(50.0004, 50), growth.text(50.0, 50)]
    shown += [g_L.text(1.002e-7, 1e-7), g_L.text(3.7e-4, 1e-7), drift.text(0.3004, 0.3)]
    shown += [drift.text(0.352, 0.3), margin.text(1.9999, 2), margin.text(-3.8, 2)]
    expected = ["50.93", "50.0004", "50", "1.002e-7", "3.7e-4", "+0.3004", "+0.352", "+1.9999"]
    assert shown == [*expected, "-3.80"]
