"""Fast parser of terminal input that never hangs in a paste.

Textual creates an event for every character of a raw paste, which takes milliseconds each, and
    waits forever for the end of a bracketed paste: even Ctrl+C would be ignored.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Iterable

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

_RUN = re.compile(r"[^\x00-\x1f\x7f-\x9f]{16,}")
"""Minimum of printable characters at once that count as a paste."""
_MOST_PASTED = 1 << 20
"""Maximum characters kept of a paste."""
_SILENT_SECONDS = 1.0
"""Seconds without input after which a paste ends even without its end mark."""
_LEAVING = frozenset(("\x03", "\x11", "\x1b[99;5u", "\x1b[113;5u"))
"""Ctrl+C and Ctrl+Q, without and with the keyboard protocol."""


class Typed(events.InputEvent):
    """Many printable characters that arrived at once.

    Args:
        text: the characters.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class Parser(XTermParser):
    """Textual's parser, after runs of characters and pastes are extracted."""

    _pasted: str | None = None
    _pasted_at = 0.0

    def feed(self, data: str) -> Iterable[Message]:
        """The messages of some input; an empty text is its end."""
        if not data or (self._pasted is None and len(data) == 1):
            yield from super().feed(data)
            return
        if data in _LEAVING:
            yield from self._end_paste()
        place = 0
        while place < len(data):
            place = yield from self._feed_from(data, place)

    def tick(self) -> Iterable[Message]:
        """The messages due after a while without input."""
        if self._pasted is not None and time.monotonic() - self._pasted_at > _SILENT_SECONDS:
            yield from self._end_paste()
        yield from super().tick()

    def _feed_from(self, data: str, place: int) -> Generator[Message, None, int]:
        """Parse the next part of a text; returns the start of the following one."""
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
            # the last characters may begin the end mark
            mark = len(BRACKETED_PASTE_END)
            text = text[: _MOST_PASTED - mark] + text[-mark:]
        self._pasted, self._pasted_at = text, time.monotonic()
        return len(data)

    def _end_paste(self) -> Iterable[Message]:
        text, self._pasted = self._pasted, None
        if text:
            yield events.Paste(text.replace("\x00", ""))
