"""Never more on the line than it carries: a key held on a slow line must not leave seconds of lag.

What Textual writes is buffered by the system, SSH and the network, out of sight. So the terminal is asked
where its cursor is: when the answer comes, everything before the question has arrived. Until then only a
window of bytes may follow; a frame that must wait is not queued but dropped, and what changed meanwhile
goes out as one frame when the answer comes.
"""

from __future__ import annotations

from collections import deque

ASK = "\x1b[6n"
"""Asks for the cursor position; answered by every terminal and by tmux."""

_WINDOW = 1024
"""Bytes that may be under way: a third of a second on a line of 3 KB/s."""
_ASK_EVERY = 512
LOST_SECONDS = 5.0
"""After this an answer is taken as lost."""


class Pacing:
    """How much of what was sent is known to have arrived. A terminal that never answered is never waited for.

    >>> line = Pacing()
    >>> line.sent(600, now=0.0)      # asks
    True
    >>> line.answered()
    >>> line.sent(600, now=1.0), line.sent(600, now=1.1), line.may_send(now=1.2)
    (True, True, False)
    >>> line.answered()
    >>> line.may_send(now=1.3)
    True
    """

    def __init__(self) -> None:
        self._answers = False
        self._asked: deque[tuple[float, int]] = deque()
        self._since_question = 0

    @property
    def expects_answer(self) -> bool:
        """Whether an answer is under way that is likely to come."""
        return self._answers and bool(self._asked)

    def may_send(self, now: float) -> bool:
        """Whether another frame may go out; if not, an answer is under way, or is taken as lost in time.

        Args:
            now: the time in seconds.
        """
        if self._asked and now - self._asked[0][0] > LOST_SECONDS:
            self._asked.clear()
        under_way = self._since_question + sum(count for _, count in self._asked)
        return not self._answers or under_way <= _WINDOW

    def sent(self, count: int, now: float) -> bool:
        """Account for `count` bytes; whether to ask at their end."""
        self._since_question += count
        # also while an answer is under way: what no question follows would never be known to have arrived
        if self._since_question < _ASK_EVERY:
            return False
        self._asked.append((now, self._since_question))
        self._since_question = 0
        return True

    def answered(self) -> None:
        """The terminal has everything up to the oldest question."""
        self._answers = True
        if self._asked:
            self._asked.popleft()
