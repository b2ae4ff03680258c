"""Waiting for a state instead of for a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot

_TURNS = 1000


async def until(pilot: Pilot[Any], condition: Callable[[], bool]) -> None:
    """Let the app run until the condition holds.

    Raises:
        AssertionError: it did not within some seconds.
    """
    for _ in range(_TURNS):
        if condition():
            return
        await pilot.pause(0.005)
    raise AssertionError("the condition never held")
