"""The Trainer callback, in transformers' real Trainer."""

import pytest
import torch

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from fa_core import DiagnosticThresholds  # noqa: E402
from fa_core.formats import scan  # noqa: E402
from fa_core.monitor.trainer_callback import ProtocolTrainerCallback  # noqa: E402
from tests.fa_core.monitor.same import same_numbers  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

TAPS = ["bert.embeddings", "bert.encoder.layer.*"]


@pytest.fixture
def bert():
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
        num_labels=3,
    )
    return transformers.BertForSequenceClassification(config)


@pytest.fixture
def sentences():
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(20, (64, 5), generator=generator)
    labels = torch.randint(3, (64,), generator=generator)
    return [{"input_ids": i, "labels": y} for i, y in zip(ids, labels, strict=True)]


def batches_of(sentences, size=8):
    ids = torch.stack([one["input_ids"] for one in sentences])
    labels = torch.stack([one["labels"] for one in sentences])
    return list(zip(ids.split(size), labels.split(size), strict=True))


def trainer_for(model, sentences, callback, epochs, folder):
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=epochs,
        per_device_train_batch_size=16,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        logging_strategy="no",
    )
    return transformers.Trainer(
        model=model, args=arguments, train_dataset=sentences, callbacks=[callback]
    )


def test_measures_every_nth_step_instead(bert, sentences, tmp_path):
    callback = ProtocolTrainerCallback(batches_of(sentences), taps=TAPS, every_n_steps=2)
    trainer_for(bert, sentences, callback, 1, tmp_path).train()
    assert len(callback.monitor.reports) == 2


def test_measures_every_epoch_and_the_trainers_state_is_read_as_it_was_measured(
    bert, sentences, tmp_path
):
    callback = ProtocolTrainerCallback(
        batches_of(sentences),
        taps=TAPS,
        frozen_baseline_acc=0.9,
        to=lambda numbers, step: trainer.log({**numbers, "test_acc": 0.99}),
    )
    trainer = trainer_for(bert, sentences, callback, 2, tmp_path / "dfa_s1")
    trainer.train()
    trainer.save_state()
    assert [report.coverage for report in callback.monitor.reports] == ["abcd"] * 2
    assert trainer.state.log_history[-2]["fa/g_L"] == callback.monitor.reports[-1].g_L
    (trace,) = scan([tmp_path]).traces
    assert [epoch.epoch for epoch in trace.epochs] == [1, 2]
    for epoch, measured in zip(trace.epochs, callback.monitor.reports, strict=True):
        same_numbers(epoch.report(), measured)


def test_stops_the_trainer_when_a_chosen_diagnostic_fires(bert, sentences, tmp_path):
    always = DiagnosticThresholds(h_norm_explosion_ratio=0.0)
    callback = ProtocolTrainerCallback(
        batches_of(sentences), taps=TAPS, thresholds=always, stop_on="a"
    )
    trainer = trainer_for(bert, sentences, callback, 5, tmp_path)
    trainer.train()
    assert trainer.state.epoch == 1
