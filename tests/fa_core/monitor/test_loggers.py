"""Where the monitor's numbers go, and that a log of them is read back."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from fa_core.errors import UsageError
from fa_core.formats import scan
from fa_core.models import build
from fa_core.monitor import ProtocolMonitor, scalars
from tests.fa_core.formats import logs
from tests.fa_core.monitor.same import same_numbers

NAMES = [
    "acc",
    "frozen_acc",
    "growth",
    "h_L",
    "g_L",
    "drift",
    "h_0",
    "h_1",
    "h_2",
    "g_0",
    "g_1",
    "g_2",
]


@pytest.fixture
def net() -> nn.Module:
    return build("resmlp", input_dim=6, d=8, L=2, seed=0, num_classes=3)


@pytest.fixture
def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(16, 6, generator=generator), torch.randint(3, (16,), generator=generator))
        for _ in range(8)
    ]


def fake(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    module = ModuleType(name)
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


def test_a_function_gets_the_numbers_by_name_and_the_step(net, batches) -> None:
    sent: list[tuple[dict[str, float], int]] = []
    monitor = ProtocolMonitor(
        net,
        batches,
        every=2,
        to=lambda numbers, step: sent.append((dict(numbers), step)),
        frozen_baseline_acc=0.3,
    )
    for _ in range(4):
        monitor.step()
    assert [step for _, step in sent] == [2, 4]
    assert list(sent[0][0]) == [f"fa/{name}" for name in NAMES]
    assert sent[1][0] == scalars(monitor.reports[1])


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_logger_keeps_the_step_of_its_own_run(net, batches, monkeypatch, name) -> None:
    logged: list[dict[str, float]] = []
    fake(monkeypatch, name, log=logged.append)
    monitor = ProtocolMonitor(net, batches, every=3, to=name)
    for _ in range(3):
        monitor.step()
    assert logged == [{**scalars(monitor.reports[0]), "fa/step": 3}]


def test_tensorboard_gets_a_scalar_per_number_and_is_flushed(net, batches, monkeypatch) -> None:
    calls: list[tuple[Any, ...]] = []

    class SummaryWriter:
        def add_scalar(self, tag: str, value: float, step: int) -> None:
            calls.append((tag, value, step))

        def flush(self) -> None:
            calls.append(("flush",))

    fake(monkeypatch, "torch.utils.tensorboard", SummaryWriter=SummaryWriter)
    monitor = ProtocolMonitor(net, batches, to="tensorboard")
    monitor.step()
    assert calls == [
        *((tag, value, 1) for tag, value in scalars(monitor.reports[0]).items()),
        ("flush",),
    ]


@pytest.mark.parametrize(
    ("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")]
)
def test_a_logger_that_is_not_installed_is_named_before_training(
    net, batches, monkeypatch, name, module
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        UsageError, match=rf"needs {name}, which is not installed; pip install '{name}>="
    ):
        ProtocolMonitor(net, batches, to=name)


def test_an_unknown_logger_is_refused(net, batches) -> None:
    with pytest.raises(UsageError, match="'aim'"):
        ProtocolMonitor(net, batches, to="aim")


def test_what_was_sent_is_read_back_exactly_as_it_was_measured_beside_other_numbers(
    net, batches, tmp_path
) -> None:
    """A foreign accuracy that lies on the other side of the baseline, and a logger that counts its own steps."""
    rows: list[dict[str, float]] = []
    events: dict[int, dict[str, float]] = {}

    def send(numbers: Any, step: int) -> None:
        foreign = {"val_acc": 0.99, "growth": 1e6, "h_L": 1e9}
        rows.append({"step": len(rows), "epoch": 0, **foreign, **numbers, "fa/step": step})
        events[step] = {**foreign, **numbers}

    monitor = ProtocolMonitor(net, batches, every=16, to=send, frozen_baseline_acc=0.9)
    for _ in range(16):
        monitor.step()
    rows.append({"step": 1, "val_acc": 0.99})
    logs.put(tmp_path / "lines_s1.jsonl", "\n".join(map(json.dumps, rows)) + "\n")
    table = [",".join(rows[0]), ",".join(map(str, rows[0].values()))]
    logs.put(tmp_path / "table_s1.csv", "\n".join(table) + "\n")
    logs.events(tmp_path / "events_s1" / "events.out.tfevents.1", events)
    traces = scan([tmp_path]).traces
    assert len(traces) == 3
    for trace in traces:
        assert [epoch.epoch for epoch in trace.epochs] == [16]
        same_numbers(trace.epochs[0].report(), monitor.reports[0])


def test_mlflow_gets_the_numbers_at_their_step(
    monkeypatch: pytest.MonkeyPatch, net: nn.Module, batches: Any
) -> None:
    logged: list[tuple[dict[str, float], int]] = []
    fake(monkeypatch, "mlflow", log_metrics=lambda numbers, step: logged.append((numbers, step)))
    report = ProtocolMonitor(net, batches, to="mlflow").measure()
    assert logged == [(scalars(report), 0)]
