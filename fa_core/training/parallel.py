"""Training on several devices: a process per device, a run at a time each."""

from __future__ import annotations

import multiprocessing
import queue
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import torch

from fa_core.data import load_data
from fa_core.errors import FaError
from fa_core.facts.controls import FROZEN
from fa_core.training.plan import RunPlan
from fa_core.training.train import EpochProgress, Trained, train_run

_LOOK_SECONDS = 1.0
"""How often to look whether a process died without a word."""

_LEAVE_SECONDS = 20.0
"""How long a process that is stopped may take to finish its last write."""


class Failure(NamedTuple):
    """Why a run could not be trained."""

    what: str


Message = EpochProgress | Trained | Failure


class TrainingProcesses:
    """Processes that train runs, one per device; a context manager.

    Args:
        devices: the device of each process; the same one may be named several times.
        out: folder of the run folders.
        threads: CPU threads of each process; None = PyTorch's own number.
        options: further arguments of `train_run`.
    """

    def __init__(
        self, devices: Sequence[str], out: Path, threads: int | None, options: Mapping[str, Any]
    ) -> None:
        # not fork: CUDA does not survive it
        context = multiprocessing.get_context("spawn")
        self._todo: Queue[RunPlan | None] = context.Queue()
        self._messages: Queue[Message] = context.Queue()
        self._processes: dict[BaseProcess, str] = {}
        for device in devices:
            given = (self._todo, self._messages, out, device, threads, dict(options))
            self._processes[context.Process(target=work, args=given, daemon=True)] = device

    def __enter__(self) -> TrainingProcesses:
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(_LEAVE_SECONDS)

    def train(
        self, plans: Sequence[RunPlan], on_progress: Callable[[EpochProgress], None]
    ) -> Iterator[Trained]:
        """Train runs; each as it is finished.

        Frozen runs come first, all of them: they are the baseline of the others' (d).

        Raises:
            FaError: a run that cannot be trained, or a process that died.
        """
        frozen = [plan for plan in plans if plan.method == FROZEN]
        others = [plan for plan in plans if plan.method != FROZEN]
        for wave in (frozen, others):
            for plan in wave:
                self._todo.put(plan)
            for _ in wave:
                yield self._next(on_progress)

    def _next(self, on_progress: Callable[[EpochProgress], None]) -> Trained:
        """The next run that is finished."""
        while True:
            try:
                message = self._messages.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                self._check()
                continue
            if isinstance(message, Trained):
                return message
            if isinstance(message, Failure):
                raise FaError(message.what)
            on_progress(message)

    def _check(self) -> None:
        """Notice a process that died.

        Raises:
            FaError: one did.
        """
        for process, device in self._processes.items():
            if process.exitcode:
                what = f"the training process on {device} died (exit code {process.exitcode})"
                raise FaError(what, hint="complete epochs are kept; add --resume to go on")


def work(
    todo: Queue[RunPlan | None],
    messages: Queue[Message],
    out: Path,
    device: str,
    threads: int | None,
    options: Mapping[str, Any],
) -> None:
    """Train runs until this process is stopped: the body of a process."""
    signal.signal(signal.SIGTERM, _stop)
    # Ctrl-C reaches every process of a terminal: the one that started this one stops it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if threads is not None:
        torch.set_num_threads(threads)
    target = torch.device(device)
    loaded = None
    try:
        while (plan := todo.get()) is not None:
            folder = out / plan.name
            try:
                if loaded is None:
                    loaded = load_data(plan.data, allow_code=True).to(target)
                done = train_run(
                    plan, loaded, folder, device=target, on_progress=messages.put, **options
                )
            except Exception as error:
                messages.put(Failure(f"{plan.name}: {error}"))
            else:
                messages.put(done)
    except KeyboardInterrupt:
        pass


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
