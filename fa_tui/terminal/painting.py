"""Painting with few bytes, at the speed of the line.

Textual 8.2 sends a changed region from the left edge of its widget on, repaints the whole screen
(17 to 32 KB) when the focus moves, and gives each piece of text all of its colours and a reset.
`Painter` remembers the terminal's cells (`Frame`) and sends those that change.

Output is buffered by the system, SSH and the network: a key held on a slow line must not cause
    seconds of lag. So the terminal is asked for its cursor position: its answer confirms everything
    sent before. Until then only a window of bytes may follow (`Pacing`); a frame that must wait is
    dropped, and all changes are sent as one frame after the answer. A terminal that does not answer
    gets the bytes of a slow line, but no frame waits longer than a moment.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TypeAlias

from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from textual import events
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.app import App
from textual.screen import Screen

from fa_tui.later import after
from fa_tui.terminal.frame import Frame, Piece

ASK = "\x1b[6n"
"""Query of the cursor position; answered by every terminal and tmux."""

_WINDOW = 1024
"""Unconfirmed bytes allowed while answers are fast; with slow answers, one frame."""
_ASK_EVERY = 512
_SLOW_SECONDS = 0.1
"""Seconds from which an answer is slow."""
LOST_SECONDS = 5.0
"""Seconds after which an answer counts as lost."""
_MUTE_RATE = 3000
"""Bytes per second for a terminal that does not answer."""
_MUTE_SECONDS = 1.0
"""Maximum seconds a frame waits for such a terminal."""


class Pacing:
    """Accounting of sent and confirmed bytes.

    >>> line = Pacing()
    >>> line.sent(600, now=0.0)  # asks
    True
    >>> line.wait(now=0.0)  # it has never answered: 600 bytes take a slow line so long
    0.2
    >>> line.answered(now=0.01)
    >>> line.sent(600, now=1.0), line.sent(600, now=1.02), line.wait(now=1.03) > 0
    (True, True, True)
    >>> line.answered(now=1.04)
    >>> line.wait(now=1.04)
    0.0
    """

    def __init__(self) -> None:
        self._answers = False
        self._slow = False
        self._asked: deque[tuple[float, int]] = deque()
        self._since_question = 0
        self._mute_until = 0.0

    @property
    def expects_answer(self) -> bool:
        """Whether an answer is expected."""
        return self._answers and bool(self._asked)

    def wait(self, now: float) -> float:
        """Seconds until the next frame may be sent without an answer; 0 = now.

        Args:
            now: the time in seconds.
        """
        if self._asked and now - self._asked[0][0] > LOST_SECONDS:
            self._asked.clear()
            self._answers = False
        if not self._answers:
            return max(0.0, self._mute_until - now)
        if self._slow:
            full = bool(self._asked)
        else:
            full = self._since_question + sum(count for _, count in self._asked) > _WINDOW
        if full:
            return max(0.0, self._asked[0][0] + LOST_SECONDS - now)
        return 0.0

    def sent(self, count: int, now: float) -> bool:
        """Count sent bytes; returns whether to append a query."""
        self._since_question += count
        self._mute_until = now + min(_MUTE_SECONDS, count / _MUTE_RATE)
        # even while an answer is expected: bytes without a later query are never confirmed
        if not count or (self._since_question < _ASK_EVERY and not self._slow):
            return False
        self._asked.append((now, self._since_question))
        self._since_question = 0
        return True

    def answered(self, now: float) -> None:
        """Confirm everything up to the oldest query."""
        self._answers = True
        if self._asked:
            asked, _ = self._asked.popleft()
            self._slow = now - asked > _SLOW_SECONDS


_Update: TypeAlias = ChopsUpdate | LayoutUpdate

_FAREWELL_SECONDS = 1.0
_SETTLE_SECONDS = 0.05
"""Seconds to wait after a resize: a dragged window changes its size every few milliseconds."""
_LOOK_SECONDS = 0.015
"""Seconds between checks of a held screen, which is ready after two checks without pending
messages."""
_HELD_SECONDS = 1.0
"""Maximum seconds a screen is held."""
_DRAG_SECONDS = 0.2
"""Seconds between paints of a held screen."""


class Painter:
    """Sends changed cells at the speed of the line.

    Args:
        app: the application.

    Attributes:
        has_painted: whether anything was painted.
    """

    def __init__(self, app: App[int]) -> None:
        self._app = app
        self.has_painted = False
        self._pacing = Pacing()
        self._frame: Frame | None = None
        # runs while a frame waits for the line or a stable size
        self._owed: asyncio.TimerHandle | None = None
        self._dragged_since: float | None = None
        self._settled_at = 0.0
        self._held_until = 0.0
        self._idle_looks = 0
        self._on_top: Screen[object] | None = None
        self._leaving: Callable[[], None] | None = None

    def notice(self, event: events.Event) -> None:
        """Handle a resize or an answer of the terminal."""
        if isinstance(event, events.Resize):
            self._resized(time.monotonic())
            # after a resize or a suspension all cells are unknown
            self._frame = None
        elif isinstance(event, events.CursorPosition):
            self._pacing.answered(time.monotonic())
            self._pay()

    def hold(self) -> None:
        """Hold a new screen until it is complete, so that it is sent once."""
        if not self._held_until:
            after(_LOOK_SECONDS, self._app, self._look)
        self._held_until, self._idle_looks = time.monotonic() + _HELD_SECONDS, 0

    def leave(self, leave: Callable[[], None]) -> None:
        """Quit after the pending answer, which would otherwise be typed into the shell."""
        if self._pacing.expects_answer:
            self._leaving = leave
            after(_FAREWELL_SECONDS, self._app, leave)
        else:
            leave()

    def update(self, renderable: RenderableType | None) -> RenderableType | None:
        """The output for an update; None while a frame has to wait."""
        if not isinstance(renderable, _Update) or self._app.is_inline:
            return renderable
        if self._leaving is not None:
            # no more queries
            return None
        now, screen = time.monotonic(), self._app.screen
        if self.has_painted and screen is not self._on_top:
            self.hold()
        self._on_top = screen
        wait = max(self._pacing.wait(now), self._settled_at - now, self._held_until - now)
        if wait > 0:
            if self._owed is None:
                self._owed = after(wait, self._app, self._pay)
            return None
        self.has_painted = True
        return _FrameUpdate(self._encode, renderable)

    def _encode(self, update: _Update, console: Console) -> str:
        app, size = self._app, self._app.size
        if self._frame is None or self._frame.size != (size.width, size.height):
            colours = console._color_system or ColorSystem.TRUECOLOR
            self._frame = Frame(size.width, size.height, colours)
            if not (isinstance(update, LayoutUpdate) and update.region.size == size):
                # cells outside this update are unknown
                app.screen.call_next(app.screen.refresh)
        pieces = _chops(update) if isinstance(update, ChopsUpdate) else _lines(update)
        text = self._frame.show(list(pieces))
        if self._pacing.sent(len(text), time.monotonic()):
            return text + ASK
        return text

    def _look(self) -> None:
        """Paint a held screen once it and its widgets have no pending messages."""
        app = self._app
        widgets = app.screen.walk_children(with_self=True) if app.screen_stack else ()
        self._idle_looks += 1
        if any(pump.message_queue_size for pump in (app, *widgets)):
            self._idle_looks = 0
        if self._idle_looks < 2 and time.monotonic() < self._held_until:
            after(_LOOK_SECONDS, app, self._look)
        else:
            self._held_until = 0.0
            self._pay()

    def _resized(self, now: float) -> None:
        if self._frame is not None:
            self._dragged_since = now
        if self._dragged_since is not None:
            self._settled_at = min(now + _SETTLE_SECONDS, self._dragged_since + _DRAG_SECONDS)

    def _pay(self) -> None:
        """Send the changes since a dropped frame; quit, if that waited for an answer."""
        if self._leaving is not None:
            if not self._pacing.expects_answer:
                self._leaving()
        elif self._owed is not None:
            self._owed.cancel()
            self._owed = None
            # a closing app has no screen
            for screen in self._app.screen_stack[-1:]:
                screen.refresh()


class _FrameUpdate(CompositorUpdate):
    """An update of the compositor, encoded when it is sent."""

    def __init__(self, encode: Callable[[_Update, Console], str], update: _Update) -> None:
        self._encode, self._update = encode, update

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._update

    def render_segments(self, console: Console) -> str:
        return self._encode(self._update, console)


def _lines(update: LayoutUpdate) -> Iterator[Piece]:
    for y, line in enumerate(update.strips, update.region.y):
        yield update.region.x, y, list(chain.from_iterable(line))


def _chops(update: ChopsUpdate) -> Iterator[Piece]:
    for y, left, right in update.spans:
        chops = update.chops[y]
        for end, x in zip(update.chop_ends[y], chops, strict=False):
            strip = chops[x]
            start = max(x, left)
            stop = min(end, right)
            if strip is not None and start < stop:
                yield start, y, list(strip.crop(start - x, stop - x))
