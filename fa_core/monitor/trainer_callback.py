"""The protocol as a callback of transformers' Trainer.

Needs ``pip install 'transformers>=4.46' 'accelerate>=1.1'``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from fa_core.errors import missing_package
from fa_core.monitor import ProtocolMonitor
from fa_core.option_values import diagnostic_letters

try:
    import transformers
except ImportError:
    raise missing_package("transformers", "ProtocolTrainerCallback") from None


class ProtocolTrainerCallback(transformers.TrainerCallback):
    """Measures at the end of every epoch, or every `every_n_steps` optimizer steps.

        watch = ProtocolTrainerCallback(eval_batches, taps=["bert.embeddings", "bert.encoder.layer.*"])
        Trainer(..., callbacks=[watch])

    Args:
        eval_batches: (x, y) pairs: x is what the network takes as its first argument.
        network: the Trainer's model → the network to measure; None = the model itself.
        every_n_steps: optimizer steps between measurements; None = every epoch.
        stop_on: letters of diagnostics that stop the Trainer when they fire.
        options: further arguments of `ProtocolMonitor`; ``taps`` for most networks.

    Attributes:
        monitor: the `ProtocolMonitor`, from the start of training on.
    """

    def __init__(
        self,
        eval_batches: Sequence[Any],
        *,
        network: Callable[[nn.Module], nn.Module] | None = None,
        every_n_steps: int | None = None,
        stop_on: str = "",
        **options: Any,
    ) -> None:
        self.monitor: ProtocolMonitor | None = None
        self._batches, self._every_n_steps, self._options = eval_batches, every_n_steps, options
        self._network = network or (lambda model: model)
        self._stop_on = diagnostic_letters(stop_on, "stop_on")

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        every = self._every_n_steps or 1
        self.monitor = ProtocolMonitor(self._network(model), self._batches, every=every, **self._options)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._every_n_steps is not None:
            self._step(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._every_n_steps is None:
            self._step(control)

    def _step(self, control: Any) -> None:
        assert self.monitor is not None
        report = self.monitor.step()
        if report is not None and report.flags & self._stop_on:
            control.should_training_stop = True
