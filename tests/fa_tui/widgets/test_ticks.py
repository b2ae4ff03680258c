"""Numbers beside an axis."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa_tui.views.glyphs import ASCII, UNICODE
from fa_tui.views.scale import Scale, tick_labels

ends = st.floats(-1e6, 1e6)


@given(ends, st.floats(1e-5, 1e7), st.integers(1, 40), st.integers(4, 9))
def test_no_two_labels_are_alike_or_too_wide_and_they_climb(low, span, lines, width):
    labels = tick_labels(Scale(low, low + span), lines, width)
    assert len(set(labels.values())) == len(labels)
    assert all(0 <= line < lines and len(text) <= width for line, text in labels.items())
    numbers = [float(labels[line]) for line in sorted(labels, reverse=True)]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("scale", "shown"),
    [
        (Scale(0.6099, 0.6108), ["0.6099", "0.6103", "0.6108"]),
        (Scale(-0.1, 0.4), ["-0.1", "0.15", "0.4"]),
        (Scale(0.0, 12.0), ["0", "6", "12"]),
    ],
)
def test_a_linear_axis_has_its_ends_and_its_middle(scale, shown):
    labels = tick_labels(scale, 11, 6)
    assert [labels[line] for line in sorted(labels, reverse=True)] == shown


@pytest.mark.parametrize(
    ("glyphs", "shown"),
    [
        (UNICODE, ["10⁻⁹", "10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²"]),
        (ASCII, ["1e-9", "1e-8", "1e-6", "1e-4", "0.01"]),
    ],
)
def test_a_log_axis_has_powers_of_ten_as_in_the_figures(glyphs, shown):
    labels = tick_labels(Scale(1e-9, 1e-2, log=True), 11, 6, glyphs)
    assert [labels[line] for line in sorted(labels, reverse=True)] == shown
