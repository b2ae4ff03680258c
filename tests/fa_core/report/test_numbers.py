"""Numbers as people read and type them."""

import math

from hypothesis import given
from hypothesis import strategies as st

from fa_core.report.numbers import brief, exact, fixed, just_past, parse, short, significant, spread

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite)
def test_the_exact_text_reads_back_as_the_same_number(value):
    assert parse(exact(value)) == value


@given(st.floats(1e-300, 1e300) | st.floats(-1e300, -1e-300), st.integers(2, 6))
def test_the_short_text_is_right_to_its_digits(value, digits):
    assert math.isclose(float(short(value, digits)), value, rel_tol=0.51 * 10.0 ** (1 - digits))


@given(finite)
def test_the_short_text_fits_a_narrow_column(value):
    assert len(short(value)) <= 10


@given(st.floats(-1e12, 1e12, allow_subnormal=False), st.booleans())
def test_a_number_just_past_another_lies_strictly_past_it(value, upward):
    found = just_past(value, upward, math.inf if upward else -math.inf)
    assert found > value if upward else found < value


def test_between_neighbouring_floats_there_is_none():
    assert just_past(1.0, True, math.nextafter(1.0, 2.0)) is None


def test_what_is_not_a_finite_number_is_refused():
    assert [parse(text) for text in ("", "-", "1e", "e5", "nan", "inf", "1,5", "0x10")] == [
        None
    ] * 8


def test_numbers_round_for_people_and_say_when_there_are_none():
    found = [significant(value) for value in (math.nan, 0.0, -1234567.0)]
    assert found == ["nan", "0", "-1.235e6"]
    assert fixed(0.5, 2) == "0.50"
    assert [brief(1234567.0, 2), brief(23170.0), brief(None)] == ["1.2e6", "23170", "N/A"]


SPREADS = {
    "1.00 ± 0.00": (1.0, 0.0),
    "3.61e-4 ± 3.9e-5": (3.61e-4, 3.9e-5),
    "1864 ± 653": (1864.2, 653.1),
    "inf": (math.inf, 1.0),
    "-1.00e-4 ± 3.0e-6": (-9.9996e-5, 3e-6),
    "1.00e308 ± 0": (1e308, 0.0),
    "0.3490000 ± 0.0000040": (0.349, 4e-6),
    "0.00 ± 0.12": (0.0, 0.12),
    "-0.00596 ± 0.00999": (-5.96e-3, 9.99e-3),
}


def test_a_spread_has_digits_at_every_size_and_no_deviation_is_lost():
    assert {text: spread(*pair) for text, pair in SPREADS.items()} == {
        text: text for text in SPREADS
    }
