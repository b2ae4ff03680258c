"""Callbacks after a delay, once for many requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.message_pump import MessagePump


def after(seconds: float, pump: MessagePump, callback: Callable[[], object]) -> asyncio.TimerHandle:
    """Call back from a message pump's queue after a delay, unless the pump closes or the returned
    handle is cancelled.

    Textual drops the callback of a one-shot timer if more than the delay passes between two
    readings of the clock, as on a busy machine; a waiting slider step would be lost.

    Args:
        seconds: the delay.
        pump: a widget, a screen or the App.
        callback: a function or coroutine function.
    """
    return asyncio.get_running_loop().call_later(seconds, pump.call_next, callback)


class Later:
    """A callback that is called once after a delay, however often it is asked for meanwhile.

    Args:
        pump: calls back.
        callback: a function or coroutine function.
        seconds: the delay; by default a turn of the event loop, so that held keys queue no work.
    """

    def __init__(
        self, pump: MessagePump, callback: Callable[[], object], seconds: float = 0.001
    ) -> None:
        self._pump, self._callback, self._seconds = pump, callback, seconds
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> None:
        """Ask for it; the delay counts from the first request."""
        if self._timer is None:
            self._timer = after(self._seconds, self._pump, self._call)

    def cancel(self) -> None:
        """Take the request back."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    @property
    def is_due(self) -> bool:
        """Whether it will be called."""
        return self._timer is not None

    def _call(self) -> object:
        self._timer = None
        return self._callback()
