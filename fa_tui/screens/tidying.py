"""Memory given back a moment after much was done with many runs."""

from __future__ import annotations

from textual.message_pump import MessagePump

from fa_tui.session import Session

_MANY = 10_000
"""Runs from which it is worth it."""
_PAUSE_SECONDS = 0.4
"""Behind the frame that shows what was done, and the next key of a word that is typed."""


def tidy_soon(node: MessagePump, session: Session) -> None:
    """Give back what was freed, a moment later.

    Args:
        node: what lives on until then.
        session: the runs.
    """
    if len(session) >= _MANY:
        # from its own queue: a timer set by a screen that closes would keep that screen
        node.call_later(node.set_timer, _PAUSE_SECONDS, _tidy)


def _tidy() -> None:
    from fa_core.heap import give_back

    give_back(cycles=True)
