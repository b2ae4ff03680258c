"""`ProtocolMonitor`: the four diagnostics during training, in any training loop.

    monitor = ProtocolMonitor(model, eval_batches, every=390, on_fire=print)
    for x, y in loader:
        ...
        monitor.step()

A function gets the numbers under the names of `scalars`, for a logger: ``to=lambda numbers, step:
wandb.log({**numbers, "fa/step": step})``.

docs/howto shows it in a callback of Lightning and of transformers' Trainer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

from torch import nn

from fa_core.errors import UsageError
from fa_core.files.decode import Json
from fa_core.formats.trace import EPOCH, STEP, trace_entry, write_trace
from fa_core.measure.diagnose import diagnose
from fa_core.option_values import check_known
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import DIAGNOSTICS
from fa_core.report.quantities import QUANTITIES


def scalars(report: DiagnosticReport) -> dict[str, float]:
    """The measured numbers of a report, by their names in a log.

    ``fa/acc``, ``fa/frozen_acc``, ``fa/growth``, ``fa/h_L``, ``fa/g_L``, ``fa/drift``; ‖h_l‖ and
    ‖g_l‖ as ``fa/h_0``, ``fa/g_0``, …

    `fa_core.formats` reads a log with these names back exactly.
    """
    found = {each.logged: each.recorded(report) for each in QUANTITIES if each.logged}
    for layer, norm in enumerate(report.residual_norms):
        found[f"h_{layer}"] = norm
    for layer, norm in enumerate(report.bp_grad_norms):
        found[f"g_{layer}"] = norm
    return {f"fa/{name}": value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Firing:
    """Diagnostics that fire now and did not at the measurement before.

    Attributes:
        step: steps so far.
        letters: the diagnostics, e.g. ``"ab"``.
        report: the measurement.
    """

    step: int
    letters: str
    report: DiagnosticReport

    def __str__(self) -> str:
        fired = "; ".join(f"({letter}) {DIAGNOSTICS[letter].phrase}" for letter in self.letters)
        return f"step {self.step}: {fired}"


class ProtocolMonitor:
    """Measures a network during training, and reports when a diagnostic starts to fire.

    One measurement is a forward and an activation-backward pass over the eval batches: ten batches
    of 128 cost under 2 % of an epoch of 50,000 samples. The network, its gradients and modes and
    the random generators are restored, so the training is the same as without a monitor.

    Args:
        model: the network; see `fa_core.diagnose` for what can be tapped.
        eval_batches: (x, y) pairs, the same at every measurement.
        every: measure on every `every`-th `step`.
        on_fire: called with a `Firing` when a diagnostic starts to fire.
        to: a function of numbers by name and step, e.g. one that logs them.
        trace: trace file to write, for `fa-tui timeline` and the explorer; None = no file.
        unit: what `step` counts, and the trace is numbered by: ``"step"`` or ``"epoch"``.
        measure: further options of `fa_core.diagnose`: ``taps``, ``thresholds``,
            ``frozen_baseline_acc``, ``norm_batches``, ``dtype``, ...

    Attributes:
        reports: every report so far.
        first_fired: letter → the first step at which it fired.

    Raises:
        UsageError: `every` below 1, another unit, or an unknown option.
    """

    def __init__(
        self,
        model: nn.Module,
        eval_batches: Sequence[object],
        *,
        every: int = 1,
        on_fire: Callable[[Firing], object] | None = None,
        to: Callable[[Mapping[str, float], int], object] | None = None,
        trace: str | Path | None = None,
        unit: str = STEP,
        **measure: Any,
    ) -> None:
        if every < 1:
            raise UsageError(
                f"every is {every}", hint="give the number of steps between measurements, 1 or more"
            )
        check_known("unit", str(unit), (EPOCH, STEP))
        known = [*signature(diagnose).parameters][2:]
        # at the start, not at the first measurement
        for name in measure:
            check_known("option", name, known)
        self.reports: list[DiagnosticReport] = []
        self.first_fired: dict[str, int] = {}
        self._model = model
        self._batches = eval_batches
        self._every = every
        self._on_fire = on_fire
        self._measure = measure
        self._trace = trace
        self._send = to
        self._unit = unit
        self._entries: list[Json] = []
        self._steps = 0
        self._fired: frozenset[str] = frozenset()

    def step(self, **logged: object) -> DiagnosticReport | None:
        """Count one step of the loop; measure on every `every`-th.

        Args:
            logged: further numbers for the trace, e.g. ``loss=float(loss)``.

        Returns:
            The report, or None between measurements.
        """
        self._steps += 1
        if self._steps % self._every == 0:
            return self.measure(**logged)
        return None

    def measure(self, **logged: object) -> DiagnosticReport:
        """Measure now.

        Raises:
            TapError, MeasureError: as `fa_core.diagnose`.
        """
        start = time.perf_counter()
        report = diagnose(self._model, self._batches, **self._measure)
        seconds = time.perf_counter() - start
        self.reports.append(report)
        if self._trace is not None:
            # `measure` may be called without `step`
            number = self._steps or len(self.reports)
            self._entries.append(trace_entry(number, report, seconds, unit=self._unit, **logged))
            write_trace(Path(self._trace), self._entries)
        if self._send is not None:
            self._send(scalars(report), self._steps)
        new = "".join(sorted(report.flags - self._fired))
        self._fired = report.flags
        for letter in new:
            self.first_fired.setdefault(letter, self._steps)
        if new and self._on_fire is not None:
            self._on_fire(Firing(self._steps, new, report))
        return report
