"""Depth without retraining: against networks taken apart by hand."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from fa_core.errors import TapError, UsageError
from fa_core.measure.depth_ablation import RIDGE, depth_ablation, probe_accuracy, probe_order
from fa_core.models import build

BATCHES, SAMPLES, CLASSES = 3, 40, 4


class Block(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.linear = nn.Linear(d, d)

    def forward(self, h: Tensor) -> Tensor:
        return h + torch.tanh(self.linear(h))


class Plain(nn.Module):
    """A stream of modules that return the states."""

    def __init__(self, d: int = 8, depth: int = 3) -> None:
        super().__init__()
        self.embed = nn.Linear(6, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(depth))
        self.head = nn.Linear(d, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


class Adding(nn.Module):
    """A network that adds ``h + block(h)`` itself."""

    def __init__(self, d: int = 8, depth: int = 3) -> None:
        super().__init__()
        self.embed = nn.Linear(6, d)
        self.blocks = nn.ModuleList(nn.Linear(d, d) for _ in range(depth))
        self.head = nn.Linear(d, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        for block in self.blocks:
            h = h + block(h)
        return self.head(h)


@pytest.fixture
def batches() -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    return [(torch.randn(SAMPLES, 6), torch.randint(CLASSES, (SAMPLES,))) for _ in range(BATCHES)]


def share(logits_of, batches) -> float:
    with torch.no_grad():
        right = [(logits_of(x).argmax(-1) == y).float() for x, y in batches]
    return float(torch.cat(right).mean())


def without(net: nn.Module, *blocks: int, instead=None):
    """The network by hand, with the identity (or another network's blocks) in some places."""

    def run(x: Tensor) -> Tensor:
        h = net.embed(x)
        for l, block in enumerate(net.blocks):
            if l in blocks:
                block = instead.blocks[l] if instead is not None else nn.Identity()
            step = block(h)
            if isinstance(net, Adding):
                h = h + step if not isinstance(block, nn.Identity) else h
            else:
                h = step
        return net.head(h)

    return run


@pytest.mark.parametrize(
    ("network", "taps"), [(Plain, ["embed", "blocks.*"]), (Adding, "blocks.*:in,head:in")]
)
def test_every_number_is_that_of_the_network_taken_apart_by_hand(network, taps, batches):
    torch.manual_seed(1)
    net, start = network(), network()
    found = depth_ablation(net, batches, taps, initial=start)
    assert found.accuracy == pytest.approx(share(without(net), batches))
    assert found.samples == BATCHES * SAMPLES
    for l in range(3):
        alone = share(without(net, l), batches)
        removed = share(without(net, *range(l, 3)), batches)
        reset = share(without(net, l, instead=start), batches)
        assert found.accuracy_without[l] == pytest.approx(alone)
        assert found.accuracy_up_to[l] == pytest.approx(removed)
        assert found.accuracy_reset[l] == pytest.approx(reset)


def test_a_built_in_network_is_run_block_by_block(batches):
    net = build("resmlp", seed=3, input_dim=6, d=8, L=3, num_classes=CLASSES)
    start = build("resmlp", seed=4, input_dim=6, d=8, L=3, num_classes=CLASSES)
    found = depth_ablation(net, batches, initial=start)

    def run(x: Tensor, blocks, other=None) -> Tensor:
        h = net.embed_input(x)
        for l in range(3):
            if l not in blocks:
                h = net.advance(l, h)
            elif other is not None:
                h = other.advance(l, h)
        return net.readout(h)

    for l in range(3):
        alone = share(partial(run, blocks=[l]), batches)
        removed = share(partial(run, blocks=range(l, 3)), batches)
        reset = share(partial(run, blocks=[l], other=start), batches)
        assert found.accuracy_without[l] == pytest.approx(alone)
        assert found.accuracy_up_to[l] == pytest.approx(removed)
        assert found.accuracy_reset[l] == pytest.approx(reset)


def test_the_network_comes_back_as_it_went_in(batches):
    net = Plain().train()
    before = copy.deepcopy(net.state_dict())
    depth_ablation(net, batches, ["embed", "blocks.*"])
    assert net.training
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert not net.blocks[0]._forward_hooks


def test_a_block_that_changes_the_shape_has_no_identity(batches):
    class Widening(Plain):
        def __init__(self) -> None:
            super().__init__(d=8, depth=1)
            self.blocks = nn.ModuleList([nn.Linear(8, 16), Block(16)])
            self.head = nn.Linear(16, CLASSES)

    found = depth_ablation(Widening(), batches, ["embed", "blocks.*"])
    assert found.accuracy_without[0] is None
    assert found.accuracy_without[1] is not None
    assert found.accuracy_up_to == [None, found.accuracy_without[1]]


def test_the_block_that_is_used_most_is_named(batches):
    net = Plain()
    with torch.no_grad():
        for l in (0, 2):
            net.blocks[l].linear.weight.zero_()
            net.blocks[l].linear.bias.zero_()
        net.blocks[1].linear.weight.mul_(20)
    labelled = [(x, net(x).argmax(-1)) for x, _ in batches]
    found = depth_ablation(net, labelled, ["embed", "blocks.*"])
    assert (found.accuracy, found.most_used) == (1.0, 1)
    assert found.accuracy_without[0] == found.accuracy_without[2] == 1.0


def test_an_exploded_stream_is_probed_and_one_that_is_not_finite_is_not(batches):
    net = Plain()
    with torch.no_grad():
        net.embed.weight.mul_(1e12)
    assert depth_ablation(net, batches, ["embed", "blocks.*"]).probe[0] is not None
    with torch.no_grad():
        net.embed.weight.fill_(float("inf"))
    assert depth_ablation(net, batches, ["embed", "blocks.*"]).probe[0] is None


def test_half_precision_networks_are_measured_in_float32(batches):
    net = Plain().half()
    found = depth_ablation(net, batches, ["embed", "blocks.*"])
    whole = depth_ablation(Plain().float(), batches, ["embed", "blocks.*"])
    assert 0 <= found.accuracy <= 1
    assert len(found.probe) == len(whole.probe) == 4


def test_a_probe_is_ridge_regression_in_closed_form():
    torch.manual_seed(2)
    x, y = torch.randn(60, 5) * 1e6, torch.randint(3, (60,))
    order = probe_order(60)
    x, y = x[order], y[order]
    fit, judged = x[:30].double(), x[30:].double()
    mean, scale = fit.mean(0), fit.std(0, correction=0)
    fit, judged = (fit - mean) / scale, (judged - mean) / scale
    wanted = torch.nn.functional.one_hot(y[:30], 3).double()
    centre = wanted.mean(0)
    # least squares on the data with √(λn)·I below it
    penalty = (RIDGE * 30) ** 0.5
    rows = torch.cat([fit, penalty * torch.eye(5, dtype=torch.float64)])
    target = torch.cat([wanted - centre, torch.zeros(5, 3, dtype=torch.float64)])
    weights = torch.linalg.lstsq(rows, target).solution
    expected = ((judged @ weights + centre).argmax(-1) == y[30:]).double().mean()
    back = torch.argsort(order)
    assert probe_accuracy(x[back], y[back]) == pytest.approx(float(expected))


@pytest.mark.parametrize("width", [5, 200])
def test_both_systems_of_a_probe_give_separable_classes(width):
    torch.manual_seed(3)
    y = torch.arange(100) % 4
    x = torch.nn.functional.one_hot(y, 4).float() @ torch.randn(4, width)
    assert probe_accuracy(x + 0.01 * torch.randn(100, width), y) == 1.0


@pytest.mark.parametrize("samples", [0, 1])
def test_too_few_samples_give_no_probe(samples):
    assert probe_accuracy(torch.randn(samples, 3), torch.zeros(samples, dtype=torch.long)) is None


def test_tokens_with_a_label_each_are_samples():
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.blocks = nn.ModuleList([Block(8)])
            self.head = nn.Linear(8, 11)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.blocks[0](self.embed(x)))

    x = torch.randint(11, (6, 5))
    y = x.clone()
    y[:, 0] = -100
    found = depth_ablation(Tokens(), [(x, y)], ["embed", "blocks.*"])
    assert found.samples == 6 * 4


def test_taps_that_cannot_be_used_say_so(batches):
    with pytest.raises(TapError, match="nowhere"):
        depth_ablation(Plain(), batches, ["nowhere.*"])
    with pytest.raises(UsageError, match="inputs and at outputs"):
        depth_ablation(Plain(), batches, ["embed", "blocks.*:in"])
