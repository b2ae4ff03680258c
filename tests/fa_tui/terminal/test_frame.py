"""Only changed cells are sent, and the picture is the same as if all of it had been."""

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from fa_core.sanitize import sanitize
from fa_tui.terminal.frame import Frame
from fa_tui.views.text import cut, padded
from tests.fa_tui.odd_names import ODD_NAMES, WIDE

WIDTH, HEIGHT = 30, 3
STYLES = [
    None,
    Style.parse("red on black"),
    Style.parse("bold red on black"),
    Style.parse("blue on black"),
    Style.parse("underline blue on black"),
    Style.parse("reverse red on white"),
    Style.parse("red"),
]
Painted = list[tuple[str, Style | None]]
texts = st.text("ab ✓", min_size=1, max_size=5) | st.integers(1, WIDTH).map(
    lambda count: " " * count
)
pieces = st.lists(st.tuples(texts, st.sampled_from(STYLES)), max_size=5)
paints = st.lists(
    st.tuples(st.integers(0, WIDTH - 1), st.integers(0, HEIGHT - 1), pieces), max_size=12
)


def fitted(x, painted):
    """The pieces cut to what is left of the line."""
    segments = []
    for text, style in painted:
        for character in text:
            segment = Segment(character, style)
            if x + segment.cell_length > WIDTH:
                return segments
            segments.append(segment)
            x += segment.cell_length
    return segments


def frame_of(width=WIDTH, height=HEIGHT):
    return Frame(width, height, ColorSystem.TRUECOLOR)


def screen():
    shown = pyte.Screen(WIDTH, HEIGHT)
    return shown, pyte.Stream(shown)


def look(shown):
    """Every cell as it looks: on a blank only background, underline and reverse can be seen."""
    seen = []
    for y in range(HEIGHT):
        line = []
        for x in range(WIDTH):
            cell = shown.buffer[y][x]
            blank = cell.data == " " and not cell.reverse and not cell.underscore
            line.append(
                (
                    cell.data,
                    cell.bg,
                    cell.underscore,
                    cell.reverse,
                    *((None,) * 2 if blank else (cell.fg, cell.bold)),
                )
            )
        seen.append(line)
    return seen


@settings(max_examples=300, deadline=None)
@given(st.lists(paints, max_size=4))
def test_the_screen_is_the_same_as_with_everything_sent(shown):
    frugal, frugal_stream = screen()
    plain, plain_stream = screen()
    frame = frame_of()
    frugal_stream.feed(frame.show([(0, y, [Segment(" " * WIDTH)]) for y in range(HEIGHT)]))
    for painted in shown:
        together = [(x, y, fitted(x, row)) for x, y, row in painted]
        frugal_stream.feed(frame.show(together))
        for piece in together:
            plain_stream.feed(frame_of().show([piece]))
        assert look(frugal) == look(plain)


@pytest.mark.parametrize("at", [(WIDTH, 0), (WIDTH + 5, 1), (0, HEIGHT), (3, HEIGHT + 2)])
@pytest.mark.parametrize("text", ["beyond", "漢字"])
def test_a_piece_off_the_screen_is_left_out(at, text):
    frame = frame_of()
    assert frame.show([(*at, [Segment(text)])]) == ""
    assert frame.show([(0, 0, [Segment("still here")])])


def test_what_is_there_already_is_not_sent_again():
    frame = frame_of()
    line = [Segment("abc", STYLES[1]), Segment("   "), Segment("漢", STYLES[1])]
    assert frame.show([(0, 0, line[:2])])
    assert frame.show([(0, 0, line[:2])]) == ""


def test_a_changed_cell_costs_a_move_its_colours_and_itself():
    frame = frame_of()
    frame.show([(0, 1, [Segment("a" * WIDTH, Style.parse("red on black"))])])
    assert (
        frame.show([(0, 1, [Segment("aaaaaaaab", Style.parse("red on black"))])])
        == "\x1b[0;31;40m\x1b[2;9Hb\x1b[0m"
    )


@pytest.mark.parametrize(("x", "left"), [(2, "a x b"), (3, "a  xb"), (1, "ax方b")])
def test_what_is_left_of_half_a_wide_character_is_a_blank(x, left):
    frame, shown = frame_of(10, 1), pyte.Screen(10, 1)
    stream = pyte.Stream(shown)
    stream.feed(frame.show([(0, 0, [Segment("a 方b")])]))
    stream.feed(frame.show([(x, 0, [Segment("x")])]))
    assert "".join(shown.buffer[0][column].data for column in range(10)).rstrip() == left


@pytest.mark.parametrize("name", ODD_NAMES)
def test_what_follows_a_name_of_any_characters_stands_where_it_belongs(name):
    """Even on a terminal that takes the name to be narrower than it is taken to be here."""
    frame, shown = frame_of(60, 1), pyte.Screen(60, 1)
    stream = pyte.Stream(shown)
    narrow = str.maketrans(dict.fromkeys(WIDE, "?"))
    name = cut(sanitize(name), 40)
    for count in ("1/3", "2/3"):
        text = frame.show([(0, 0, [Segment(padded(name, 44)), Segment(count), Segment(" ✗ab-d")])])
        stream.feed(text.translate(narrow))
        assert "".join(shown.buffer[0][x].data for x in range(44, 60)).rstrip() == f"{count} ✗ab-d"
