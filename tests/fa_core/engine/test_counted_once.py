"""Samples that the diagnostics run count for the accuracy, too, and nothing else about it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from fa_core.data import eval_batches, eval_order, load_data
from fa_core.engine import loading
from fa_core.engine.jobs import Job, MeasureOptions
from fa_core.engine.loading import Plan, evaluation
from fa_core.engine.measuring import measure_run
from fa_core.measure.accuracy import accuracy
from fa_core.models import StreamNet, build
from fa_core.report import DiagnosticReport

from .runs_for_tests import small_net

torch.set_num_threads(1)
MORE = "synthetic:input=192,train=16,test=1700"
NETS = {
    "resmlp": {"input_dim": 192, "d": 16, "L": 3},
    "smallcnn": {"image": 8, "width": 8, "d": 16},
    "vit_mini": {"d": 16, "image": 8},
}


class Silent:
    def update(self, done: int, total: int) -> None: ...

    def note(self, text: str) -> None: ...


def measured(path: Path, **options: Any) -> DiagnosticReport:
    job = Job(
        id="1",
        checkpoint=str(path),
        options=MeasureOptions(data=options.pop("data", MORE), **options),
    )
    return measure_run(job, "cpu", Silent())


def saved(net: StreamNet, folder: Path) -> Path:
    save_file(net.state_dict(), folder / "net.safetensors", {"method": "bp"})
    return folder / "net.safetensors"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many samples each forward pass had."""
    passes: list[int] = []
    real = loading.network_for

    def network_for(*args: Any, **kwargs: Any) -> nn.Module:
        network = real(*args, **kwargs)
        network.register_forward_pre_hook(lambda module, inputs: passes.append(len(inputs[0])))
        return network

    monkeypatch.setattr(loading, "network_for", network_for)
    return passes


@pytest.mark.parametrize(
    ("arch", "kind"),
    [
        ("vit_mini", "as built"),
        ("resmlp", "all near ties"),
        ("smallcnn", "diverged"),
        ("resmlp", "half"),
    ],
)
def test_the_accuracy_is_that_of_the_whole_test_part(tmp_path: Path, arch: str, kind: str) -> None:
    net = build(arch, **NETS[arch], seed=1).train()
    data = load_data(MORE)
    for x in data.test_x[:256].split(64):
        net(x)  # BatchNorm's averages
    with torch.no_grad():
        if kind == "all near ties":
            net.head.weight.mul_(1e-6)
            net.head.bias.zero_()
        if kind == "diverged":
            net.head.weight[3] = torch.nan
    if kind == "half":
        net.half()
    report = measured(saved(net, tmp_path))
    assert report.headline_acc == accuracy(net, [(data.test_x, data.test_y)])
    assert report.headline_acc_source == "measured on 1700 test samples"
    if kind != "diverged":
        assert 0 < report.headline_acc < 1


def test_a_sample_of_the_eval_batches_is_run_once(tmp_path: Path, seen: list[int]) -> None:
    measured(saved(build("resmlp", **NETS["resmlp"], seed=1), tmp_path))
    assert seen == [420] + 10 * [128]


def test_where_all_samples_are_in_the_batches_nothing_else_is_run(
    tmp_path: Path, seen: list[int]
) -> None:
    report = measured(saved(small_net(), tmp_path), data="synthetic:input=8,train=16,test=1280")
    assert seen == 10 * [128]
    assert 0 < (report.headline_acc or 0) < 1


@pytest.mark.parametrize(
    "options", [{"dtype": "as-is"}, {"model": f"{__name__}:wide_net"}], ids=["as-is", "model"]
)
def test_a_network_that_may_answer_otherwise_is_run_on_the_whole_test_part(
    tmp_path: Path, seen: list[int], options: dict[str, str]
) -> None:
    measured(saved(wide_net(), tmp_path), **options)
    assert seen == [1000, 700] + 10 * [128]


def wide_net() -> StreamNet:
    return build("resmlp", **NETS["resmlp"], seed=1)


@pytest.mark.parametrize(
    "test, batches, size", [(1700, 10, 128), (100, 10, 128), (300, 10, 128), (256, 2, 128)]
)
def test_the_first_test_samples_are_those_of_the_batches(
    test: int, batches: int, size: int
) -> None:
    spec = f"synthetic:input=4,train=16,test={test}"
    samples, data = evaluation(Plan(spec, False, batches, size, 7), "cpu"), load_data(spec)
    expected = eval_batches(data, batches, size, seed=7)
    assert len(samples.batches) == len(expected)
    for found, wanted in zip(samples.batches, expected, strict=True):
        assert all(map(torch.equal, found, wanted))
    in_batches: Tensor = torch.cat([x for x, _ in expected])
    assert torch.equal(samples.test_x[: samples.batched], in_batches)
    order, _ = eval_order(test, batches, size, seed=7)
    assert sorted(order.tolist()) == list(range(test))
    assert torch.equal(samples.test_y, data.test_y[order])
