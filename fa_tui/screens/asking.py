"""One question at a time, its answer awaited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fa_tui.screens.choice import Choice, ChoiceScreen
from fa_tui.screens.entry import EntryScreen

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


async def choose(app: ExplorerApp, title: str, choices: Sequence[Choice]) -> str | None:
    """The value of an entry, or None after Esc."""
    return await app.push_screen_wait(ChoiceScreen(title, choices, glyphs=app.terminal.glyphs))


async def ask(
    app: ExplorerApp, asks: str, *, text: str = "", hint: str = "", check: Callable[[str], str]
) -> str | None:
    """A line of text in which `check` finds no fault, or None after Esc."""
    return await app.push_screen_wait(EntryScreen(asks, glyphs=app.terminal.glyphs, text=text, hint=hint, check=check))
