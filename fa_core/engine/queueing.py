"""The order in which jobs are measured, and which of them a worker gets at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

HORIZON = 1024
"""How far into the queue one looks for jobs that go together."""

MOST_TOGETHER = 64
"""Jobs that a GPU's worker is given at most: it splits them by its memory."""

LEAST_TOGETHER = 8
"""Jobs that are worth a group: a smaller share of the queue is not made smaller still."""


def most_together(device: str, group: int | None) -> int:
    """How many jobs a worker of this device takes at a time: what the person said, else 1 except on CUDA.

    On a CPU one network after the other is faster than several at once, and takes less memory.

    >>> most_together("cpu", None), most_together("cuda:0", None), most_together("cpu", 16)
    (1, 64, 16)
    """
    if group is not None:
        return group
    return MOST_TOGETHER if device.startswith("cuda") else 1


def share(queued: int, takers: int, most: int) -> int:
    """How many of the queued jobs the next taker gets.

    Alone, as many as it takes; beside others, half of a fair share, so that shares shrink towards the end and work
    moves when one device is slow.

    >>> [share(queued, 2, 64) for queued in (400, 256, 100, 20, 15, 3, 1)]
    [64, 64, 25, 8, 8, 2, 1]
    """
    if takers < 2:
        return most
    fair = -(-queued // takers)
    return min(most, max(-(-fair // 2), min(LEAST_TOGETHER, fair)))


class JobQueue:
    """Ids of jobs in order. Whoever holds one does the locking."""

    def __init__(self) -> None:
        self._order: dict[str, None] = {}
        self._likeness: dict[str, str | None] = {}
        self._alone: set[str] = set()
        self._meant_for: dict[str, object] = {}
        self._by_hand = False

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[str]:
        return iter(self._order)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._order

    def append(self, job_id: str) -> None:
        """Put a job at the end."""
        self._order[job_id] = None

    def put_first(self, job_ids: Iterable[str], alone: bool) -> None:
        """Put jobs back in front of all others; ``alone``: each is given out with no other beside it."""
        ids = list(job_ids)
        self._order = {**dict.fromkeys(ids), **self._order}
        if alone:
            self._alone.update(ids)

    def remove(self, job_id: str) -> None:
        """Take a job out."""
        del self._order[job_id]
        self._likeness.pop(job_id, None)
        self._alone.discard(job_id)
        self._meant_for.pop(job_id, None)
        if not self._order:
            self._by_hand = False

    def move(self, job_id: str, position: int) -> None:
        """Put a job at this place; from now on the order is the person's, until the queue is empty."""
        ids = [other for other in self._order if other != job_id]
        ids.insert(max(0, position), job_id)
        self._order = dict.fromkeys(ids)
        self._meant_for.clear()
        self._by_hand = True

    def unknown(self) -> list[str]:
        """Jobs within the horizon whose likeness nobody has looked up."""
        return [job_id for job_id in self._nearest() if job_id not in self._likeness]

    def learn(self, job_id: str, likeness: str | None) -> None:
        """Keep a job's likeness (see `fa_core.engine.likeness`)."""
        if job_id in self._order:
            self._likeness[job_id] = likeness

    def take(self, taker: object, most: int, takers: int) -> tuple[list[str], list[str]]:
        """The jobs that a taker gets now, taken out, and those it will probably get next, left in.

        The most numerous of a kind go first; where the person has moved a job, the order is theirs and only
        neighbours go together. What another taker will probably get next is left to it while there is other work.

        Args:
            taker: who asks.
            most: how many jobs it takes at a time.
            takers: how many takers there are.
        """
        now = self._choose(taker, share(len(self._order), takers, most))
        alone = bool(now) and now[0] in self._alone
        for job_id in now:
            self.remove(job_id)
        ahead = [] if alone else self._choose(taker, share(len(self._order), takers, most), others=False)
        if ahead and ahead[0] in self._alone:
            ahead = []
        self._meant_for.update(dict.fromkeys(ahead, taker))
        return now, ahead

    def _choose(self, taker: object, size: int, others: bool = True) -> list[str]:
        """Jobs that go together; ``others``: rather one that is meant for another taker than none."""
        nearest = self._nearest()
        open_to = [job_id for job_id in nearest if self._meant_for.get(job_id, taker) is taker]
        if not open_to and others:
            open_to, size = nearest[::-1], 1
        if not open_to:
            return []
        first = open_to[0]
        if size < 2 or first in self._alone:
            return [first]
        kind = self._likeness.get(first)
        if self._by_hand:
            return _leading(open_to, [self._kind(job_id) == kind is not None for job_id in open_to])[:size] or [first]
        kind, count = Counter(map(self._kind, open_to)).most_common(1)[0]
        if kind is None or count < 2:
            return [first]
        return [job_id for job_id in open_to if self._kind(job_id) == kind][:size]

    def _kind(self, job_id: str) -> str | None:
        return None if job_id in self._alone else self._likeness.get(job_id)

    def _nearest(self) -> list[str]:
        return [job_id for job_id, _ in zip(self._order, range(HORIZON), strict=False)]


def _leading(ids: list[str], alike: list[bool]) -> list[str]:
    return ids[: next((place for place, same in enumerate(alike) if not same), len(ids))]
