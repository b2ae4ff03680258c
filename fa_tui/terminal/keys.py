"""Key queue: each key is handled after the effects of the previous one.

Several keys arrive at once when the user types ahead, a script types, or the line is slow. Textual
forwards each to the current focus: of ``a5⏎`` the matrix would get the ``5`` and the ``⏎``, because
``a`` has not moved the focus yet. Here a key waits until the previous one is done.
"""

from __future__ import annotations

import time
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import islice

from textual import events
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers import linux_driver
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import ModalScreen

from fa_tui.later import after


class Parser(XTermParser):
    """Textual's parser of what a terminal sends, which goes on behind a sequence that it fails at:
    a key of another protocol, a number out of bounds."""

    def feed(self, data: str) -> Iterable[Message]:
        for character in data or [data]:
            try:
                yield from super().feed(character)
            except (ArithmeticError, ValueError):  # noqa: PERF203 (its characters are few)
                # of a size without pixels: the mouse is in cells
                self.terminal_pixel_size = None
                self._gen = self.parse(self._tokens.append)
                self._awaiting = next(self._gen)


# its own decoder raises at a byte that is no UTF-8, as a Latin-1 terminal sends, and all ends
vars(linux_driver)["getincrementaldecoder"] = lambda encoding: partial(
    getincrementaldecoder(encoding), "replace"
)
vars(linux_driver)["XTermParser"] = Parser

_LOOK_AGAIN_SECONDS = 0.005
_PATIENCE_SECONDS = 0.5
"""Maximum seconds a key waits for the previous one, so that a defect does not block the
keyboard."""

_LEAVING = frozenset(("ctrl+c", "ctrl+q"))
_MOST_AHEAD = 5000
"""Maximum of waiting keys; more are a paste without a text field, and are dropped."""

DIALOGS = "dialog"
"""Group of workers that open dialogs; later keys are their answer."""


class KeyQueue:
    """Forwards keys to an App one by one. A screen's `takes_keys` is False while it is not ready.

    Args:
        app: the App.
        forward: the App's handler of events.
    """

    def __init__(self, app: App[int], forward: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app, self._forward = app, forward
        self._typed_ahead: deque[events.Key] = deque()
        self._under_way: events.Key | None = None
        self._waiting_since = 0.0
        self._waited_enough = False

    async def take(self, key: events.Key) -> None:
        """Handle a key now, or after the previous one."""
        if key.is_forwarded:
            # no widget handled it: run its binding
            await self._forward(key)
            self._key_done(key)
            return
        if key.key in _LEAVING:
            # as in a terminal, Ctrl+C drops earlier keys
            self._typed_ahead.clear()
        if len(self._typed_ahead) >= _MOST_AHEAD:
            self._app.bell()
            return
        self._typed_ahead.append(key)
        if self._under_way is None or self._under_way._stop_propagation:
            self._under_way = None
            self._waiting_since = time.monotonic()
            await self._next_key()
        elif len(self._typed_ahead) == 1:
            self._follow_key(self._target, self._under_way)
            after(_PATIENCE_SECONDS, self._app, partial(self._key_done, self._under_way))

    @property
    def _target(self) -> MessagePump:
        return self._app.focused or self._app.screen

    async def _next_key(self) -> None:
        if self._under_way is not None or not self._typed_ahead:
            return
        if not self._app.screen_stack:
            return  # the app is closing
        if self._settled:
            self._waited_enough = False
        elif not self._waited_enough:
            # once: slow work, e.g. writing a file, must not delay every key
            self._waited_enough = time.monotonic() - self._waiting_since > _PATIENCE_SECONDS
            after(_LOOK_AGAIN_SECONDS, self._app, self._next_key)
            return
        target = self._target
        if len(self._typed_ahead) > 1 and self._type_into(target):
            self._app.call_later(self._next_key)
            return
        key = self._under_way = self._typed_ahead.popleft()
        await self._forward(key)
        if not key.is_forwarded:
            self._key_done(key)
        elif self._typed_ahead:
            self._follow_key(target, key)

    def _type_into(self, entry: MessagePump) -> bool:
        """Insert all leading characters into a focused text field at once; False if there is no
        field, or only one character."""
        from textual.widgets import Input  # after the first paint

        if not isinstance(entry, Input):
            return False
        ahead = self._typed_ahead
        text = ""
        for key in ahead:
            if not key.is_printable:
                break
            text += key.character or ""
        if len(text) < 2:
            return False
        self._typed_ahead = deque(islice(ahead, len(text), None))
        entry.replace(text, *entry.selection)
        return True

    @property
    def _settled(self) -> bool:
        """Whether the effects of the last key are on screen."""
        screen = self._app.screen
        if not screen.is_mounted or not getattr(screen, "takes_keys", True):
            return False
        if isinstance(screen, ModalScreen):
            # a screen with a text field moves the focus there
            return screen.focused is not None or not screen.focus_chain
        return all(one.group != DIALOGS or one.is_finished for one in self._app.workers)

    def _follow_key(self, node: MessagePump, key: events.Key) -> None:
        """Follow the key through the queues of a node and its ancestors, until one of them has
        handled it."""
        if not node.call_later(self._key_passed, node, key):
            self._key_done(key)

    def _key_passed(self, node: MessagePump, key: events.Key) -> None:
        if key._stop_propagation or node._parent is None:
            self._key_done(key)
        elif not isinstance(node._parent, App):
            self._follow_key(node._parent, key)

    def _key_done(self, key: events.Key) -> None:
        if key is self._under_way:
            self._under_way = None
            self._waiting_since = time.monotonic()
            if self._typed_ahead:
                # after the key's effects, e.g. another focus
                self._app.call_later(self._next_key)
