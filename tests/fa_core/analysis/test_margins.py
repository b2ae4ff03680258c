"""Margin to flip and coverage."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core.analysis.partial_audits import margins_to_flip, unmeasured_letters
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import DIAGNOSTICS, LETTERS
from tests.fa_core.analysis.runs import row, table

FULL = {"growth": 25.0, "g_L": 1e-5, "cosine": 0.1, "acc": 0.4, "baseline": 0.35}


def test_margins_are_in_their_own_unit_and_as_a_factor():
    a, b, c, d = margins_to_flip(table(row(**FULL)).report(0))
    assert (a.room, a.factor) == (pytest.approx(25.0), pytest.approx(2.0))
    assert (b.room, b.factor) == (pytest.approx(1e-5 - 1e-7), pytest.approx(100.0))
    assert (c.room, c.factor) == (pytest.approx(0.2), None)
    assert (d.room, d.factor) == (pytest.approx(3.0), None)
    assert [one.fires for one in (a, b, c, d)] == [False] * 4


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.sampled_from(LETTERS))
def test_a_threshold_moved_by_more_than_the_room_flips(value, limit, letter):
    report = table(row(growth=value, g_L=value, cosine=value, acc=value, baseline=0.0)).report(0)
    diagnostic = DIAGNOSTICS[letter]

    def margin_at(limit):
        judged = report.with_thresholds(diagnostic.moved(DiagnosticThresholds(), limit))
        return margins_to_flip(judged)[LETTERS.index(letter)]

    margin = margin_at(limit)
    step = margin.room * 1.001 + math.copysign(1e-9, margin.room)
    after = margin_at(limit - step if diagnostic.fires_above else limit + step)
    if abs(margin.room) > 1e-8:
        assert after.fires is not margin.fires


def test_what_has_no_room_or_no_factor():
    nan, unmeasured = (
        margins_to_flip(table(one).report(0)) for one in (row(growth=math.nan), row())
    )
    assert nan[0].room is None and nan[0].fires
    assert {(one.fires, one.value) for one in unmeasured} == {(None, None)}
    zero = table(row(g_L=1e-3)).report(0).with_thresholds(DiagnosticThresholds(g_norm_floor=0.0))
    assert margins_to_flip(zero)[1].factor is None


def test_letters_that_a_method_never_measured_are_named():
    ep = [row("ep", 1, growth=1.0, cosine=0.1), row("ep", 2, growth=math.nan)]
    assert unmeasured_letters(table(*ep, row("dfa", **FULL), row("bp"))) == {
        "ep": "bd",
        "bp": "abcd",
    }
    assert unmeasured_letters(table()) == {}
