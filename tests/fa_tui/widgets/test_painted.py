"""Rows of styled text, and widgets of them that are hidden for a while."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fa_tui.widgets.line import Line, TextLines
from fa_tui.widgets.painted import ending
from tests.fa_tui.looks import Stage

rows = st.lists(
    st.tuples(st.text("ab ✓漢", max_size=6), st.sampled_from(["", "x", "y"])), max_size=6
)


@given(rows, st.integers(2, 30))
def test_a_row_that_ends_in_a_mark_is_no_wider_than_its_width(row, width):
    assert sum(cell_len(text) for text, _ in ending(row, width, "..")) <= width


async def test_what_changed_while_hidden_is_shown_when_it_comes_back():
    line = Line()
    async with Stage(line).run_test(size=(40, 4)) as pilot:
        line.set(("before", ""))
        await pilot.pause()
        line.display = False
        await pilot.pause()
        line.set(("after", ""))
        line.display = True
        await pilot.pause()
        assert line.render_line(0).text.startswith("after")


async def test_lines_that_nobody_sees_lay_nothing_out_and_are_whole_when_they_come_back():
    lines = TextLines()
    async with Stage(lines).run_test(size=(40, 4)) as pilot:
        lines.set_lines(["before"])
        await pilot.pause()
        lines.display = False
        await pilot.pause()
        hidden = lines.virtual_size
        lines.set_lines([f"line {number}" for number in range(9)])
        assert lines.virtual_size == hidden
        lines.display = True
        await pilot.pause()
        assert lines.virtual_size.height == 9
        assert lines.render_line(0).text.startswith("line 0")


def test_tabs_in_what_a_command_printed_are_blanks():
    lines = TextLines()
    lines.set_lines(["epoch\tloss", "\x1b[2Jdone"])
    assert [row[0][0] for row in lines.draw(40)] == ["epoch   loss", "\\x1b[2Jdone"]
