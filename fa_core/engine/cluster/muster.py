"""What the client is told of the nodes: how many jobs they can run, who is gone, that none can measure."""

from __future__ import annotations

import time
from collections.abc import Callable

from fa_core.engine.cluster.address import how_to_join
from fa_core.engine.cluster.nodes import Nodes
from fa_core.engine.cluster.wire import Capacity, FromDriver, Waiting, Word

PLACED_WITHIN = 30.0
"""Seconds after which runs that no node has begun are said to wait: starting a process takes some, too."""


class Muster:
    """Looks at the nodes when told to, and says each thing once.

    Args:
        nodes: the cluster's nodes.
        address: where the cluster is, for those that are to join it.
        send: writes to the client.
    """

    def __init__(self, nodes: Nodes, address: str, send: Callable[[FromDriver], None]) -> None:
        self._nodes, self._address, self._send = nodes, address, send
        self._slots: int | None = None
        self._waiting = ""
        self._placed = time.monotonic()

    async def look(self, runs: int) -> list[str]:
        """Tell what has changed since the last look.

        Args:
            runs: how many are not over.

        Returns:
            The nodes that are gone since then.
        """
        await self._nodes.knock_at_suspects()
        slots = self._nodes.slots()
        if slots != self._slots:
            self._slots = slots
            self._send(Capacity(slots))
        departed = self._nodes.departed()
        for node_id in departed:
            self._send(Word(self._farewell(node_id, slots)))
            self._waiting = ""  # one that came and went between two looks leaves its runs waiting anew
        self._tell_waiting(self._why_waiting(slots) if runs else "", slots)
        if self._nodes.at_work() or not runs:
            self._placed = time.monotonic()
        return departed

    def _farewell(self, node_id: str, slots: int) -> str:
        gone, runs = f"node {self._nodes.name(node_id)} is gone", self._nodes.runs_on(node_id)
        if not runs:
            return gone
        become = ("is" if runs == 1 else "are") + " measured elsewhere" if slots else "must be measured elsewhere"
        return f"{gone}; its {count_words(runs, 'run')} {become}"

    def _why_waiting(self, slots: int) -> str:
        if not slots:
            return (
                f"no node of the cluster has a {self._nodes.place} to measure on; waiting for one to join "
                f"({how_to_join(self._address)}; Ctrl-C ends, and what is measured is kept)"
            )
        if self._nodes.at_work() or time.monotonic() - self._placed < PLACED_WITHIN or self._nodes.free():
            return ""
        return f"every {self._nodes.place} of the cluster is taken; waiting for one to be free"

    def _tell_waiting(self, why: str, slots: int) -> None:
        if why == self._waiting:
            return
        self._waiting = why
        self._send(Waiting(why))
        if not why and slots:
            self._send(Word(f"going on: {count_words(slots, self._nodes.place)} to measure on"))


def count_words(count: int, word: str) -> str:
    """A number of things.

    >>> count_words(1, "node"), count_words(2, "GPU")
    ('1 node', '2 GPUs')
    """
    return f"{count} {word}{'' if count == 1 else 's'}"
