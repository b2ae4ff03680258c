"""Depth without retraining: against networks taken apart by hand."""

import pytest
import torch
from torch import nn

from fa_core.errors import TapError, UsageError
from fa_core.measure.accuracy import depth_ablation
from fa_core.zoo.models import build
from tests.fa_core.measure.nets import Block, Stack

BATCHES, SAMPLES, CLASSES = 3, 40, 4
TAPS = ["embed", "blocks.*"]


def tanh(width=8):
    return nn.Sequential(nn.Linear(width, width), nn.Tanh())


def plain(depth=3):
    """A stream of modules that return the states."""
    return Stack(nn.Linear(6, 8), [Block(8, tanh()) for _ in range(depth)], nn.Linear(8, CLASSES))


def adding():
    """A network that adds ``h + block(h)`` itself."""
    blocks = [nn.Linear(8, 8) for _ in range(3)]
    return Stack(nn.Linear(6, 8), blocks, nn.Linear(8, CLASSES), adds=True)


@pytest.fixture
def batches():
    return [(torch.randn(SAMPLES, 6), torch.randint(CLASSES, (SAMPLES,))) for _ in range(BATCHES)]


def share(logits_of, batches):
    with torch.no_grad():
        right = [(logits_of(x).argmax(-1) == y).float() for x, y in batches]
    return float(torch.cat(right).mean())


def without(net, *blocks):
    """The network by hand, with the identity in some places."""

    def run(x):
        h = net.embed(x)
        for l in range(3):
            if l not in blocks:
                h = net.blocks[l](h) + (h if net.adds else 0)
        return net.head(h)

    return run


@pytest.mark.parametrize(
    ("network", "taps"),
    [
        (plain, TAPS),
        (adding, "blocks.*:in,head:in"),
        (adding, None),
        (plain, "blocks.0:in,blocks.*"),
    ],
)
def test_every_number_is_that_of_the_network_taken_apart_by_hand(network, taps, batches):
    net = network()
    found = depth_ablation(net, batches, taps)
    assert found.accuracy == pytest.approx(share(without(net), batches))
    assert found.samples == BATCHES * SAMPLES
    for l in range(3):
        alone = share(without(net, l), batches)
        assert found.accuracy_without[l] == pytest.approx(alone)


def test_a_block_that_changes_the_shape_has_no_identity(batches):
    blocks = [nn.Linear(8, 16), Block(16, tanh(16))]
    found = depth_ablation(Stack(nn.Linear(6, 8), blocks, nn.Linear(16, 4)), batches, TAPS)
    first, second = found.accuracy_without
    assert first is None and second is not None
    images = [(torch.randn(4, 3, 8, 8), torch.arange(4))]
    assert depth_ablation(build("smallcnn", image=8), images).accuracy_without == [None] * 3


def test_the_block_that_is_used_most_is_named(batches):
    net = plain()
    with torch.no_grad():
        for l, scale in enumerate((0, 20, 0)):
            for parameter in net.blocks[l].parameters():
                parameter.mul_(scale)
    labelled = [(x, net(x).argmax(-1)) for x, _ in batches]
    found = depth_ablation(net, labelled, TAPS)
    assert (found.accuracy, found.most_used) == (1.0, 1)
    assert found.accuracy_without[0] == found.accuracy_without[2] == 1.0


def test_tokens_with_a_label_each_are_samples():
    x = torch.randint(11, (6, 5))
    y = x.clone()
    y[:, 0] = -100
    net = Stack(nn.Embedding(11, 8), [Block(8)], nn.Linear(8, 11))
    assert depth_ablation(net, [(x, y)], TAPS).samples == 6 * 4


def test_taps_that_cannot_be_used_say_so(batches):
    with pytest.raises(TapError, match="nowhere"):
        depth_ablation(plain(), batches, ["nowhere.*"])
    with pytest.raises(UsageError, match="inputs and at outputs"):
        depth_ablation(plain(), batches, ["embed", "blocks.*:in"])
