"""Numbers as people read and type them."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from fa_tui.views.numbers import exact, just_past, parse, short

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite)
def test_the_exact_text_reads_back_as_the_same_number(value: float) -> None:
    assert parse(exact(value)) == value


@given(st.floats(1e-300, 1e300) | st.floats(-1e300, -1e-300), st.integers(2, 6))
def test_the_short_text_is_right_to_its_digits(value: float, digits: int) -> None:
    assert math.isclose(float(short(value, digits)), value, rel_tol=0.51 * 10.0 ** (1 - digits))


@given(finite)
def test_the_short_text_fits_a_narrow_column(value: float) -> None:
    assert len(short(value)) <= 10


@given(st.floats(-1e12, 1e12, allow_subnormal=False), st.booleans())
def test_a_number_just_past_another_lies_strictly_past_it(value: float, upward: bool) -> None:
    found = just_past(value, upward, math.inf if upward else -math.inf)
    assert found is not None
    assert found > value if upward else found < value


def test_between_neighbouring_floats_there_is_none() -> None:
    assert just_past(1.0, True, math.nextafter(1.0, 2.0)) is None


def test_what_is_not_a_finite_number_is_refused() -> None:
    assert [parse(text) for text in ("", "-", "1e", "e5", "nan", "inf", "1,5", "0x10")] == [None] * 8
