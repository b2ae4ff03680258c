"""Never more on the line than it carries: a key held on a slow line must not leave seconds of lag.

What Textual writes is buffered by the system, SSH and the network, out of sight. So the terminal is asked
where its cursor is: when the answer comes, everything before the question has arrived. Until then only a
window of bytes may follow; a frame that must wait is not queued but dropped, and what changed meanwhile
goes out as one frame when the answer comes. A terminal that does not answer gets no more than a slow line
would carry, as long as no frame has to wait longer than a moment.
"""

from __future__ import annotations

from collections import deque

ASK = "\x1b[6n"
"""Asks for the cursor position; answered by every terminal and by tmux."""

_WINDOW = 1024
"""Bytes that may be under way where answers come at once; where they take their time, one frame may."""
_ASK_EVERY = 512
_SLOW_SECONDS = 0.1
"""An answer that takes longer comes over a slow line, or a long one."""
LOST_SECONDS = 5.0
"""After this an answer is taken as lost."""
_MUTE_RATE = 3000
"""Bytes per second for a terminal that does not answer."""
_MUTE_SECONDS = 1.0
"""The longest that a frame waits for such a terminal."""


class Pacing:
    """How much of what was sent is known to have arrived.

    >>> line = Pacing()
    >>> line.sent(600, now=0.0)  # asks
    True
    >>> line.wait(now=0.0)  # it has never answered: 600 bytes take a slow line so long
    0.2
    >>> line.answered(now=0.01)
    >>> line.sent(600, now=1.0), line.sent(600, now=1.02), line.wait(now=1.03) > 0
    (True, True, True)
    >>> line.answered(now=1.04)
    >>> line.wait(now=1.04)
    0.0
    """

    def __init__(self) -> None:
        self._answers = False
        self._slow = False
        self._asked: deque[tuple[float, int]] = deque()
        self._since_question = 0
        self._mute_until = 0.0

    @property
    def expects_answer(self) -> bool:
        """Whether an answer is under way that is likely to come."""
        return self._answers and bool(self._asked)

    def wait(self, now: float) -> float:
        """Seconds after which another frame may go out, if no answer comes before; 0 for at once.

        Args:
            now: the time in seconds.
        """
        if self._asked and now - self._asked[0][0] > LOST_SECONDS:
            self._asked.clear()
            self._answers = False
        if not self._answers:
            return max(0.0, self._mute_until - now)
        if self._slow:
            full = bool(self._asked)
        else:
            full = self._since_question + sum(count for _, count in self._asked) > _WINDOW
        return max(0.0, self._asked[0][0] + LOST_SECONDS - now) if full else 0.0

    def sent(self, count: int, now: float) -> bool:
        """Account for `count` bytes; whether to ask at their end."""
        self._since_question += count
        self._mute_until = now + min(_MUTE_SECONDS, count / _MUTE_RATE)
        # also while an answer is under way: what no question follows would never be known to have arrived
        if not count or (self._since_question < _ASK_EVERY and not self._slow):
            return False
        self._asked.append((now, self._since_question))
        self._since_question = 0
        return True

    def answered(self, now: float) -> None:
        """The terminal has everything up to the oldest question."""
        self._answers = True
        if self._asked:
            asked, _ = self._asked.popleft()
            self._slow = now - asked > _SLOW_SECONDS
