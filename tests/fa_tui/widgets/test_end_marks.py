"""Marks at the ends of curves stand beside each other, not on each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fa_tui.views.scale import Scale
from fa_tui.views.text import ASCII, UNICODE
from fa_tui.widgets.chart import BESIDE, Chart, Curve, End, draw_chart, side_by_side
from tests.fa_tui.looks import app_on, opened, screen_text
from tests.fa_tui.scenes import epochs, trace

COLUMNS, LINES = 12, 3
X, Y = Scale(0.0, 10.0), Scale(0.0, 1.0)
columns, lines = st.integers(0, COLUMNS - 1), st.integers(0, LINES - 1)
ends = st.lists(st.builds(End, columns, lines, st.sampled_from("abcdefghijkl"), st.just("style")), max_size=40)


def drawn(*curves: Curve, width: int = 40, height: int = 6) -> list[str]:
    chart = Chart(curves, X, Y, x_label="epoch")
    return ["".join(text for text, _ in row) for row in draw_chart(chart, width, height, UNICODE)]


@given(ends, st.sets(st.tuples(columns, lines), max_size=8))
def test_no_mark_hides_another_and_none_is_lost_without_being_counted(
    wanted: list[End], taken: set[tuple[int, int]]
) -> None:
    placed, left_out = side_by_side(wanted, taken, COLUMNS)
    cells = [(end.column, end.line) for end in placed]
    assert len(set(cells)) == len(cells)
    assert not taken.intersection(cells)
    assert all(0 <= end.column < COLUMNS for end in placed)
    assert len(placed) + left_out == len({(end.column, end.line, end.mark) for end in wanted})


@given(ends)
def test_a_mark_stays_on_its_line_and_near_its_end_and_the_last_one_drawn_on_it(wanted: list[End]) -> None:
    placed, _ = side_by_side(wanted, (), COLUMNS)
    for end in placed:
        assert any(
            end.line == one.line and abs(end.column - one.column) <= BESIDE and end.mark == one.mark for one in wanted
        )
    for last in {(end.column, end.line): end for end in wanted}.values():
        assert last in placed


def test_curves_that_end_in_one_place_are_all_named() -> None:
    curves = [Curve([(0.0, n / 10), (10.0, 0.5)], "curve-1", mark) for n, mark in enumerate("abcde")]
    top, *_ = (line for line in drawn(*curves) if "e" in line and "epoch" not in line)
    assert top.endswith("abcde")
    early = [Curve([(0.0, n / 10), (4.0, 0.5)], "curve-1", mark) for n, mark in enumerate("abcde")]
    assert any("edcba" in line for line in drawn(*early))


def test_where_there_is_no_room_the_rest_are_counted() -> None:
    curves = [Curve([(10.0, 0.5)], "curve-1", mark) for mark in "abcdefghij"]
    *_, axis = drawn(*curves)
    assert f"epoch   +{len(curves) - BESIDE - 1} more ends" in axis
    assert "more" not in drawn(*curves[: BESIDE + 1])[-1]


def test_a_first_fire_stays_where_it_is_and_is_not_hidden() -> None:
    curves = [
        Curve([(0.0, 0.5), (10.0, 0.5)], "curve-1", "a"),
        Curve([(10.0, 0.5)], "bad", UNICODE.fires, stays=True),
        Curve([(0.0, 0.1), (10.0, 0.5)], "curve-2", "b"),
    ]
    assert any(line.endswith(f"ab{UNICODE.fires}") for line in drawn(*curves))


def test_in_ascii_too_the_ends_are_apart() -> None:
    chart = Chart([Curve([(0.0, 0.5), (10.0, 0.5)], "curve-1", mark) for mark in "abc"], X, Y)
    assert any("".join(text for text, _ in row).endswith("cccabc") for row in draw_chart(chart, 30, 6, ASCII))


async def test_on_a_small_screen_every_method_that_ends_in_one_place_is_named() -> None:
    methods = ("bp", "dfa", "ep", "fa", "kp")
    app = app_on(epochs([trace(method, 1, 1.5) for method in methods]))
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "T", "o", "o", "o")
        marks = "fegk" + UNICODE.knob  # no letter of a diagnostic
        assert any(line.endswith(marks) for line in screen_text(app).splitlines())
