"""The bottom line: the keys that work now, clickable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from textual import events
from textual.screen import Screen

from fa_tui.terminal.glyphs import UNICODE, Glyphs
from fa_tui.widgets.painted import PaintedWidget, Row

_PALETTE = "command_palette"
"""What every key does can be done from there too, also by mouse."""


class Hint(msgspec.Struct, frozen=True):
    """One key, as pressed and as shown, and what it does."""

    key: str
    shown: str
    does: str

    @property
    def width(self) -> int:
        return len(self.shown) + len(self.does) + 3


class KeyBar(PaintedWidget):
    """One line of key hints, read from the screen's active bindings; a click presses the key.

    Textual's Footer mounts a widget per key and lays them out again at every change of focus; this
    paints one line, and of it only what changed.
    """

    DEFAULT_CSS = "KeyBar { dock: bottom; height: 1; background: $panel; }"

    def __init__(self, glyphs: Glyphs = UNICODE, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._hints: list[Hint] = []
        self._more: Hint | None = None

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._read)
        self._read(self.screen)

    def _read(self, screen: Screen[object]) -> None:
        hints: dict[str, Hint] = {}
        bindings = screen.active_bindings.values()
        for active in bindings:
            binding = active.binding
            if binding.show and active.enabled and binding.description and binding.action not in hints:
                shown = binding.key_display or self.app.get_key_display(binding)
                hints[binding.action] = Hint(binding.key, self._glyphs.say(shown), binding.description)
        self._hints = list(hints.values())
        palette = next((active for active in bindings if active.binding.action == _PALETTE), None)
        self._more = None if palette is None else Hint(palette.binding.key, self._glyphs.say("^p"), "More")
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        row: Row = []
        for hint in fitting(self._hints, width, self._more):
            row += [(f" {hint.shown}", "accent"), (f" {hint.does} ", "dim")]
        return [row]

    def on_click(self, event: events.Click) -> None:
        hints, place = fitting(self._hints, self.size.width, self._more), self.piece_at(event.x) // 2
        if place < len(hints):
            self.app.simulate_key(hints[place].key)


def fitting(hints: Iterable[Hint], width: int, more: Hint | None = None) -> list[Hint]:
    """The hints that fit a width whole; the last two (help, quit) go before all others.

    Args:
        hints: all of them.
        width: cells.
        more: leads to those that are left out; shown only where some are.

    >>> bar = [Hint("m", "m", "measure"), Hint("t", "t", "table"), Hint("?", "?", "help"), Hint("q", "q", "quit")]
    >>> [hint.key for hint in fitting(bar, 27)]
    ['m', '?', 'q']
    >>> [hint.key for hint in fitting(bar, 27, Hint("ctrl+p", "^p", "more"))]
    ['ctrl+p', '?', 'q']
    """
    hints = list(hints)
    if sum(hint.width for hint in hints) <= width:
        return hints
    first, last = hints[:-2], [*([more] if more else []), *hints[-2:]]
    room = width - sum(hint.width for hint in last)
    kept = []
    for hint in first:
        if hint.width > room:
            break
        kept.append(hint)
        room -= hint.width
    return kept + last
