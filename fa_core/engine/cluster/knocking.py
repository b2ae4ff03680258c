"""Which nodes are there at this moment: Ray goes on calling one alive for some 20 s after it died."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

KNOCK = 1.0
"""Seconds that a node may take to accept a connection; the kernel does so even of one that is frozen."""

AT_A_TIME = 32
"""Nodes knocked at together."""

Door = tuple[str, int]
"""Address and port of a node's raylet."""


def answering(doors: Sequence[Door]) -> list[bool]:
    """Of each node whether it accepts a connection."""
    return [error is None for error in _knock(doors)]


def refusing(doors: Sequence[Door]) -> list[bool]:
    """Of each node whether it is gone for certain: its machine says that nobody listens there any more."""
    return [isinstance(error, ConnectionRefusedError) for error in _knock(doors)]


def _knock(doors: Sequence[Door]) -> list[OSError | None]:
    if not doors:
        return []
    with ThreadPoolExecutor(min(AT_A_TIME, len(doors))) as knocking:
        return list(knocking.map(_error, doors))


def _error(door: Door) -> OSError | None:
    try:
        socket.create_connection(door, timeout=KNOCK).close()
    except OSError as error:
        return error
    return None
