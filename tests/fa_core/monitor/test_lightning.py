"""The Lightning callback, in the real Trainer."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

pl = pytest.importorskip("lightning.pytorch")

from fa_core import diagnose  # noqa: E402
from fa_core.formats import scan  # noqa: E402
from fa_core.monitor.lightning_callback import ProtocolCallback  # noqa: E402
from fa_core.zoo.models import build  # noqa: E402
from tests.fa_core.monitor.same import same_numbers  # noqa: E402


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = build("resmlp", input_dim=6, d=8, L=2, seed=0, num_classes=3)

    def training_step(self, batch, index):
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def validation_step(self, batch, index):
        self.log("test_acc", 0.99)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def samples():
    generator = torch.Generator().manual_seed(1)
    return TensorDataset(
        torch.randn(128, 6, generator=generator), torch.randint(3, (128,), generator=generator)
    )


def fit(
    module,
    samples,
    callback,
    epochs,
    folder,
    logger=False,
):
    trainer = pl.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=[callback],
        logger=logger,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    loader = DataLoader(samples, batch_size=16)
    trainer.fit(module, loader, loader if logger else None)
    return trainer


pytestmark = pytest.mark.filterwarnings("ignore")


def test_stops_the_trainer_when_a_chosen_diagnostic_fires(samples, tmp_path):
    module = Classifier()
    module.net.get_submodule("blocks.1.w2").weight.data.mul_(1e6)
    batches = [(x, y) for x, y in DataLoader(samples, batch_size=16)]
    callback = ProtocolCallback(batches, network=lambda module: module.net, stop_on="a")
    trainer = fit(module, samples, callback, 5, tmp_path)
    assert trainer.current_epoch == 1


def test_measures_every_epoch_and_lightnings_log_is_read_as_it_was_measured(samples, tmp_path):
    batches = [(x, y) for x, y in DataLoader(samples, batch_size=16)]
    callback = ProtocolCallback(batches, network=lambda module: module.net, frozen_baseline_acc=0.9)
    logger = pl.loggers.CSVLogger(tmp_path, name="dfa_s1", version="")
    module = Classifier()
    fit(module, samples, callback, 2, tmp_path, logger)
    final = diagnose(module.net, batches, frozen_baseline_acc=0.9)
    assert callback.monitor.reports[-1] == final
    (trace,) = scan([tmp_path]).traces
    assert [epoch.epoch for epoch in trace.epochs] == [0, 1]
    assert any("logged, not used" in note and "test_acc" in note for note in trace.notes)
    for epoch, measured in zip(trace.epochs, callback.monitor.reports, strict=True):
        same_numbers(epoch.report(), measured)
