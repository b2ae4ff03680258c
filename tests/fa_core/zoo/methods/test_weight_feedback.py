"""Backward passes through other weights: against hand-written ones, and where the feedback learns."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fa_core.measure.credit import method_gamma
from fa_core.zoo.methods import make_method
from fa_core.zoo.methods.base import output_error
from fa_core.zoo.methods.weight_feedback import carrying_weights
from fa_core.zoo.models import StreamNet
from tests.fa_core.zoo.methods.credits import (
    batch,
    credit_of,
    network,
    same,
    slopes_of,
    train,
    weights_now,
)
from tests.fa_core.zoo.methods.hand_net import Reference, apart, as_arrays, samples


@pytest.mark.parametrize("name", ["fa_weights", "usf", "kp"])
def test_the_credit_is_that_of_a_backward_pass_by_hand(name):
    """NumPy, residual tanh blocks h + tanh(h·A)·M: values by A and M, the error back through their feedback."""
    net, x, y = samples(3, torch.float64)
    rule, by_hand = make_method(name, net, seed=2).double(), Reference(net, x, y, "float64")
    states = by_hand.forward(by_hand.nothing())
    weights = carrying_weights(net)
    feedback = [B.detach().numpy() for B in rule.feedback(weights)]
    given = dict(zip(map(id, weights), feedback, strict=True))
    expected = [output_error(net(x), y).numpy() @ given[id(net.head.weight)]]
    for l in reversed(range(3)):
        A, M = given[id(net.blocks[l].A)], given[id(net.blocks[l].B)]
        t = by_hand.tanh(states[l] @ by_hand.blocks[l][0])
        expected.insert(0, expected[0] + ((expected[0] @ M.T) * (1 - t * t)) @ A.T)
    found = as_arrays(credit_of(rule, net, x, y))
    assert max(map(apart, found, expected)) < 1e-12


class Transposed(StreamNet):
    """A head that multiplies by a transposed square weight."""

    arch = "transposed_for_tests"

    def __init__(self):
        super().__init__({}, (5,), [(5,)])
        self.embed, self.out_ln, self.blocks = nn.Linear(5, 5), nn.Identity(), nn.ModuleList()
        self.head = nn.Linear(5, 5, bias=False)

    def readout(self, h):
        return h @ self.head.weight.t()


def test_a_transposed_weight_has_transposed_feedback():
    net = Transposed()
    x, y = torch.randn(3, 5), torch.arange(3)
    rule = make_method("fa_weights", net)
    (B,) = rule.buffers()
    same(credit_of(rule, net, x, y), [output_error(net(x), y) @ B], atol=1e-6)


@pytest.mark.parametrize("arch", ["resmlp", "resnet20"])
def test_dfa_per_layer_hands_every_weight_the_projected_error_of_what_follows_it(arch):
    """As backward hooks do it: the gradient of every layer's input is replaced by e_T·B_i on its way."""
    net = network(arch).double()
    x, y = batch(net)
    rule = make_method("dfa_layers", net, seed=1).double()
    found = [*slopes_of(rule, net, x, y), *(a / 6 for a in credit_of(rule, net, x, y))]
    error = output_error(net(x), y) / 6
    given = dict(zip(map(id, carrying_weights(net)), rule.buffers(), strict=True))

    def replaced(module, by_input, by_output):
        (old,) = by_input
        return None if old is None else ((error @ given[id(module.weight)]).view_as(old),)

    layers = [module for module in net.modules() if id(getattr(module, "weight", None)) in given]
    assert len(layers) == len(given)
    for module in layers:
        module.register_full_backward_hook(replaced)
    logits, stream = net(x, return_hidden=True)
    same(found, torch.autograd.grad(F.cross_entropy(logits, y), [*net.parameters(), *stream]))


@pytest.mark.parametrize("arch", ["vit_mini", "resnet20"])
def test_feedback_has_the_signs_and_the_size_that_the_rules_say(arch):
    net = network(arch).double()
    weights = carrying_weights(net)
    uniform, fixed, drawn = (
        make_method(name, net, seed=1) for name in ("usf", "frsf", "fa_weights")
    )
    if arch == "vit_mini":  # queries, keys and values, output, MLP, twice; the head
        assert len(weights) == 2 * 4 + 1
    feedbacks = uniform.feedback(weights), fixed.feedback(weights), drawn.buffers()
    for W, U, M, B in zip(weights, *feedbacks, strict=True):
        inputs = W.shape[-1] if "vit" in arch else W[0].numel()
        assert torch.allclose(U.abs(), torch.tensor((3 * inputs) ** -0.5).double())
        assert torch.equal(U.sign(), W.sign()) and torch.equal(M.sign(), W.sign())
        assert torch.allclose(M.abs().float(), B.abs())
        sizes = [float(one.square().mean() * 3 * inputs) for one in (W.detach(), B)]
        assert sizes == pytest.approx([1, 1], rel=0.35)  # as the weights start


def test_magnitudes_are_drawn_again_after_every_step_or_never(net):
    for name, changes in (("brsf", True), ("frsf", False)):
        rule = make_method(name, net)
        before = rule.state_dict()["B_0"].clone()
        train(rule, net, 1)
        assert torch.equal(before, rule.state_dict()["B_0"]) != changes


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_kolen_pollacks_feedback_converges_to_the_weights_at_its_rate(kind, net):
    """W − B = (1 − rate)^t·(W_0 − B_0), whatever the optimizer did to W."""
    net = net.double()
    rule = make_method("kp", net, rate=0.02).double()

    def distances():
        return [W.detach() - B for W, B in zip(carrying_weights(net), rule.buffers(), strict=True)]

    expected = [first * 0.98**300 for first in distances()]
    train(rule, net, 300, 32, kind(rule.trained_parameters(net), lr=3e-3))
    same(distances(), expected, atol=1e-15)
    assert min(method_gamma(net, rule, batch(net, 32))) > 0.99


@pytest.mark.parametrize("arch", ["vit_mini", "resnet20"])
def test_the_mirror_finds_the_weights_edges_of_maps_included(arch):
    """Of fixed weights, with a rate that averages: B's relative distance is the noise that the docstring states."""
    net = network(arch)
    rule = make_method("weight_mirror", net, rate=0.05)
    torch.manual_seed(0)
    info = rule.loss(net, *batch(net, 128))[1]
    before = weights_now(net)
    for _ in range(120):
        rule.extra_step(net, info)
    for W, B in zip(carrying_weights(net), rule.buffers(), strict=True):
        assert F.cosine_similarity(W.flatten(), B.flatten(), dim=0) > 0.95
        assert float(B.norm() / W.detach().norm()) == pytest.approx(1, abs=0.1)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
