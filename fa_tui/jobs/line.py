"""How far the jobs are, in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fa_tui.jobs.listing import Listed
from fa_tui.jobs.remaining import time_words


def progress_line(jobs: Sequence[Listed]) -> list[tuple[str, str]]:
    """How far the jobs are, as pieces of one line; nothing once all are done and none failed."""
    states = Counter(job.state for job in jobs)
    pieces: list[tuple[str, str]] = []
    running = [job for job in jobs if job.state == "running"]
    if not running:
        # between two jobs: the next one is about to start, and the line keeps its shape
        running = [job for job in jobs if job.state == "queued"][:1]
    queued = states["queued"] - sum(job.state == "queued" for job in running)
    if running:
        first = running[0]
        doing = "measuring " if first.unit == "batch" else ""
        done = f"{first.done}/{first.total}" if first.total else "starting"
        pieces.append((f"{doing}{first.name} {done}", "accent"))
        if first.left is not None:
            pieces.append((f" {time_words(first.left)} left", "dim"))
        if len(running) > 1:
            pieces.append((f" and {len(running) - 1} more", "accent"))
    if queued:
        pieces.append((f", {queued} queued", "dim"))
    if pieces and states["done"]:
        pieces.append((f", {states['done']} done", "dim"))
    if states["failed"]:
        pieces.append((f"{', ' if pieces else ''}{states['failed']} failed (J)", "bad"))
    return pieces
