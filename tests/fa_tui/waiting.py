"""Waiting for a state instead of for a time."""

import time

_PATIENCE = 120.0
"""Seconds after which a condition is given up: a worker that imports torch on a busy machine takes its time."""


async def until(pilot, condition):
    """Let the app run until the condition holds.

    Raises:
        AssertionError: it did not for very long.
    """
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        await pilot.pause(0.005)
