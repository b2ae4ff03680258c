"""`ProtocolMonitor`: the four diagnostics every so many steps of any training loop.

    monitor = ProtocolMonitor(model, eval_batches, every=390, on_fire=print)
    for x, y in loader:
        ...
        monitor.step()

What is measured may go to TensorBoard, Weights & Biases or Trackio (``to="wandb"``), under the
names of `scalars`.

`fa_core.monitor.lightning_callback` and `fa_core.monitor.trainer_callback` do the same for
Lightning and for transformers' Trainer; each needs its library, which nothing else here does.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from fa_core.errors import UsageError, missing_package
from fa_core.judgement.diagnostics import DIAGNOSTICS, diagnostic_letters
from fa_core.measure.diagnose import diagnose
from fa_core.option_values import unknown_name
from fa_core.report import DiagnosticReport
from fa_core.trace import trace_entry, write_trace

Numbers = Mapping[str, float]

_LOGGERS = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb", "trackio": "trackio"}
"""Package → the module that is imported of it."""


def scalars(report: DiagnosticReport) -> dict[str, float]:
    """What a logger is given of a report, where it was measured.

    ``fa/acc``, ``fa/frozen_acc``, ``fa/growth``, ``fa/h_L``, ``fa/g_L``, ``fa/drift``; ‖h_l‖ and
    ‖g_l‖ as ``fa/h_0``, ``fa/g_0``, …

    A log with these names is read back with every number exact (`fa_core.formats`).
    """
    found = {
        "acc": report.headline_acc,
        "frozen_acc": report.frozen_baseline_acc,
        "growth": report.max_per_block_growth,
        "h_L": report.h_L,
        "g_L": report.g_L,
        "drift": report.cross_batch_stability,
        **{f"h_{layer}": norm for layer, norm in enumerate(report.residual_norms)},
        **{f"g_{layer}": norm for layer, norm in enumerate(report.bp_grad_norms)},
    }
    return {f"fa/{name}": value for name, value in found.items() if value is not None}


def _sender(to: str | Callable[[Numbers, int], object]) -> Callable[[Numbers, int], object]:
    """What numbers and their step are handed to.

    Raises:
        UsageError: an unknown logger, or one that is not installed.
    """
    if callable(to):
        return to
    if to not in _LOGGERS:
        raise unknown_name("logger", str(to), tuple(_LOGGERS))
    try:
        logger: Any = importlib.import_module(_LOGGERS[to])
    except ImportError:
        raise missing_package(to, f'ProtocolMonitor(to="{to}")') from None
    if to != "tensorboard":
        # with a step of its own: that of the run is the training loop's
        return lambda numbers, step: logger.log({**numbers, "fa/step": step})
    writer = logger.SummaryWriter()

    def write(numbers: Numbers, step: int) -> None:
        for name, number in numbers.items():
            writer.add_scalar(name, number, step)
        writer.flush()

    return write


@dataclass(frozen=True)
class Firing:
    """A diagnostic that did not fire before and does now.

    Attributes:
        step: after how many steps.
        letters: which, e.g. ``"ab"``.
        report: all that was measured.
    """

    step: int
    letters: str
    report: DiagnosticReport

    def __str__(self) -> str:
        fired = "; ".join(f"({letter}) {DIAGNOSTICS[letter].phrase}" for letter in self.letters)
        return f"step {self.step}: {fired}"


class ProtocolMonitor:
    """Measures a network while it is trained, and reports when a diagnostic starts to fire.

    One measurement is a forward and an activation-backward pass of the eval batches: ten batches of
    128 cost under 2 % of an epoch of 50,000 samples. The network, its gradients, modes and the
    random generators are left as they were, so training goes on as it would have without it.

    Args:
        model: the network; see `fa_core.diagnose` for what can be tapped.
        eval_batches: (x, y) pairs, the same at every measurement.
        every: measure on every `every`-th `step`.
        on_fire: called with a `Firing` when a diagnostic fires that did not at the measurement
            before.
        to: where the numbers of each measurement go: ``"tensorboard"`` (a new run in ``runs/``),
            ``"wandb"`` or ``"trackio"`` (the run that was started with their ``init``), or a
            function of numbers by name and step.
        trace: a file to keep in trace format, for `fa-tui timeline` and the explorer; None = no
            file.
        measure: further arguments of `fa_core.diagnose`: ``taps``, ``thresholds``,
            ``frozen_baseline_acc``, ``norm_batches``, ``dtype``, ...

    Attributes:
        reports: every report so far.
        first_fired: letter → the step at which it fired first.

    Raises:
        UsageError: `every` below 1, or a logger that is unknown or not installed.
    """

    def __init__(
        self,
        model: nn.Module,
        eval_batches: Sequence[Any],
        *,
        every: int = 1,
        on_fire: Callable[[Firing], object] | None = None,
        to: str | Callable[[Numbers, int], object] | None = None,
        trace: str | Path | None = None,
        **measure: Any,
    ) -> None:
        if every < 1:
            raise UsageError(
                f"every is {every}", hint="give the number of steps between measurements, 1 or more"
            )
        self.reports: list[DiagnosticReport] = []
        self.first_fired: dict[str, int] = {}
        self._model, self._batches, self._every = model, eval_batches, every
        self._on_fire, self._measure = on_fire, measure
        if trace is None:
            self._trace = None
        else:
            self._trace = Path(trace)
        if to is None:
            self._send = None
        else:
            self._send = _sender(to)
        self._entries: list[dict[str, Any]] = []
        self._steps = 0

    def step(self, **logged: Any) -> DiagnosticReport | None:
        """Count one step of the loop; measure if it is time to.

        Args:
            logged: numbers to keep in the trace, e.g. ``loss=float(loss)``.

        Returns:
            The report, or None between measurements.
        """
        self._steps += 1
        if self._steps % self._every == 0:
            return self.measure(**logged)
        return None

    def measure(self, **logged: Any) -> DiagnosticReport:
        """Measure now.

        Raises:
            TapError, MeasureError: as `fa_core.diagnose`.
        """
        start = time.perf_counter()
        report = diagnose(self._model, self._batches, **self._measure)
        took = time.perf_counter() - start
        if self.reports:
            before = self.reports[-1].flags
        else:
            before = frozenset()
        self.reports.append(report)
        if self._trace is not None:
            self._entries.append(
                trace_entry(len(self.reports), report, took, step=self._steps, **logged)
            )
            write_trace(self._trace, self._entries)
        if self._send is not None:
            self._send(scalars(report), self._steps)
        new = "".join(sorted(report.flags - before))
        for letter in new:
            self.first_fired.setdefault(letter, self._steps)
        if new and self._on_fire is not None:
            self._on_fire(Firing(self._steps, new, report))
        return report


class Watching:
    """What the callbacks for training libraries share.

    Args:
        eval_batches: (x, y) pairs, the same at every measurement.
        network: the library's model → the network to measure; None = the model itself.
        stop_on: letters of diagnostics that stop the training when they fire.
        options: further arguments of `ProtocolMonitor`.

    Attributes:
        monitor: the `ProtocolMonitor`, from the start of training on.
    """

    def __init__(
        self,
        eval_batches: Sequence[Any],
        *,
        network: Callable[[Any], nn.Module] | None = None,
        stop_on: str = "",
        **options: Any,
    ) -> None:
        self.monitor: ProtocolMonitor | None = None
        self._batches, self._network, self._options = eval_batches, network, options
        self._stop_on = diagnostic_letters(stop_on, "stop_on")

    def begin(self, model: Any, every: int) -> None:
        """Start to count steps of training this model, and measure every so many."""
        if self._network is None:
            network = model
        else:
            network = self._network(model)
        self.monitor = ProtocolMonitor(network, self._batches, every=every, **self._options)

    def step(self) -> tuple[DiagnosticReport | None, bool]:
        """Count one: the report if it was measured, and whether the training is to stop."""
        assert self.monitor is not None
        report = self.monitor.step()
        return report, report is not None and bool(report.flags & self._stop_on)
