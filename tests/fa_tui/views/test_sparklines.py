"""Bars on a shared scale."""

import math

from hypothesis import given
from hypothesis import strategies as st

from fa_tui.views.glyphs import ASCII, UNICODE
from fa_tui.views.scale import Scale
from fa_tui.views.sparklines import sparkline

LOG = Scale(1e-9, 1e9, log=True)


def test_two_sparklines_on_one_scale_can_be_compared():
    assert sparkline([1e-9, 1e9], LOG) == "▁█"
    assert sparkline([1.0, 1.1], LOG) == "▅▅"


def test_non_finite_values_and_zeros_are_marked():
    assert sparkline([math.nan, math.inf, 0.0, 1e9], LOG) == "∞∞0█"
    assert sparkline([math.nan, 0.0], LOG, ASCII) == "!0"


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=200), st.integers(1, 40))
def test_squeezed_into_fewer_cells_no_peak_is_lost(values, width):
    drawn = sparkline(values, LOG, UNICODE, width)
    assert len(drawn) == min(width, len(values))
    assert max(drawn) == max(sparkline(values, LOG))


def test_a_nan_is_not_averaged_away():
    assert sparkline([1.0, math.nan, 1.0, 1.0], LOG, UNICODE, 2)[0] == UNICODE.nonfinite
