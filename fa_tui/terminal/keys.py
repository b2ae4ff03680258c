"""Keys in the order they were typed, each where the one before it led.

A terminal hands over several keys at once when the user types ahead, when a script types, or when the line is
slow. Textual forwards each to what has the focus at that moment: of ``a5⏎`` the matrix would get the ``5`` and
the ``⏎``, because ``a`` has not moved the focus yet. Here a key waits until the one before it is done.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

from textual import events
from textual.app import App
from textual.message_pump import MessagePump
from textual.screen import ModalScreen

from fa_tui.terminal.painting import after

_LOOK_AGAIN_SECONDS = 0.005
_PATIENCE_SECONDS = 0.5
"""So long a key waits for what the one before began; a defect there must not cost the keyboard."""
_ANSWER_SECONDS = 20.0
"""So long it waits for a question that is sure to come: its answer must not become commands."""

DIALOGS = "dialog"
"""The group of workers that ask something: keys typed after the one that began it are the answer."""


class KeyQueue:
    """Hands an App one key after another. Screens may report with `takes_keys` that they are not ready yet.

    Args:
        app: the App.
        forward: how the App handles an event.
    """

    def __init__(self, app: App[int], forward: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app, self._forward = app, forward
        self._typed_ahead: deque[events.Key] = deque()
        self._under_way: events.Key | None = None
        self._waiting_since = 0.0
        self._waited_enough = False
        self._asks_more = False

    @contextmanager
    def asking_more(self) -> Iterator[None]:
        """Between two questions of a dialog: the keys typed meanwhile answer the second."""
        self._asks_more = True
        try:
            yield
        finally:
            self._asks_more = False

    async def take(self, key: events.Key) -> None:
        """Handle a key now, or when the one before it is done."""
        if key.is_forwarded:
            # no widget took it: its binding runs here
            await self._forward(key)
            self._key_done(key)
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
        if self._settled:
            self._waited_enough = False
        elif not self._waited_enough:
            # once: what takes longer, such as writing a file, must not slow every key down
            patience = _ANSWER_SECONDS if self._asks_more else _PATIENCE_SECONDS
            self._waited_enough = time.monotonic() - self._waiting_since > patience
            after(_LOOK_AGAIN_SECONDS, self._app, self._next_key)
            return
        key = self._under_way = self._typed_ahead.popleft()
        target = self._target
        await self._forward(key)
        if not key.is_forwarded:
            self._key_done(key)
        elif self._typed_ahead:
            self._follow_key(target, key)

    @property
    def _settled(self) -> bool:
        """Whether what the last key began is on screen."""
        screen = self._app.screen
        if not screen.is_mounted or not getattr(screen, "takes_keys", True):
            return False
        if isinstance(screen, ModalScreen):
            # where something can be typed, the focus goes there
            return screen.focused is not None or not screen.focus_chain
        return not any(worker.group == DIALOGS and not worker.is_finished for worker in self._app.workers)

    def _follow_key(self, node: MessagePump, key: events.Key) -> None:
        """Notice when a node, or one above it, has taken the key: this question follows it in each queue."""
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
                # behind what the key asked for, such as another focus
                self._app.call_later(self._next_key)
