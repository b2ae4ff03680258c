"""A number under a person's fingers, key by key."""

from __future__ import annotations

from enum import Enum

_STARTS = "0123456789.-+"


class Pressed(Enum):
    """What a key did to the entry."""

    NOTHING = "the key is for somebody else"
    EDITED = "the text changed, or the key was swallowed"
    ENTERED = "the text is finished"


class NumberEntry:
    """The text so far; None while nothing is being typed.

    >>> entry = NumberEntry()
    >>> [entry.press(key, key).name for key in "q1e7"], entry.text
    (['NOTHING', 'EDITED', 'EDITED', 'EDITED'], '1e7')
    """

    def __init__(self) -> None:
        self.text: str | None = None

    def takes(self, character: str | None) -> bool:
        """Whether a character starts a number, or goes on in one: then any does, to be refused as it was typed."""
        return character is not None and (self.text is not None or character in _STARTS)

    def press(self, key: str, character: str | None) -> Pressed:
        """Type a key (its name, and what it prints if it does). Tab leaves; any other key waits for Enter or Esc."""
        if self.text is None:
            if not self.takes(character):
                return Pressed.NOTHING
            self.text = character
        elif key == "enter":
            return Pressed.ENTERED
        elif key in ("tab", "shift+tab"):
            return Pressed.NOTHING
        elif key == "escape":
            self.text = None
        elif key == "backspace":
            self.text = self.text[:-1] or None
        elif character is not None:
            self.text += character
        return Pressed.EDITED
