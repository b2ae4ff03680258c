"""A line to type in."""

from __future__ import annotations

from textual import events
from textual.widgets import Input

MOST_TYPED = 1000
"""Characters that a line takes; what is beyond them is left out."""


class Entry(Input):
    """An input of bounded length: a paste of a megabyte would be drawn, and understood, again and
    again."""

    @property
    def full_words(self) -> str:
        """That nothing more can be typed, where that is so."""
        if len(self.value) >= MOST_TYPED:
            return f"at most {MOST_TYPED:,} characters: more is left out"
        return ""

    def _on_paste(self, event: events.Paste) -> None:
        """Take all lines of a paste, with blanks between them: Textual would take the first
        alone."""
        event.prevent_default()
        event.stop()
        lines = [line for line in event.text.splitlines() if line.strip()]
        if lines:
            self.replace(" ".join(lines), *self.selection)

    def replace(self, text: str, start: int, end: int) -> None:
        """Put as much of a text as there is room for in the place of another."""
        room = MOST_TYPED - len(self.value) + abs(end - start)
        super().replace(text[: max(0, room)], start, end)
