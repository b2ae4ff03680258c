"""Fewer bytes for the same picture, and never more on the line than it carries.

Textual 8.2 sends a changed region from the left edge of its widget on, repaints the whole screen
(17 to 32 KB) when the focus moves, and gives each piece of text all of its colours and a reset.
`Painter` remembers what the terminal shows (`Frame`), has it scroll what only moved, and sends else
only the cells that differ.

What Textual writes is buffered by the system, SSH and the network, out of sight: a key held on a
slow line must not leave seconds of lag. So the terminal is asked where its cursor is: when the
answer comes, everything before the question has arrived. Until then only a window of bytes may
follow (`Pacing`); a frame that must wait is not queued but dropped, and what changed meanwhile goes
out as one frame when the answer comes. A terminal that does not answer gets no more than a slow
line would carry, as long as no frame has to wait longer than a moment.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TypeAlias

from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from textual import events
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.app import App
from textual.message_pump import MessagePump
from textual.screen import Screen

from fa_tui.terminal.abilities import Terminal
from fa_tui.terminal.frame import Frame, Piece


def after(seconds: float, pump: MessagePump, callback: Callable[[], object]) -> asyncio.TimerHandle:
    """Call back from a message pump's own queue; dropped only if it has closed, or what is returned
    is cancelled.

    Textual drops the callback of a one-shot timer where more than the delay passes between two of
    its looks at the clock, as on a machine that is busy: what waits for it, such as the next step
    of a slider, would wait for good.

    Args:
        seconds: the delay.
        pump: a widget, a screen or the App.
        callback: a function or coroutine function.
    """
    return asyncio.get_running_loop().call_later(seconds, pump.call_next, callback)


ASK = "\x1b[6n"
"""Asks for the cursor position; answered by every terminal and by tmux."""

_WINDOW = 1024
"""Bytes that may be under way where answers come at once; where they take their time, one frame
may."""
_ASK_EVERY = 512
_SLOW_SECONDS = 0.1
"""An answer that takes longer comes over a slow line, or a long one."""
LOST_SECONDS = 5.0
"""After this an answer is taken as lost."""
_MUTE_RATE = 3000
"""Bytes per second for a terminal that does not answer."""
_MUTE_SECONDS = 1.0
"""The longest that a frame waits for such a terminal."""


class Pacing:
    """How much of what was sent is known to have arrived.

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
        """Whether an answer is under way that is likely to come."""
        return self._answers and bool(self._asked)

    def wait(self, now: float) -> float:
        """Seconds after which another frame may go out, if no answer comes before; 0 for at once.

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
        """Account for `count` bytes; whether to ask at their end."""
        self._since_question += count
        self._mute_until = now + min(_MUTE_SECONDS, count / _MUTE_RATE)
        # also while an answer is under way: what no question follows would never be known to have
        # arrived
        if not count or (self._since_question < _ASK_EVERY and not self._slow):
            return False
        self._asked.append((now, self._since_question))
        self._since_question = 0
        return True

    def answered(self, now: float) -> None:
        """The terminal has everything up to the oldest question."""
        self._answers = True
        if self._asked:
            asked, _ = self._asked.popleft()
            self._slow = now - asked > _SLOW_SECONDS


_Update: TypeAlias = ChopsUpdate | LayoutUpdate

_FAREWELL_SECONDS = 1.0
_SETTLE_SECONDS = 0.05
"""A window being dragged changes its size every few milliseconds, and a layout takes two passes."""
_LOOK_SECONDS = 0.015
"""How often a screen that is laid out is looked at: it is ready when twice nothing was left to
do."""
_HELD_SECONDS = 1.0
"""It is painted after that at the latest."""
_DRAG_SECONDS = 0.2
"""How often it is painted all the same."""


class Painter:
    """Sends the terminal only the cells that changed, as fast as the line takes them.

    Args:
        app: whose screens are painted.
        terminal: what it can do.

    Attributes:
        has_painted: whether anything was shown yet.
    """

    def __init__(self, app: App[int], terminal: Terminal) -> None:
        self._app, self._terminal = app, terminal
        self.has_painted = False
        self._pacing = Pacing()
        self._frame: Frame | None = None
        # runs while a frame waits for the line or for the size to settle
        self._owed: asyncio.TimerHandle | None = None
        self._dragged_since: float | None = None
        self._settled_at = 0.0
        self._held_until = 0.0
        self._idle_looks = 0
        # weakly: a screen that was left, and all runs that it shows, are freed
        self._on_top: weakref.ref[Screen[object]] | None = None
        self._leaving: Callable[[], None] | None = None

    def notice(self, event: events.Event) -> None:
        """Take in another size, or that an answer of the terminal has come."""
        if isinstance(event, events.Resize):
            self._resized(time.monotonic())
            # after a resize, or back from the shell, the terminal shows anything
            self._frame = None
        elif isinstance(event, events.CursorPosition):
            self._pacing.answered(time.monotonic())
            self._pay()

    def hold(self) -> None:
        """Let the screen be filled and laid out before it is painted: half of it would be sent
        twice."""
        if not self._held_until:
            after(_LOOK_SECONDS, self._app, self._look)
        self._held_until, self._idle_looks = time.monotonic() + _HELD_SECONDS, 0

    def leave(self, leave: Callable[[], None]) -> None:
        """Leave once the answer under way has come: later it would be typed into the shell."""
        if self._pacing.expects_answer:
            self._leaving = leave
            after(_FAREWELL_SECONDS, self._app, leave)
        else:
            leave()

    def update(self, renderable: RenderableType | None) -> RenderableType | None:
        """What to display for it now; None while a frame has to wait."""
        if not isinstance(renderable, _Update) or self._app.is_inline:
            return renderable
        if self._leaving is not None:
            # no more questions
            return None
        now, screen = time.monotonic(), self._app.screen
        if self._on_top is not None and screen is not self._on_top() and self.has_painted:
            self.hold()
        self._on_top = weakref.ref(screen)
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
            can = self._terminal
            self._frame = Frame(
                size.width, size.height, colours, scrolls=can.scrolls, erases=can.erases
            )
            if not (isinstance(update, LayoutUpdate) and update.region.size == size):
                # what this update leaves out is not known to be there
                app.screen.call_next(app.screen.refresh)
        pieces = _chops(update) if isinstance(update, ChopsUpdate) else _lines(update)
        text = self._frame.show(list(pieces))
        if self._pacing.sent(len(text), time.monotonic()):
            return text + ASK
        return text

    def _look(self) -> None:
        """Paint a screen that was held once it and its widgets have no message left to handle."""
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
        """Send what changed while a frame had to wait; leave, if that waited for an answer."""
        if self._leaving is not None:
            if not self._pacing.expects_answer:
                self._leaving()
        elif self._owed is not None:
            self._owed.cancel()
            self._owed = None
            # an app that closes has no screen any more
            for screen in self._app.screen_stack[-1:]:
                screen.refresh()


class _FrameUpdate(CompositorUpdate):
    """An update of the compositor, encoded against the frame at the moment it is sent."""

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
