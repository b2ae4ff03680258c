"""Axes: positions are monotone, ticks are round and inside."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_core.reporting.numbers import brief, fixed, significant, spread
from fa_core.reporting.scale import Scale, fitted

finite = st.floats(-1e12, 1e12)


@given(st.lists(st.one_of(finite, st.sampled_from([math.nan, math.inf])), max_size=9), st.booleans())
def test_a_fitted_axis_holds_its_values_and_round_ticks(values: list[float], log: bool) -> None:
    scale = fitted(values, 0.0, 100.0, log)
    shown = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    assert scale.lo < scale.hi
    assert all(scale.lo <= v <= scale.hi for v in shown if not log or v >= 1e-300)
    assert all(-1e-6 <= scale.at(v) <= 100 + 1e-6 for v in shown)
    slack = 1e-6 * max(abs(scale.lo), abs(scale.hi))
    ticks = scale.ticks()
    assert all(scale.lo - slack <= tick <= scale.hi + slack for tick in ticks)
    assert ticks == sorted(ticks) and len(ticks) <= 8


def test_positions_are_linear_or_logarithmic() -> None:
    assert Scale(0.0, 10.0, 0.0, 100.0).at(5.0) == 50.0
    assert Scale(1.0, 100.0, 0.0, 100.0, True).at(10.0) == pytest.approx(50.0)
    assert Scale(0.0, 10.0, 100.0, 0.0).at(20.0) == 0.0


def test_log_ticks_are_decades_thinned_to_fit() -> None:
    assert Scale(0.5, 2e3, 0.0, 1.0, True).ticks() == pytest.approx([1.0, 10.0, 100.0, 1000.0])
    assert len(Scale(1e-30, 1e30, 0.0, 1.0, True).ticks()) <= 6


def test_numbers_round_for_people_and_say_when_there_are_none() -> None:
    assert significant(math.nan) == "nan"
    assert significant(0.0) == "0"
    assert significant(-1234567.0) == "-1.235e6"
    assert fixed(0.5, 2) == "0.50"
    assert brief(1234567.0, 2) == "1.2e6" and brief(23170.0) == "23170" and brief(None) == "N/A"
    assert spread(1.0, 0.0) == "1.00 ± 0.00"
    assert spread(3.61e-4, 3.9e-5) == "(3.61 ± 0.39)e-4"
    assert spread(1864.2, 653.1) == "1864 ± 653"
    assert spread(math.inf, 1.0) == "inf"


def test_a_spread_has_its_exponent_after_rounding_at_every_size_and_no_deviation_is_lost() -> None:
    assert spread(9.9996e-5, 0.0) == "(1.00 ± 0.00)e-4"
    assert spread(-9.9996e-5, 3e-6) == "(-1.000 ± 0.030)e-4"
    assert spread(9.996e-5, 1.2e-8) == "(9.9960 ± 0.0012)e-5"
    assert spread(1e308, 0.0) == "(1.00 ± 0.00)e308" and spread(1e-320, 0.0) == "(1.00 ± 0.00)e-320"
    assert spread(0.349, 4e-6) == "0.349000 ± 4.0e-6" and spread(3e-4, 1e-12) == "3.00000e-4 ± 1.0e-12"
    assert spread(0.349, 6e-6) == "0.34900 ± 0.00001"
