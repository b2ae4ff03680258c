"""Waiting for a state instead of for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot

_PATIENCE = 120.0
"""Seconds after which a condition is given up: a worker that imports torch on a busy machine takes its time."""


async def until(pilot: Pilot[Any], condition: Callable[[], bool]) -> None:
    """Let the app run until the condition holds.

    Raises:
        AssertionError: it did not for very long.
    """
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        await pilot.pause(0.005)
