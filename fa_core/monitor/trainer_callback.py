"""The protocol as a callback of transformers' Trainer.

Needs ``pip install 'transformers>=4.46' 'accelerate>=1.1'``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fa_core.errors import missing_package
from fa_core.monitor import Watching

try:
    import transformers
except ImportError:
    raise missing_package("transformers", "ProtocolTrainerCallback") from None


class ProtocolTrainerCallback(Watching, transformers.TrainerCallback):
    """Measures at the end of every epoch, or every `every_n_steps` optimizer steps.

        watch = ProtocolTrainerCallback(eval_batches, taps=["bert.embeddings",
        "bert.encoder.layer.*"]) Trainer(..., callbacks=[watch])

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
        self, eval_batches: Sequence[Any], *, every_n_steps: int | None = None, **options: Any
    ) -> None:
        super().__init__(eval_batches, **options)
        self._every_n_steps = every_n_steps

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
    ) -> None:
        self.begin(model, self._every_n_steps or 1)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._every_n_steps is not None:
            control.should_training_stop |= self.step()[1]

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._every_n_steps is None:
            control.should_training_stop |= self.step()[1]
