"""What a terminal sends, taken apart faster than Textual does, and never stuck in a paste.

Textual makes an event of every character of a raw paste, which takes milliseconds each, and waits
for the end of a bracketed paste for good: no key, not even Ctrl+C, would be one again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterable

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

_RUN = re.compile(r"[^\x00-\x1f\x7f-\x9f]{16,}")
"""Printable characters that come at once: more than anybody types."""
_MOST_PASTED = 1 << 20
"""Characters of a paste that are kept."""
_SILENT_SECONDS = 1.0
"""A paste of which nothing more came for so long is over, without its end mark too."""
_LEAVING = frozenset(("\x03", "\x11", "\x1b[99;5u", "\x1b[113;5u"))
"""Ctrl+C and Ctrl+Q alone, without and with the keyboard protocol: a person wants to leave."""


class Typed(events.InputEvent):
    """Many printable characters that came at once.

    Args:
        text: the characters.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class Parser(XTermParser):
    """Textual's parser; runs of characters and pastes are taken out before it."""

    _pasted: str | None = None
    _pasted_at = 0.0

    def feed(self, data: str) -> Iterable[Message]:
        """What some text from the terminal means; an empty one is its end."""
        if not data or (self._pasted is None and len(data) == 1):
            yield from super().feed(data)
            return
        if data in _LEAVING:
            yield from self._end_paste()
        place = 0
        while place < len(data):
            place = yield from self._feed_from(data, place)

    def tick(self) -> Iterable[Message]:
        """What is known because nothing came for a while."""
        if self._pasted is not None and time.monotonic() - self._pasted_at > _SILENT_SECONDS:
            yield from self._end_paste()
        yield from super().tick()

    def _feed_from(self, data: str, place: int) -> Generator[Message, None, int]:
        """Take the next part of some text; where the one after it begins."""
        if self._pasted is not None:
            return (yield from self._feed_paste(data, place))
        if self._awaiting.timeout is None:
            # not within a sequence
            if data.startswith(BRACKETED_PASTE_START, place):
                self._pasted, self._pasted_at = "", time.monotonic()
                return place + len(BRACKETED_PASTE_START)
            run = _RUN.match(data, place)
            if run is not None:
                yield Typed(run[0])
                return run.end()
        yield from super().feed(data[place])
        return place + 1

    def _feed_paste(self, data: str, place: int) -> Generator[Message, None, int]:
        text = f"{self._pasted}{data[place:]}"
        pasted, end, rest = text.partition(BRACKETED_PASTE_END)
        if end:
            self._pasted = pasted
            yield from self._end_paste()
            return len(data) - len(rest)
        if len(text) > _MOST_PASTED:
            # the last characters may be the beginning of its end mark
            mark = len(BRACKETED_PASTE_END)
            text = text[: _MOST_PASTED - mark] + text[-mark:]
        self._pasted, self._pasted_at = text, time.monotonic()
        return len(data)

    def _end_paste(self) -> Iterable[Message]:
        text, self._pasted = self._pasted, None
        if text:
            yield events.Paste(text.replace("\x00", ""))
