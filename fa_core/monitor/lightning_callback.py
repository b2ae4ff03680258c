"""The protocol as a Lightning callback (needs ``pip install 'lightning>=2.4'``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from fa_core.errors import missing_package
from fa_core.monitor import ProtocolMonitor, scalars
from fa_core.option_values import diagnostic_letters

try:
    import lightning.pytorch as pl
except ImportError:
    raise missing_package("lightning", "ProtocolCallback") from None


class ProtocolCallback(pl.Callback):
    """Measures at the end of every `every_n_epochs`-th training epoch.

    What was measured is logged under the names of `fa_core.monitor.scalars`: ``fa/growth``, ``fa/g_L``, ``fa/drift``, …

        Trainer(callbacks=[ProtocolCallback(eval_batches, network=lambda module: module.net, stop_on="ab")])

    Args:
        eval_batches: (x, y) pairs, the same at every measurement.
        network: LightningModule → the network to measure; None = the module itself.
        every_n_epochs: epochs between measurements.
        stop_on: letters of diagnostics that stop the trainer when they fire.
        options: further arguments of `ProtocolMonitor`.

    Attributes:
        monitor: the `ProtocolMonitor`, from the start of `fit` on.
    """

    def __init__(
        self,
        eval_batches: Sequence[Any],
        *,
        network: Callable[[pl.LightningModule], nn.Module] | None = None,
        every_n_epochs: int = 1,
        stop_on: str = "",
        **options: Any,
    ) -> None:
        super().__init__()
        self.monitor: ProtocolMonitor | None = None
        self._batches, self._every, self._options = eval_batches, every_n_epochs, options
        self._network = network or (lambda module: module)
        self._stop_on = diagnostic_letters(stop_on, "stop_on")

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        network = self._network(pl_module)
        self.monitor = ProtocolMonitor(network, self._batches, every=self._every, **self._options)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert self.monitor is not None
        report = self.monitor.step()
        if report is None:
            return
        pl_module.log_dict(scalars(report), rank_zero_only=True)
        if report.flags & self._stop_on:
            trainer.should_stop = True
