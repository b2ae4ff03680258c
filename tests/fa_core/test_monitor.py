"""The monitor in a plain loop: what it measures, tells, keeps, sends, and leaves alone."""

import json

import pytest
import torch
from torch.nn import functional as F

from fa_core import diagnose
from fa_core.errors import UsageError
from fa_core.formats import scan
from fa_core.monitor import ProtocolMonitor, scalars
from fa_core.zoo.models import build
from tests.fa_core.formats import logs
from tests.fa_core.measure.nets import batches as gaussian


@pytest.fixture
def net():
    return build("resmlp", input_dim=6, d=8, L=2, seed=0, num_classes=3)


@pytest.fixture
def batches():
    return gaussian(8, width=6, classes=3)


def train(net, steps, monitor=None):
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


def test_reports_what_diagnose_reports(net, batches):
    report = ProtocolMonitor(net, batches, norm_batches=2).measure()
    assert report == diagnose(net, batches, norm_batches=2)


def test_a_misspelt_option_is_refused_before_the_training(net, batches):
    with pytest.raises(UsageError, match="unknown option 'tpas'; did you mean taps"):
        ProtocolMonitor(net, batches, tpas=["0"])


def test_training_goes_on_as_it_would_have_without_it(net, batches):
    alone = build("resmlp", input_dim=6, d=8, L=2, seed=0, num_classes=3)
    assert torch.equal(train(net, 6, ProtocolMonitor(net, batches, every=2)), train(alone, 6))


def test_tells_once_when_a_diagnostic_starts_to_fire(net, batches):
    firings = []
    monitor = ProtocolMonitor(net, batches, on_fire=firings.append)
    monitor.step()
    net.get_submodule("blocks.1.w2").weight.data.mul_(1e6)
    monitor.step()
    monitor.step()
    assert [(firing.step, "a" in firing.letters) for firing in firings] == [(2, True)]
    assert monitor.first_fired["a"] == 2
    assert str(firings[0]).startswith("step 2: (a) residual stream exploded")


@pytest.mark.parametrize("unit", ["step", "epoch"])
def test_keeps_a_trace_that_the_timeline_reads(net, batches, tmp_path, unit):
    path = tmp_path / "watched_s7.jsonl"
    monitor = ProtocolMonitor(net, batches, every=2, trace=path, unit=unit)
    train(net, 5, monitor)
    (trace,) = scan([path]).traces
    assert (trace.unit, [epoch.epoch for epoch in trace.epochs]) == (unit, [2, 4])
    assert all(epoch.loss for epoch in trace.epochs)
    for epoch, report in zip(trace.epochs, monitor.reports, strict=True):
        assert (epoch.residual_norms, epoch.bp_grad_norms, epoch.test_acc) == (
            *(report.residual_norms, report.bp_grad_norms),
            report.headline_acc,
        )


def same_numbers(read, measured):
    """Loggers keep 32 bits: seven digits."""
    assert not read.evidence
    assert read.flags == measured.flags
    assert read.coverage == measured.coverage
    for letter, number in measured.numbers.items():
        assert read.numbers[letter] == pytest.approx(number, rel=1e-6), letter


def test_what_was_sent_is_read_back_exactly_as_it_was_measured_beside_other_numbers(
    net, batches, tmp_path
):
    """A foreign accuracy that lies on the other side of the baseline, and a logger that counts its own steps."""
    rows = []
    events = {}

    def send(numbers, step):
        foreign = {"test_acc": 0.99, "growth": 1e6, "h_L_norm": 1e9}
        rows.append({"step": len(rows), "epoch": 0, **foreign, **numbers, "fa/step": step})
        events[step] = {**foreign, **numbers}

    monitor = ProtocolMonitor(net, batches, every=16, to=send, frozen_baseline_acc=0.9)
    train(net, 16, monitor)
    numbers = {"acc", "frozen_acc", "growth", "h_L", "g_L", "drift"}
    layers = {f"{stream}_{layer}" for stream in "hg" for layer in range(3)}
    assert {*scalars(monitor.reports[0])} == {f"fa/{name}" for name in numbers | layers}
    rows.append({"step": 1, "test_acc": 0.99})
    logs.lines(tmp_path / "lines_s1.jsonl", *rows)
    table = [",".join(rows[0]), ",".join(map(str, rows[0].values()))]
    logs.put(tmp_path / "table_s1.csv", "\n".join(table) + "\n")
    logs.events(tmp_path / "events_s1" / "events.out.tfevents.1", events)
    state = {"global_step": 16, "log_history": rows}
    logs.put(tmp_path / "state_s1" / "trainer_state.json", json.dumps(state))
    traces = scan([tmp_path]).traces
    assert len(traces) == 4
    for trace in traces:
        assert [epoch.epoch for epoch in trace.epochs] == [16]
        same_numbers(trace.epochs[0].report(), monitor.reports[0])
