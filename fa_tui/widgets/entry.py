"""A text input of one line."""

from __future__ import annotations

from textual import events
from textual.widgets import Input

MOST_TYPED = 1000
"""Maximum number of characters; the rest is left out."""


class Entry(Input):
    """An input of bounded length, as a pasted megabyte would be drawn and parsed repeatedly."""

    @property
    def full_words(self) -> str:
        """A note if the input is full."""
        if len(self.value) >= MOST_TYPED:
            return f"at most {MOST_TYPED:,} characters: more is left out"
        return ""

    def _on_paste(self, event: events.Paste) -> None:
        """Join all lines of a paste with blanks; Textual takes only the first."""
        event.prevent_default()
        event.stop()
        lines = [line for line in event.text.splitlines() if line.strip()]
        if lines:
            self.replace(" ".join(lines), *self.selection)

    def replace(self, text: str, start: int, end: int) -> None:
        """Replace a part by as much of a text as fits."""
        room = MOST_TYPED - len(self.value) + abs(end - start)
        super().replace(text[: max(0, room)], start, end)
