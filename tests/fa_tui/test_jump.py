"""Jump mode: a letter on every pane."""

from __future__ import annotations

from fa_tui.app import ExplorerApp
from fa_tui.screens.help import JumpLabel, JumpScreen, targets_of
from tests.fa_tui.looks import SIZE, opened, screen_text
from tests.fa_tui.waiting import until


async def test_every_pane_has_a_letter_and_typing_it_goes_there(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.explorer.sliders is not None)
        await pilot.pause()
        panes = {letter: pane.id for letter, pane in targets_of(app.explorer)}
        assert panes == {
            "s": "matrix",
            "f": "detail",
            **{letter: f"slider-{letter}" for letter in "abcd"},
        }
        for letter in ("f", "c", "s"):
            await pilot.press("ctrl+o")
            await pilot.pause()
            assert isinstance(app.screen, JumpScreen)
            await pilot.press(letter)
            await pilot.pause()
            assert app.focused is not None
            assert app.focused.id == panes[letter]


async def test_the_letters_stand_where_the_panes_begin(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.explorer.sliders is not None)
        await pilot.pause()
        expected = {letter: pane.region.offset for letter, pane in targets_of(app.explorer)}
        await pilot.press("ctrl+o")
        await pilot.pause()
        assert {
            label.letter: label.region.offset for label in app.screen.query(JumpLabel)
        } == expected
        assert "[s]" in screen_text(app), "readable without colour"


async def test_escape_or_a_resize_leaves_everything_where_it_was(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("ctrl+o", "escape")
        await pilot.pause()
        assert app.focused is app.explorer.matrix
        await pilot.press("ctrl+o")
        await pilot.resize_terminal(100, 30)
        await until(pilot, lambda: app.screen is app.explorer)
        assert app.focused is app.explorer.matrix


async def test_a_click_on_a_letter_goes_there(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: app.explorer.sliders is not None)
        await pilot.pause()
        await pilot.press("ctrl+o")
        await pilot.pause()
        label = next(label for label in app.screen.query(JumpLabel) if label.letter == "f")
        await pilot.click(label)
        await pilot.pause()
        assert app.focused is app.explorer.detail


async def test_it_works_on_the_other_screens(app: ExplorerApp) -> None:
    async with app.run_test(size=SIZE) as pilot:
        screen = await opened(pilot, "C")
        await pilot.press("ctrl+o", "b")
        await pilot.pause()
        assert app.screen is screen
        assert app.focused is screen.sliders.slider("b")
