"""The caller's samples stay as they are, and are copied no more often than that takes."""

import pytest
import torch
from torch import nn

from fa_core import diagnose
from fa_core.measure.accuracy import accuracy
from fa_core.zoo.models.residual_mlp import ResMLP


class Net(nn.Module):
    """Hands its input on as h_0 and h_1; `begin` is what it does with it first."""

    def __init__(self, begin=lambda x: x, states=2):
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(4, 3)
        self.begin, self.states, self.calls = begin, states, 0

    def forward(self, x, return_hidden=False):
        self.calls += 1
        x = self.begin(x)
        logits = self.head(x)
        return (logits, [x] * self.states) if return_hidden else logits


@pytest.fixture
def batches():
    return [(torch.empty(5, 4).normal_(), torch.randint(3, (5,))) for _ in range(3)]


@pytest.mark.parametrize("seen", [lambda x: x, lambda x: x.data], ids=["by autograd", "unseen"])
def test_a_network_that_writes_into_its_input_gets_copies(batches, seen):
    def write(x):
        seen(x).mul_(2)
        return x

    kept = [x.clone() for x, _ in batches]
    for measure in (diagnose, accuracy):
        net = Net(write, states=1)
        measure(net, batches)
    assert all(torch.equal(x, before) for (x, _), before in zip(batches, kept, strict=True))


@pytest.mark.parametrize("measure", [diagnose, accuracy], ids=["diagnose", "accuracy"])
def test_a_built_in_network_gets_the_samples_themselves(measure, batches):
    given = []
    net = ResMLP(input_dim=4, d=4, L=2, num_classes=3)
    net.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0].data_ptr()))
    kept = [x.clone() for x, _ in batches]
    measure(net, batches)
    own = {x.data_ptr() for x, _ in batches}
    # two passes prove on changed samples that they are independent
    assert set(given) >= own and sum(place not in own for place in given) <= 2
    assert all(torch.equal(x, before) for (x, _), before in zip(batches, kept, strict=True))


def test_an_input_that_is_the_stream_gives_the_same_gradient_as_its_copy(batches):
    ours, theirs = (
        diagnose(Net(begin), batches, norm_batches=2) for begin in (lambda x: x, torch.clone)
    )
    assert ours.bp_grad_norms == theirs.bp_grad_norms
    assert ours.residual_norms == theirs.residual_norms
    assert batches[0][0].grad is None and not batches[0][0].requires_grad
