"""Marks at the ends of curves never cover each other."""

from hypothesis import given
from hypothesis import strategies as st

from fa_tui.views.glyphs import UNICODE
from fa_tui.views.scale import Scale
from fa_tui.widgets.chart import Chart, Curve, End, draw_chart, not_covered

COLUMNS, LINES = 12, 3
X, Y = Scale(0.0, 10.0), Scale(0.0, 1.0)
columns, lines = st.integers(0, COLUMNS - 1), st.integers(0, LINES - 1)
MARKS = "abcdefghijkl"


@st.composite
def curves_of(draw):
    """Curves with the places at which their marks may be."""
    curves = []
    for mark in draw(st.lists(st.sampled_from(MARKS), max_size=20)):
        places = draw(st.lists(st.tuples(columns, lines), min_size=1, max_size=4))
        curves.append([End(column, line, mark, "style") for column, line in places])
    return curves


def drawn(*curves):
    chart = Chart(curves, X, Y, x_label="epoch")
    return ["".join(text for text, _ in row) for row in draw_chart(chart, 40, 6, UNICODE)]


@given(curves_of(), st.sets(st.tuples(columns, lines), max_size=8))
def test_no_mark_covers_another(wanted, taken):
    kept = not_covered(wanted, taken)
    cells = [cell for end in kept for cell in end.cells]
    assert len(set(cells)) == len(cells)
    assert not taken.intersection(cells)
    assert {*kept} <= {end for places in wanted for end in places}, "each is on its curve"
    if wanted and not taken:
        assert wanted[-1][0] in kept


def test_of_curves_that_end_in_one_place_the_last_is_named_there_and_others_where_they_part():
    curves = [
        Curve([(0.0, n / 10), (5.0, n / 4), (10.0, 0.5)], "curve-1", mark)
        for n, mark in enumerate("○□△▽")
    ]
    rows = drawn(*curves)
    assert any(line.endswith("▽") for line in rows)
    assert all(any(mark in line for line in rows) for mark in "○□△▽")


def test_a_label_of_several_characters_ends_with_its_curve_and_covers_no_other():
    curves = [Curve([(0.0, n / 10), (10.0, 0.5)], "curve-1", f"l={n}") for n in (9, 10)]
    rows = drawn(*curves)
    assert any(line.endswith("l=10") for line in rows)
    assert any("│ l=9" in line for line in rows), "at its other end, and whole"


def test_a_first_fire_stays_where_it_is_and_is_not_hidden():
    curves = [
        Curve([(0.0, 0.5), (10.0, 0.5)], "curve-1", "a"),
        Curve([(10.0, 0.5)], "bad", UNICODE.fires, stays=True),
        Curve([(0.0, 0.1), (10.0, 0.5)], "curve-2", "b"),
    ]
    assert any(line.endswith(UNICODE.fires) for line in drawn(*curves))
