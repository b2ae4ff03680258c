"""How far the jobs are, in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fa_core.engine import JobView


def progress_line(jobs: Sequence[JobView], name: Callable[[str], str]) -> list[tuple[str, str]]:
    """How far the jobs are, as pieces of one line; nothing once all are done and none failed."""
    states = Counter(view.state.value for view in jobs)
    pieces: list[tuple[str, str]] = []
    running = [view for view in jobs if view.state.value == "running"]
    if running:
        first = running[0]
        done = f"{first.done}/{first.total}" if first.total else "starting"
        pieces.append((f"measuring {name(first.job.id)} {done}", "accent"))
        if len(running) > 1:
            pieces.append((f" and {len(running) - 1} more", "accent"))
    if states["queued"]:
        pieces.append((f"{', ' if pieces else ''}{states['queued']} queued", "dim"))
    if pieces and states["done"]:
        pieces.append((f", {states['done']} done", "dim"))
    if states["failed"]:
        pieces.append((f"{', ' if pieces else ''}{states['failed']} failed (J)", "bad"))
    return pieces
