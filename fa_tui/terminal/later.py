"""A callback after a while that is sure to come.

Textual drops the callback of a one-shot timer where more than the delay passes between two of its looks at the clock,
as on a machine that is busy: what waits for it, such as the next step of a slider, would wait for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.message_pump import MessagePump


def after(seconds: float, pump: MessagePump, callback: Callable[[], object]) -> asyncio.TimerHandle:
    """Call back from a message pump's own queue; dropped only if it has closed, or what is returned is cancelled.

    Args:
        seconds: the delay.
        pump: a widget, a screen or the App.
        callback: a function or coroutine function.
    """
    return asyncio.get_running_loop().call_later(seconds, pump.call_next, callback)
