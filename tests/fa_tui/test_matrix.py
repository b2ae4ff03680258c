"""The shades behind the matrix' numbers, and what stays in view."""

from fa_tui.session import Session
from tests.fa_core.rows import row_of
from tests.fa_tui.looks import app_on, running
from tests.fa_tui.waiting import until


async def test_the_source_stays_in_view_when_its_heading_scrolls_away():
    rows = [
        row_of(f"m{number}_s1", source)
        for source in ("x/first.json", "x/second.json")
        for number in range(60)
    ]
    app = app_on(Session(rows))
    async with running(app) as pilot:
        matrix = app.explorer.matrix
        corner = lambda: matrix.frozen(None)[0][0].strip()  # noqa: E731
        assert corner().startswith("method")
        await pilot.press(*["pagedown"] * 2)
        assert corner() == "first.json"
        await pilot.press("end")
        assert corner() == "second.json"


async def test_the_cursor_stays_in_view_when_the_terminal_changes():
    app = app_on(Session([row_of(f"m{number}_s1", "runs.json") for number in range(15)]))
    async with running(app, (80, 24)) as pilot:
        matrix = app.explorer.matrix
        await pilot.press("end")
        await pilot.resize_terminal(80, 16)
        await until(
            pilot, lambda: matrix.size.height < 16 and matrix.line in matrix.visible_lines()
        )
