"""The monitor in a plain loop: what it measures, tells, keeps, and leaves alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fa_core import DiagnosticThresholds, diagnose
from fa_core.errors import UsageError
from fa_core.formats import scan
from fa_core.models import build
from fa_core.monitor import Firing, ProtocolMonitor


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


def train(net: nn.Module, steps: int, monitor: ProtocolMonitor | None = None) -> torch.Tensor:
    torch.manual_seed(3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        loss = F.cross_entropy(net(torch.randn(16, 6)), torch.randint(3, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if monitor is not None:
            monitor.step(loss=float(loss.detach()))
    return torch.cat([p.detach().flatten() for p in net.parameters()])


def test_measures_on_every_nth_step_only(net, batches) -> None:
    monitor = ProtocolMonitor(net, batches, every=3)
    measured = [monitor.step() is not None for _ in range(7)]
    assert measured == [False, False, True, False, False, True, False]


def test_reports_what_diagnose_reports(net, batches) -> None:
    report = ProtocolMonitor(net, batches, norm_batches=2).measure()
    assert report == diagnose(net, batches, norm_batches=2)


def test_training_goes_on_as_it_would_have_without_it(batches) -> None:
    watched, alone = (
        build("resmlp", input_dim=6, d=8, L=2, seed=0, num_classes=3) for _ in range(2)
    )
    assert torch.equal(
        train(watched, 6, ProtocolMonitor(watched, batches, every=2)), train(alone, 6)
    )


def test_tells_once_when_a_diagnostic_starts_to_fire(net, batches) -> None:
    firings: list[Firing] = []
    monitor = ProtocolMonitor(net, batches, on_fire=firings.append)
    monitor.step()
    net.get_submodule("blocks.1.w2").weight.data.mul_(1e6)
    monitor.step()
    monitor.step()
    assert [(firing.step, "a" in firing.letters) for firing in firings] == [(2, True)]
    assert monitor.first_fired["a"] == 2
    assert str(firings[0]).startswith("step 2: (a) residual stream exploded")


def test_judges_by_the_thresholds_it_was_given(net, batches) -> None:
    fired: list[Firing] = []
    everything = DiagnosticThresholds(h_norm_explosion_ratio=0.0)
    ProtocolMonitor(net, batches, thresholds=everything, on_fire=fired.append).step()
    assert "a" in fired[0].letters


def test_keeps_a_trace_that_the_timeline_reads(net, batches, tmp_path: Path) -> None:
    path = tmp_path / "watched_s7.jsonl"
    monitor = ProtocolMonitor(net, batches, every=2, trace=path)
    train(net, 4, monitor)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [2, 4]
    assert not any("epoch" in line for line in lines)
    assert all(line["loss"] > 0 for line in lines)
    (trace,) = scan([path]).traces
    assert trace.unit == "step"
    assert [epoch.residual_norms for epoch in trace.epochs] == [
        report.residual_norms for report in monitor.reports
    ]


def test_an_interval_below_one_step_is_refused(net, batches) -> None:
    with pytest.raises(UsageError, match="every is 0"):
        ProtocolMonitor(net, batches, every=0)


def test_a_loop_that_counts_epochs_writes_epochs(net, batches, tmp_path: Path) -> None:
    path = tmp_path / "watched_s7.jsonl"
    monitor = ProtocolMonitor(net, batches, trace=path, unit="epoch")
    monitor.step()
    monitor.step()
    (trace,) = scan([path]).traces
    assert (trace.unit, [epoch.epoch for epoch in trace.epochs]) == ("epoch", [1, 2])
    with pytest.raises(UsageError, match="unknown unit 'batch'"):
        ProtocolMonitor(net, batches, unit="batch")
