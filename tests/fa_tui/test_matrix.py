"""The shades behind the matrix' numbers, and what stays in view."""

from __future__ import annotations

import pytest
from textual.color import Color
from textual.theme import Theme

from fa_core.formats.rows import AuditRow
from fa_tui.app import ExplorerApp
from fa_tui.session import Session
from fa_tui.terminal.themes import THEMES
from fa_tui.views.columns import SHADES, scale_of
from fa_tui.widgets.run_cells import shade_colour
from tests.fa_tui.conftest import COLOURFUL, PLAIN
from tests.fa_tui.looks import SIZE
from tests.fa_tui.waiting import until


async def test_the_source_stays_in_view_when_its_heading_scrolls_away() -> None:
    rows = [
        AuditRow(source=source, key=f"m{number}_s1", method=f"m{number}", seed=1)
        for source in ("x/first.json", "x/second.json")
        for number in range(60)
    ]
    app = ExplorerApp(Session(rows), terminal=COLOURFUL)
    async with app.run_test(size=SIZE) as pilot:
        matrix = app.explorer.matrix
        corner = lambda: matrix.frozen(None)[0][0].strip()  # noqa: E731
        assert corner().startswith("method")
        await pilot.press(*["pagedown"] * 2)
        assert corner() == "first.json"
        await pilot.press("end")
        assert corner() == "second.json"


def backgrounds(app: ExplorerApp) -> list[str | None]:
    """The background of every cell of the first column, the cursor's line left out."""
    matrix = app.explorer.matrix
    styles = [
        matrix.style_of(matrix.cell(line, 0)[0][1])
        for line in range(matrix.line_count())
        if line != matrix.line
    ]
    return [
        None if style is None or style.bgcolor is None else style.bgcolor.name for style in styles
    ]


async def test_numbers_stand_on_shades_from_low_to_high(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        before = backgrounds(app)
        await pilot.press("v")
        growths = [
            app.session.rows[line.cells[0]].report for line in app.explorer.matrix._grid.lines
        ][1:]
        shown = backgrounds(app)
        assert len(set(before)) == 1
        order = sorted(
            range(len(growths)), key=lambda line: growths[line].max_per_block_growth or 0
        )
        assert shown[order[0]] != shown[order[-1]]
        app.theme = "fa-light"
        await pilot.pause()
        assert set(backgrounds(app)).isdisjoint(shown)


async def test_no_shade_without_colours(session: Session) -> None:
    app = ExplorerApp(session, terminal=PLAIN)
    async with app.run_test(size=SIZE) as pilot:
        before = backgrounds(app)
        await pilot.press("v")
        assert backgrounds(app) == before


def contrast(one: Color, other: Color) -> float:
    """WCAG 2.1 contrast ratio."""

    def luminance(colour: Color) -> float:
        parts = [
            part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
            for part in colour.normalized
        ]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    "theme", [theme for theme in THEMES if not theme.ansi], ids=lambda theme: theme.name
)
def test_text_is_readable_on_the_highest_shade(theme: Theme) -> None:
    shade = shade_colour(
        Color.parse(theme.background or ""), Color.parse(theme.primary), SHADES - 1
    )
    for name, least in (("foreground", 4.5), ("error", 3.0)):
        assert contrast(shade, Color.parse(getattr(theme, name))) >= least, name


def test_shades_climb_with_the_number_and_what_is_not_finite_bends_no_scale() -> None:
    scale = scale_of([1e-9, 1.0, float("inf"), float("nan"), None, 0.0], log=True)
    assert scale is not None
    shades = [scale.step(value, SHADES) for value in (0.0, 1e-9, 1e-5, 1.0, float("inf"))]
    assert shades == sorted(shades)
    assert (shades[0], shades[-1]) == (0, SHADES - 1)
    assert scale_of([2.0, 2.0], log=False) is None


async def test_the_cursor_stays_in_view_when_the_terminal_changes() -> None:
    rows = [
        AuditRow(source="runs.json", key=f"m{number}_s1", method=f"m{number}", seed=1)
        for number in range(15)
    ]
    app = ExplorerApp(Session(rows), terminal=COLOURFUL)
    async with app.run_test(size=(80, 24)) as pilot:
        matrix = app.explorer.matrix
        await pilot.press("end")
        await pilot.resize_terminal(80, 16)
        await until(
            pilot, lambda: matrix.size.height < 16 and matrix.line in matrix.visible_lines()
        )
