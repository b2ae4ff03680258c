"""A value and the cell that shows it."""

import math

from hypothesis import assume, example, given
from hypothesis import strategies as st

from fa_tui.views.scale import Scale, covering, rug

cells = st.integers(2, 300)


@st.composite
def scales(draw):
    if draw(st.booleans()):
        low = draw(st.integers(-290, 280))
        return Scale(10.0**low, 10.0 ** (low + draw(st.integers(1, 20))), log=True)
    low = draw(st.floats(-1e3, 1e3))
    return Scale(low, low + draw(st.floats(1e-3, 1e6)))


@given(scales(), cells, st.data())
def test_a_click_on_a_cell_gives_a_value_that_this_cell_shows(scale, width, data):
    cell = data.draw(st.integers(0, width - 1))
    value = scale.value_at(cell, width)
    assert scale.contains(value)
    assert scale.cell(value, width) == cell


@given(scales(), cells, st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_a_larger_value_never_lies_further_left(scale, width, one, other):
    low, high = sorted((one, other))
    assert 0 <= scale.cell(low, width) <= scale.cell(high, width) <= width - 1


@given(scales(), st.floats(0, 1))
def test_position_and_value_are_inverse(scale, fraction):
    assert math.isclose(scale.fraction(scale.value(fraction)), fraction, abs_tol=1e-9)


@given(st.lists(st.floats(min_value=1e-250, max_value=1e250), min_size=1))
def test_a_fitted_log_scale_holds_every_value(values):
    scale = covering([*values, math.nan, math.inf, 0.0, -1.0], log=True)
    assert all(
        scale.lo <= value * (1 + 1e-9) and value <= scale.hi * (1 + 1e-9) for value in values
    )


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
@example([5e-324])
def test_a_fitted_linear_scale_holds_every_value(values):
    assume(max(values) == min(values) or max(values) - min(values) > 1e-6)
    scale = covering([*values, math.nan, -math.inf], log=False)
    assert all(scale.contains(value) for value in values)


@given(
    scales(),
    st.integers(2, 100),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20),
)
def test_the_rug_counts_every_run_once_in_or_next_to_its_cell(scale, width, values):
    counts, below, above = rug(sorted(values), scale, width)
    assert sum(counts.values()) + below + above == len(values)
    expected = {scale.cell(value, width) for value in values if scale.contains(value)}
    assert all(any(abs(cell - other) <= 1 for other in expected) for cell in counts)


def test_nothing_finite_gives_no_scale():
    assert covering([math.nan, math.inf, 1.2e308], log=False) is None
    assert covering([0.0, -3.0], log=True) is None
