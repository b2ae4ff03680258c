"""What only moved is scrolled by the terminal, and the picture is the same as if all of it had been sent."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from unittest.mock import patch

import pyte
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from fa_tui.terminal import frame as frames
from fa_tui.terminal.frame import Frame, Piece
from fa_tui.terminal.scrolling import UNKNOWN, Scroll, find_scroll

WIDTH, HEIGHT = 60, 12
SCROLLED = "\x1b[r"
PLAIN = Style.parse("white on black")
STYLES = [
    PLAIN,
    Style.parse("white"),
    Style.parse("bold red on black"),
    Style.parse("underline white on blue"),
    Style.parse("reverse green"),
]


class CarelessScreen(pyte.Screen):
    """A terminal that leaves rubbish in the lines that come in, and keeps the cursor where a scroll left it."""

    def index(self) -> None:
        super().index()
        self._spoil(self.cursor.y)

    def reverse_index(self) -> None:
        super().reverse_index()
        self._spoil(self.cursor.y)

    def _spoil(self, y: int) -> None:
        for x in range(self.columns):
            self.buffer[y][x] = self.cursor.attrs._replace(data="#")


class Watched:
    """A frame and a terminal that gets what it says."""

    def __init__(
        self, colours: ColorSystem = ColorSystem.TRUECOLOR, *, scrolls: bool = True
    ) -> None:
        self.screen = CarelessScreen(WIDTH, HEIGHT)
        self.stream = pyte.Stream(self.screen)
        self.frame = Frame(WIDTH, HEIGHT, colours, scrolls=scrolls)

    def show(self, pieces: list[Piece]) -> str:
        text = self.frame.show(pieces)
        self.stream.feed(text)
        return text


def look(screen: pyte.Screen) -> list[list[tuple[object, ...]]]:
    """Every cell as it looks: a blank has no foreground."""
    return [
        [
            (cell.data, cell.bg, cell.underscore, cell.reverse)
            + ((cell.fg, cell.bold) if cell.data != " " or cell.reverse or cell.underscore else ())
            for cell in (screen.buffer[y][x] for x in range(WIDTH))
        ]
        for y in range(HEIGHT)
    ]


def line(number: int, width: int = WIDTH) -> str:
    """A line of a table that is like no other."""
    return f"run{number} {sha256(bytes([number % 256])).hexdigest().replace('0', ' ')}"[:width]


def piece(y: int, text: str, style: Style = PLAIN, x: int = 0) -> Piece:
    return x, y, [Segment(text, style)]


def table(first: int, top: int = 0, bottom: int = HEIGHT, width: int = WIDTH) -> list[Piece]:
    """The lines of a table from one on."""
    return [piece(y, line(first + y - top, width)) for y in range(top, bottom)]


@pytest.mark.parametrize("by", [1, -1, 3, -4])
def test_a_table_that_moves_is_scrolled_for_the_bytes_of_its_new_lines(by: int) -> None:
    shown = Watched()
    shown.show(table(50))
    text = shown.show(table(50 + by))
    assert SCROLLED in text
    assert len(text) <= abs(by) * (WIDTH + 20) + 40
    assert shown.screen.display == [line(50 + by + y) for y in range(HEIGHT)]


def test_what_stands_above_and_below_the_table_stays() -> None:
    shown = Watched()
    shown.show(
        [
            piece(0, "title".ljust(WIDTH)),
            *table(50, 1, HEIGHT - 1),
            piece(HEIGHT - 1, "keys".ljust(WIDTH)),
        ]
    )
    text = shown.show(table(51, 1, HEIGHT - 1))
    assert f"\x1b[2;{HEIGHT - 1}r" in text
    assert [shown.screen.display[y].rstrip() for y in (0, HEIGHT - 1)] == ["title", "keys"]


def test_a_pane_beside_the_table_that_costs_more_than_it_saves_is_left_alone() -> None:
    shown = Watched()
    beside = [piece(y, line(500 + y)[::-1], x=20) for y in range(HEIGHT)]
    shown.show([*table(50, width=20), *beside])
    text = shown.show(table(51, width=20))
    assert SCROLLED not in text


def test_a_pane_that_is_blank_beside_the_table_is_painted_again_where_it_moved() -> None:
    shown = Watched()
    shown.show(
        [
            *table(50, width=40),
            *[piece(y, ("     layer" if y == 3 else "").ljust(20), x=40) for y in range(HEIGHT)],
        ]
    )
    text = shown.show(table(51, width=40))
    assert SCROLLED in text
    assert [display[45:50] for display in shown.screen.display] == [
        "layer" if y == 3 else " " * 5 for y in range(HEIGHT)
    ]


def test_the_first_picture_and_small_changes_are_not_scrolled() -> None:
    shown = Watched()
    assert SCROLLED not in shown.show(table(50))
    assert SCROLLED not in shown.show([piece(4, line(51))])


def test_a_terminal_without_margins_gets_the_cells() -> None:
    shown = Watched(scrolls=False)
    shown.show(table(50))
    assert SCROLLED not in shown.show(table(51))
    assert shown.screen.display == [line(51 + y) for y in range(HEIGHT)]


def test_lines_that_are_not_known_cell_by_cell_are_not_taken_along() -> None:
    shown = Watched()
    wide = piece(6, "漢字" + " " * (WIDTH - 4))
    shown.show([*table(50, 0, 6), wide, *table(57, 7)])
    text = shown.show([*table(51, 0, 6), *table(58, 7)])
    assert SCROLLED not in text
    assert shown.screen.display[6].startswith("漢字")


def test_nothing_moved_where_the_same_text_is_everywhere() -> None:
    assert find_scroll(["a" * WIDTH] * HEIGHT, ["b" * WIDTH] * HEIGHT) is None
    assert find_scroll([" " * WIDTH] * HEIGHT, [line(y) for y in range(HEIGHT)]) is None
    assert find_scroll([UNKNOWN * WIDTH] * HEIGHT, [UNKNOWN * WIDTH] * HEIGHT) is None


def test_of_several_moves_the_one_with_the_most_text_is_taken() -> None:
    before = [line(y) for y in range(HEIGHT)]
    after = [line(100), *before[0:2], *before[4:11], line(200), line(300)]
    assert find_scroll(before, after) == Scroll(top=3, bottom=11, up=1)


def edit(x: int, y: int, text: str, style: Style) -> Callable[[int], list[Piece]]:
    """Any text anywhere, cut to the line."""
    return lambda first: [(x, y, [Segment(text, style).split_cells(WIDTH - x)[0]])] if text else []


def stretch(
    top: int, bottom: int, width: int, by: int, style: Style
) -> Callable[[int], list[Piece]]:
    """Some lines of the table, some way further."""
    return lambda first: [piece(y, line(first + by + y, width), style) for y in range(top, bottom)]


texts = st.sampled_from(["", "✓abc·", "漢", "12.5  x", *map(line, range(8))])
changes = st.one_of(
    st.builds(
        edit, st.integers(0, WIDTH - 1), st.integers(0, HEIGHT - 1), texts, st.sampled_from(STYLES)
    ),
    st.builds(
        stretch,
        st.integers(0, 3),
        st.integers(HEIGHT // 2, HEIGHT),
        st.sampled_from([WIDTH, WIDTH, WIDTH - 1, 30]),
        st.integers(-3, 3),
        st.sampled_from(STYLES[:2]),
    ),
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(changes, min_size=1, max_size=3), max_size=8),
    st.sampled_from(list(ColorSystem)),
)
def test_after_any_scrolls_and_edits_the_screen_is_as_if_all_had_been_sent(
    updates: list[list[Callable[[int], list[Piece]]]], colours: ColorSystem
) -> None:
    scrolling, plain = Watched(colours), Watched(colours)
    # also where it does not pay: it must be right wherever it is taken
    with patch.object(frames, "_MUCH", 1), patch.object(frames, "_CLEARLY", 100):
        for step, update in enumerate([[stretch(0, HEIGHT, WIDTH, 0, PLAIN)], *updates]):
            pieces = [piece for change in update for piece in change(100 + step)]
            event(f"scrolled: {SCROLLED in scrolling.show(pieces)}")
            # a frame that knows nothing sends everything
            plain.frame = Frame(WIDTH, HEIGHT, colours)
            plain.show(pieces)
            assert look(scrolling.screen) == look(plain.screen)
