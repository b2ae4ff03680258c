"""The caller's samples stay as they are, and are copied no more often than that takes."""

import pytest
import torch
from torch import nn

from fa_core import diagnose
from fa_core.measure.accuracy import accuracy
from fa_core.models.residual_mlp import ResMLP


class Net(nn.Module):
    """Hands its input on as h_0 and h_1, and tells what it was given."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.given = []

    def forward(self, x, return_hidden=False):
        self.given.append(x.data_ptr())
        x = self.begin(x)
        logits = self.head(x)
        return (logits, self.stream(x)) if return_hidden else logits

    def begin(self, x):
        return x

    def stream(self, x):
        return [x, x]


class Writer(Net):
    """Writes into its input from one batch on."""

    def __init__(self, first, unseen=False):
        super().__init__()
        self.first, self.unseen = first, unseen

    def begin(self, x):
        if len(self.given) > self.first:
            (x.data if self.unseen else x).mul_(2)
        return x

    def stream(self, x):
        return [x]


@pytest.fixture
def batches():
    torch.manual_seed(0)
    return [(torch.empty(5, 4).normal_(), torch.randint(3, (5,))) for _ in range(3)]


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("unseen", [False, True], ids=["by autograd", "behind its back"])
def test_a_network_that_writes_into_its_input_gets_copies(batches, first, unseen):
    kept = [x.clone() for x, _ in batches]
    for measure in (diagnose, accuracy):
        measure(Writer(first, unseen), batches)
    assert all(torch.equal(x, before) for (x, _), before in zip(batches, kept, strict=True))


@pytest.mark.parametrize("measure", [diagnose, accuracy], ids=["diagnose", "accuracy"])
def test_a_built_in_network_gets_the_samples_themselves(measure, batches):
    given = []
    net = ResMLP(input_dim=4, d=4, L=2, num_classes=3)
    net.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0].data_ptr()))
    kept = [x.clone() for x, _ in batches]
    measure(net, batches)
    assert given == [x.data_ptr() for x, _ in batches]
    assert all(torch.equal(x, before) for (x, _), before in zip(batches, kept, strict=True))


def test_an_input_that_is_the_stream_gives_the_same_gradient_as_its_copy(batches):
    class Copier(Net):
        def begin(self, x):
            return x.clone()

    net, copier = Net(), Copier()
    copier.load_state_dict(net.state_dict())
    ours, theirs = diagnose(net, batches, norm_batches=2), diagnose(copier, batches, norm_batches=2)
    assert ours.bp_grad_norms == theirs.bp_grad_norms
    assert ours.residual_norms == theirs.residual_norms
    assert batches[0][0].grad is None and not batches[0][0].requires_grad
