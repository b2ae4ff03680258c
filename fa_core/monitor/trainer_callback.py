"""The protocol as a callback of transformers' Trainer.

Needs ``pip install 'transformers>=4.46' 'accelerate>=1.1'``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from fa_core.errors import missing_package
from fa_core.formats.trace import EPOCH, STEP
from fa_core.monitor import MonitorCallback, scalars

try:
    import transformers
except ImportError:
    raise missing_package("transformers", "ProtocolTrainerCallback") from None


class ProtocolTrainerCallback(MonitorCallback, transformers.TrainerCallback):
    """Measures at the end of every epoch, or every `every_n_steps` optimizer steps.

    The numbers stand in the Trainer's own log (``trainer.state.log_history``), under the names of
    `fa_core.monitor.scalars`. Of several ranks one measures.

        callback = ProtocolTrainerCallback(
            eval_batches, taps=["bert.embeddings", "bert.encoder.layer.*"]
        )
        Trainer(..., callbacks=[callback])

    Args:
        eval_batches: (x, y) pairs; x is the network's first argument.
        every_n_steps: optimizer steps between measurements; None = every epoch.
        options: ``network``: the Trainer's model → the network to measure; None = the model itself.
            ``stop_on``: letters of diagnostics that stop the Trainer when they fire. The others are
            options of `ProtocolMonitor`; most networks need ``taps``.

    Attributes:
        monitor: the `ProtocolMonitor`, from the start of training on.
    """

    def __init__(
        self,
        eval_batches: Sequence[object],
        *,
        every_n_steps: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(eval_batches, **options)
        self._every_n_steps = every_n_steps

    def on_train_begin(
        self,
        args: object,
        state: object,
        control: transformers.TrainerControl,
        model: nn.Module | None = None,
        **_: object,
    ) -> None:
        assert model is not None
        unit = EPOCH if self._every_n_steps is None else STEP
        self.begin(model, self._every_n_steps or 1, unit)

    def on_step_end(
        self,
        args: object,
        state: transformers.TrainerState,
        control: transformers.TrainerControl,
        **_: object,
    ) -> None:
        if self._every_n_steps is not None:
            control.should_training_stop |= self._measured(state)

    def on_epoch_end(
        self,
        args: object,
        state: transformers.TrainerState,
        control: transformers.TrainerControl,
        **_: object,
    ) -> None:
        if self._every_n_steps is None:
            control.should_training_stop |= self._measured(state)

    def _measured(self, state: transformers.TrainerState) -> bool:
        """Count a step and log what was measured; whether the training is to stop."""
        report = self.step()
        if report is not None:
            place = {"epoch": state.epoch, "step": state.global_step}
            state.log_history.append({**scalars(report), **place})
        return self.stops(report)
