"""How far a training command is within its epoch: it writes a small file, who started it looks there."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

STEP_FILE = "FA_TUI_STEPS"
"""Environment variable that names the file to a training command."""

_SECONDS = 0.2
"""The file is written at most so often: batches may take a millisecond."""


class Steps(msgspec.Struct, frozen=True):
    """Where a training command stands.

    Attributes:
        run: the run's name.
        epoch: the epoch being trained, from 1.
        step: batches done in it.
        steps: batches per epoch.
    """

    run: str
    epoch: int
    step: int
    steps: int

    def part_of_epoch(self, epochs_done: int) -> float:
        """The share [0, 1] of the next epoch that is done; 0 where this tells of another epoch."""
        return min(1.0, self.step / self.steps) if self.steps and self.epoch == epochs_done + 1 else 0.0


class StepFile:
    """Writes where a command stands, for whoever asked for it; for nobody, nothing.

    Args:
        path: the file; None: what the environment names.
        clock: seconds (tests bring their own).
    """

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        named = os.environ.get(STEP_FILE)
        self._path = path or (Path(named) if named else None)
        self._clock = clock
        self._next = clock()

    def note(self, steps: Steps) -> None:
        """The command stands there now; a file that cannot be written must not stop it."""
        if self._path is None or self._clock() < self._next:
            return
        self._next = self._clock() + _SECONDS
        with contextlib.suppress(OSError):
            beside = self._path.with_name(f"{self._path.name}.new")
            beside.write_bytes(msgspec.json.encode(steps))
            beside.replace(self._path)


def read_steps(path: Path) -> Steps | None:
    """What the file says; None where there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Steps)
    except (OSError, msgspec.DecodeError):
        return None
