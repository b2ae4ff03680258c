"""The protocol as a Lightning callback (needs ``pip install 'lightning>=2.4'``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fa_core.errors import missing_package
from fa_core.formats.trace import EPOCH
from fa_core.monitor import MonitorCallback, scalars

try:
    import lightning.pytorch as pl
except ImportError:
    raise missing_package("lightning", "ProtocolCallback") from None


class ProtocolCallback(MonitorCallback, pl.Callback):
    """Measures at the end of every `every_n_epochs`-th training epoch.

    The numbers are logged under the names of `fa_core.monitor.scalars`: ``fa/growth``,
    ``fa/g_L``, ``fa/drift``, …

        Trainer(callbacks=[ProtocolCallback(eval_batches, network=lambda module: module.net,
        stop_on="ab")])

    Args:
        eval_batches: (x, y) pairs, the same at every measurement.
        every_n_epochs: epochs between measurements.
        options: ``network``: LightningModule → the network to measure; None = the module itself.
            ``stop_on``: letters of diagnostics that stop the trainer when they fire. The others are
            options of `ProtocolMonitor`.

    Attributes:
        monitor: the `ProtocolMonitor`, from the start of `fit` on.
    """

    def __init__(
        self,
        eval_batches: Sequence[object],
        *,
        every_n_epochs: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(eval_batches, **options)
        self._every = every_n_epochs

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.begin(pl_module, self._every, EPOCH)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        report = self.step()
        if report is not None:
            pl_module.log_dict(scalars(report), rank_zero_only=True)
        trainer.should_stop |= self.stops(report)
