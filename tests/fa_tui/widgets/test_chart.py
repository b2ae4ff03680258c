"""Curves and thresholds on a small canvas."""

import math

from hypothesis import given
from hypothesis import strategies as st

from fa_tui.views.glyphs import ASCII, UNICODE
from fa_tui.views.scale import Scale
from fa_tui.widgets.chart import AXIS, Canvas, Chart, Curve, draw_chart
from tests.fa_tui.looks import Stage

X, Y = Scale(0, 10), Scale(1e-2, 1e2, log=True)


def lines(chart, width=40, height=11, glyphs=UNICODE):
    return ["".join(text for text, _ in row) for row in draw_chart(chart, width, height, glyphs)]


def test_a_curve_runs_from_corner_to_corner():
    curve = Curve([(0, 1e-2), (10, 1e2)], "curve-1", "a")
    drawn = lines(Chart([curve], X, Y))
    assert drawn[0].rstrip().endswith("a")
    assert drawn[9][AXIS] != " "
    assert all(any(0x2800 < ord(character) <= 0x28FF for character in line) for line in drawn[:10])


def test_in_ascii_each_curve_is_drawn_with_its_own_mark():
    flat = [Curve([(0, y), (10, y)], "curve-1", mark) for y, mark in ((1.0, "a"), (100.0, "b"))]
    drawn = lines(Chart(flat, X, Y), glyphs=ASCII)
    assert "".join(drawn).isascii()
    assert drawn[0].count("b") == 31
    assert sum(line.count("a") for line in drawn) == 31


def test_nan_and_zero_on_a_log_scale_are_gaps_and_a_zero_stands_at_the_foot():
    curve = Curve(
        [(0, 1.0), (1, 1.0), (2, math.nan), (4, 0.0), (8, 1.0), (10, 1.0)], "curve-1", "*"
    )
    drawn = lines(Chart([curve], X, Y), glyphs=ASCII)
    (line,) = [line for line in drawn if "*" in line]
    assert drawn[9][AXIS:].strip() == "0"
    assert "*" not in line[8 + 7 : 8 + 20]


def test_a_threshold_is_a_dashed_line_and_one_off_the_scale_is_not_drawn():
    (line,) = [line for line in lines(Chart([], X, Y, [(1.0, "")])) if UNICODE.firing in line]
    assert line.count(UNICODE.firing) == 11
    assert not [line for line in lines(Chart([], X, Y, [(1e9, "")])) if UNICODE.firing in line]


def test_the_ends_of_both_axes_are_written():
    drawn = lines(Chart([], X, Y, x_label="epoch"))
    assert drawn[0].split()[0] == "10²" and drawn[9].split()[0] == "10⁻²"
    assert drawn[-1].split() == ["0", "epoch", "10"]


points = st.lists(st.tuples(st.floats(0, 10), st.floats(allow_nan=True)), max_size=30)


@given(
    points, st.integers(1, 60), st.integers(1, 20), st.sampled_from([UNICODE, ASCII]), st.booleans()
)
def test_whatever_the_values_the_rows_fill_their_box(values, width, height, glyphs, log):
    scale = Y if log else Scale(-5.0, 5.0)
    chart = Chart([Curve(sorted(values), "curve-1", "a")], X, scale, [(1.0, "")])
    drawn = lines(chart, width, height, glyphs)
    assert len(drawn) <= max(height, 1)
    assert all(len(line) >= min(width, 8) for line in drawn)


async def test_the_widget_repaints_another_chart():
    canvas = Canvas()
    canvas.set_chart(Chart([], X, Y))
    async with Stage(canvas).run_test(size=(40, 10)) as pilot:
        assert canvas.render_line(0).text.split()[0] == "10²"
        canvas.set_chart(Chart([], X, X))
        await pilot.pause()
        assert canvas.render_line(0).text.split()[0] == "10"
