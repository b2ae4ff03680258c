"""Logits that the caller points to in a network's output."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from fa_core import diagnose
from fa_core.errors import TapError, UsageError
from tests.fa_core.measure.nets import Stack

BATCHES = [
    (torch.randn(16, 4, generator=torch.Generator().manual_seed(k)), torch.arange(16) % 3)
    for k in range(8)
]


class Output(NamedTuple):
    features: Tensor
    scores: Tensor


class Net(Stack):
    def __init__(self, form):
        torch.manual_seed(0)
        super().__init__(nn.Linear(4, 4), [nn.Linear(4, 4)], nn.Linear(4, 3), adds=True)
        self.form = form

    def readout(self, h):
        return self.form(h, self.head(h))


def plain(h, logits):
    return logits


TAPS = ["blocks.0:in", "head:in"]


@pytest.mark.parametrize(
    ("form", "logits"),
    [
        (lambda h, logits: (h, logits), 1),
        (lambda h, logits: {"features": h, "y": logits}, "y"),
        (Output, "scores"),
        (Output, lambda output: output.scores),
        (lambda h, logits: [{"deep": logits}], lambda output: output[0]["deep"]),
    ],
)
def test_the_numbers_are_those_of_the_network_that_returns_them_alone(form, logits):
    expected = diagnose(Net(plain), BATCHES, taps=TAPS)
    net = Net(form)
    assert diagnose(net, BATCHES, taps=TAPS, logits=logits) == expected
    assert not net._forward_hooks, "the network comes back as it was"


@pytest.mark.parametrize("logits", ["nothing", 7])
def test_a_choice_that_is_not_there_is_named(logits):
    net = Net(lambda h, logits: {"y": logits})
    with pytest.raises(TapError, match="logits="):
        diagnose(net, BATCHES, taps=TAPS, logits=logits)
    assert not net._forward_hooks


def test_half_precision_networks_are_measured_on_a_copy_that_chooses_too():
    report = diagnose(Net(lambda h, y: (h, y)).half(), BATCHES, taps=TAPS, logits=1)
    assert report.headline_acc is not None and report.dtype == "float32"


def test_a_function_of_taps_returns_the_logits_itself():
    with pytest.raises(UsageError, match="leave logits out"):
        diagnose(Net(plain), BATCHES, taps=lambda model, x: (model(x), [x, x]), logits=0)
