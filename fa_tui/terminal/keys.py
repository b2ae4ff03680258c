"""Keys in the order they were typed, each where the one before it led.

A terminal hands over several keys at once when the user types ahead, when a script types, or when
the line is slow. Textual forwards each to what has the focus at that moment: of ``a5⏎`` the matrix
would get the ``5`` and the ``⏎``, because ``a`` has not moved the focus yet. Here a key waits until
the one before it is done.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice

from textual import events
from textual.app import App
from textual.keys import _character_to_key
from textual.message_pump import MessagePump
from textual.screen import ModalScreen

from fa_tui.terminal.painting import after

_LOOK_AGAIN_SECONDS = 0.005
_PATIENCE_SECONDS = 0.5
"""So long a key waits for what the one before began; a defect there must not cost the keyboard."""

_LEAVING = frozenset(("ctrl+c", "ctrl+q"))
_MOST_AHEAD = 5000
"""Keys that wait; more than these are a paste into something that takes no text, and are
dropped."""

DIALOGS = "dialog"
"""The group of workers that ask something: keys typed after the one that began it are the
answer."""


class KeyQueue:
    """Hands an App one key after another. Screens may report with `takes_keys` that they are not
    ready yet.

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

    async def take(self, key: events.Key) -> None:
        """Handle a key now, or when the one before it is done."""
        if key.is_forwarded:
            # no widget took it: its binding runs here
            await self._forward(key)
            self._key_done(key)
            return
        if key.key in _LEAVING:
            # as a terminal does: what was typed before it is not done any more
            self._typed_ahead.clear()
        await self._take_all([key])

    async def take_text(self, text: str) -> None:
        """Handle many characters that came at once."""
        keys = []
        for character in text:
            keys.append(events.Key(_character_to_key(character), character))
        await self._take_all(keys)

    async def _take_all(self, keys: Sequence[events.Key]) -> None:
        room = max(0, _MOST_AHEAD - len(self._typed_ahead))
        self._typed_ahead.extend(keys[:room])
        if len(keys) > room:
            self._app.bell()
        if self._under_way is None or self._under_way._stop_propagation:
            self._under_way = None
            self._waiting_since = time.monotonic()
            await self._next_key()
        elif len(self._typed_ahead) == len(keys):
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
            # once: what takes longer, such as writing a file, must not slow every key down
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
        """Put all characters that come next into a line at once; whether there were several, and it
        is one."""
        # after the first paint
        from textual.widgets import Input

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
        """Whether what the last key began is on screen."""
        screen = self._app.screen
        if not screen.is_mounted or not getattr(screen, "takes_keys", True):
            return False
        if isinstance(screen, ModalScreen):
            # where something can be typed, the focus goes there
            return screen.focused is not None or not screen.focus_chain
        for worker in self._app.workers:
            if worker.group == DIALOGS and not worker.is_finished:
                return False
        return True

    def _follow_key(self, node: MessagePump, key: events.Key) -> None:
        """Notice when a node, or one above it, has taken the key: this question follows it in each
        queue."""
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
