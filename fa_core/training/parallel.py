"""Training on several devices: a child process per device, a run at a time each.

The child runs this module too. It ends when its stdin closes, or with SIGTERM after its last write.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any

import msgspec
import torch

from fa_core.children import start_python
from fa_core.data import load_data
from fa_core.engine.messages import decode, encode, private_stdout
from fa_core.errors import FaError
from fa_core.facts.controls import FROZEN
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.training.plan import RunPlan
from fa_core.training.train import EpochProgress, train_run

_LEAVE_SECONDS = 20.0
"""How long a process that is stopped may take to finish its last write."""

_HINT = "complete epochs are kept; add --resume to go on"


class Train(msgspec.Struct, frozen=True, kw_only=True):
    """To a child: train this run, with the arguments of `train_run`."""

    plan: RunPlan
    folder: str
    resume: bool = False
    overwrite: bool = False
    stop_on: str = ""
    thresholds: DiagnosticThresholds | None = None


class Over(msgspec.Struct, frozen=True, tag_field="is"):
    """From a child: its run is finished, in words, or could not be trained."""

    words: str
    failed: bool = False


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
        self._devices, self._threads = devices, threads
        self._out, self._options = out, options
        self._todo: queue.Queue[RunPlan] = queue.Queue()
        self._said: queue.Queue[EpochProgress | Over] = queue.Queue()
        self.children: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> TrainingProcesses:
        for device in self._devices:
            child = start_python(
                __name__,
                device,
                str(self._threads or 0),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # Ctrl-C reaches every process of a terminal: this one stops the others
                own_session=True,
            )
            self.children.append(child)
            threading.Thread(target=self._serve, args=(child, device), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.children:
            child.terminate()
        for child in self.children:
            try:
                child.wait(_LEAVE_SECONDS)
            except subprocess.TimeoutExpired:  # noqa: PERF203 (a few processes)
                child.kill()

    def train(
        self, plans: Sequence[RunPlan], on_progress: Callable[[EpochProgress], None]
    ) -> Iterator[str]:
        """Train runs; each in words as it is finished.

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

    def _next(self, on_progress: Callable[[EpochProgress], None]) -> str:
        """The next run that is finished, in words."""
        while isinstance(message := self._said.get(), EpochProgress):
            on_progress(message)
        if message.failed:
            raise FaError(message.words)
        return message.words

    def _serve(self, child: subprocess.Popen[bytes], device: str) -> None:
        """Hand runs to a child, and pass on what it says until it is gone."""
        assert child.stdin is not None and child.stdout is not None
        while child.poll() is None:
            plan = self._todo.get()
            order = Train(plan=plan, folder=str(self._out / plan.name), **self._options)
            with suppress(OSError):
                child.stdin.write(encode(order))
                child.stdin.flush()
            for line in child.stdout:
                message = decode(line, EpochProgress | Over)
                self._said.put(message)
                if isinstance(message, Over):
                    break
            else:
                what = f"the training process on {device} died (exit code {child.wait()})"
                self._said.put(Over(f"{what}; {_HINT}", failed=True))


def main() -> None:
    """Train the runs that stdin orders; arguments: device, CPU threads (0 = PyTorch's number)."""
    signal.signal(signal.SIGTERM, _stop)
    device, threads = sys.argv[1], int(sys.argv[2])
    if threads:
        torch.set_num_threads(threads)
    said = private_stdout()

    def say(message: EpochProgress | Over) -> None:
        said.write(encode(message))
        said.flush()

    orders: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, orders), daemon=True).start()
    loaded = None
    with suppress(KeyboardInterrupt):
        while True:
            order = decode(orders.get(), Train)
            try:
                if loaded is None:
                    loaded = load_data(order.plan.data, allow_code=True).to(torch.device(device))
                given = {name: getattr(order, name) for name in Train.__struct_fields__[2:]}
                done = train_run(
                    order.plan,
                    loaded,
                    Path(order.folder),
                    device=device,
                    on_progress=say,
                    **given,
                )
            except Exception as error:
                say(Over(f"{order.plan.name}: {error}", failed=True))
            else:
                say(Over(done.words))


def _listen(stdin: IO[bytes], orders: queue.SimpleQueue[bytes]) -> None:
    """Take orders until the parent is gone, which stops this process like SIGTERM."""
    for line in stdin:
        orders.put(line)
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
