"""Depth without retraining: against networks taken apart by hand."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from fa_core.errors import TapError, UsageError
from fa_core.measure.depth_ablation import depth_ablation
from fa_core.models import StreamNet, build

BATCHES, SAMPLES, CLASSES = 3, 40, 4


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.linear = nn.Linear(d, d)

    def forward(self, h):
        return h + torch.tanh(self.linear(h))


class Plain(nn.Module):
    """A stream of modules that return the states."""

    def __init__(self, d=8, depth=3):
        super().__init__()
        self.embed = nn.Linear(6, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(depth))
        self.head = nn.Linear(d, CLASSES)

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


class Adding(nn.Module):
    """A network that adds ``h + block(h)`` itself."""

    def __init__(self, d=8, depth=3):
        super().__init__()
        self.embed = nn.Linear(6, d)
        self.blocks = nn.ModuleList(nn.Linear(d, d) for _ in range(depth))
        self.head = nn.Linear(d, CLASSES)

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = h + block(h)
        return self.head(h)


@pytest.fixture
def batches():
    torch.manual_seed(0)
    return [(torch.randn(SAMPLES, 6), torch.randint(CLASSES, (SAMPLES,))) for _ in range(BATCHES)]


def share(logits_of, batches):
    with torch.no_grad():
        right = [(logits_of(x).argmax(-1) == y).float() for x, y in batches]
    return float(torch.cat(right).mean())


def without(net, *blocks):
    """The network by hand, with the identity in some places."""

    def run(x):
        if isinstance(net, StreamNet):
            h, step, readout = net.embed_input(x), net.advance, net.readout
        else:
            h, readout = net.embed(x), net.head

            def step(l, h):
                return net.blocks[l](h) + (h if isinstance(net, Adding) else 0)

        for l in range(3):
            if l not in blocks:
                h = step(l, h)
        return readout(h)

    return run


@pytest.mark.parametrize(
    ("network", "taps"),
    [
        (Plain, ["embed", "blocks.*"]),
        (Adding, "blocks.*:in,head:in"),
        (partial(build, "resmlp", input_dim=6, d=8, L=3, num_classes=CLASSES), None),
    ],
)
def test_every_number_is_that_of_the_network_taken_apart_by_hand(network, taps, batches):
    torch.manual_seed(1)
    net = network()
    found = depth_ablation(net, batches, taps)
    assert found.accuracy == pytest.approx(share(without(net), batches))
    assert found.samples == BATCHES * SAMPLES
    for l in range(3):
        alone = share(without(net, l), batches)
        removed = share(without(net, *range(l, 3)), batches)
        assert found.accuracy_without[l] == pytest.approx(alone)
        assert found.accuracy_up_to[l] == pytest.approx(removed)


def test_the_network_comes_back_as_it_went_in(batches):
    net = Plain().train()
    before = copy.deepcopy(net.state_dict())
    depth_ablation(net, batches, ["embed", "blocks.*"])
    assert net.training
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert not net.blocks[0]._forward_hooks


def test_a_block_that_changes_the_shape_has_no_identity(batches):
    class Widening(Plain):
        def __init__(self):
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


def test_tokens_with_a_label_each_are_samples():
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 8)
            self.blocks = nn.ModuleList([Block(8)])
            self.head = nn.Linear(8, 11)

        def forward(self, x):
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
