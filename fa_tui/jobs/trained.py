"""How far a run folder is that a command trains: what its manifest and its trace say."""

from __future__ import annotations

import json
from pathlib import Path

from fa_core.errors import FaError
from fa_core.runs import MANIFEST, read_manifest
from fa_tui.jobs.step_file import Steps


def epochs_of(run: Path, since: float) -> tuple[int, int] | None:
    """Complete epochs of a run and how many it will have; None if it has not begun (after a time)."""
    try:
        if (run / MANIFEST).stat().st_mtime < since:
            return None
        manifest = read_manifest(run)
    except (OSError, FaError):
        return None
    epochs = int(manifest.recipe.get("epochs", 0))
    return epochs if manifest.stopped else manifest.epochs_done, epochs


def last_words(trace: Path, now: Steps | None) -> str:
    """The epoch in training, else the last one of a growing trace, and the last accuracy, in words."""
    from fa_core.engine.process import log_tail

    words = "" if now is None else f": epoch {now.epoch}, batch {now.step}/{now.steps}"
    lines = log_tail(trace, 1)
    try:
        last = json.loads(lines[-1]) if lines else {}
        epoch = words or f": epoch {last['epoch']}"
        return f"{epoch}, accuracy {last['test_acc']:.4f}"
    except (ValueError, KeyError, TypeError):
        return words
