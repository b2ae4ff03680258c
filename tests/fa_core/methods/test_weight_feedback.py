"""Backward passes through other weights: against hand-written ones, against backprop, and where the feedback learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.errors import UsageError
from fa_core.measure.null_gamma import method_gamma
from fa_core.methods import make_method
from fa_core.methods.base import feedback_generator, output_error
from fa_core.methods.weight_feedback import WeightFeedback, carrying_weights
from fa_core.models import StreamNet, build
from tests.fa_core.methods.conftest import Batch
from tests.fa_core.methods.hand_net import Reference, apart, as_arrays, samples

NETWORKS: dict[str, dict[str, Any]] = {
    "resmlp": {"input_dim": 12, "d": 16, "L": 3},
    "vit_mini": {"image": 8, "patch": 4, "d": 16, "L": 2},
    "decoder": {"vocab": 7, "length": 5, "d": 8, "L": 2, "heads": 2},
    "resnet20": {"image": 8, "width": 4, "L": 3},
}
RULES = ["fa_weights", "usf", "brsf", "frsf", "kp", "weight_mirror"]


class Symmetric(WeightFeedback):
    """FA with B = W."""

    def feedback(self, weights: Sequence[Tensor]) -> list[Tensor]:
        return list(weights)


def network(arch: str) -> StreamNet:
    return build(arch, seed=0, **NETWORKS[arch]).double()


def inputs(net: StreamNet, batch: Batch) -> tuple[Tensor, Tensor]:
    x, y = batch(net, 6)
    return (x.abs() * 2 % net.arch_args["vocab"]).floor() if net.arch == "decoder" else x, y


@pytest.mark.parametrize("arch", NETWORKS)
def test_feedback_that_is_the_weights_is_backprop(arch: str, batch: Batch) -> None:
    """Credit and every parameter's gradient, penalty included, in every network."""
    net = network(arch)
    x, y = inputs(net, batch)
    rule, bp = Symmetric(net, feedback_generator(0)), make_method("bp", net)
    logits, stream = net(x, return_hidden=True)
    pairs = zip(rule.credit(net, stream, logits, y), bp.credit(net, stream, logits, y), strict=True)
    assert all(
        a is not None and g is not None and torch.allclose(a, g, rtol=1e-6, atol=1e-12)
        for a, g in pairs
    )
    found, true = (
        torch.autograd.grad(one.loss(net, x, y, 1e-2)[0], list(net.parameters()))
        for one in (rule, bp)
    )
    assert all(
        torch.allclose(a, g, rtol=1e-6, atol=1e-12) for a, g in zip(found, true, strict=True)
    )


@pytest.mark.parametrize("name", RULES)
def test_the_credit_is_that_of_a_backward_pass_by_hand(name: str) -> None:
    """NumPy, residual tanh blocks h + tanh(h·A)·M: values by A and M, the error back through their feedback."""
    net, x, y = samples(3, torch.float64)
    rule, by_hand = make_method(name, net, seed=2).double(), Reference(net, x, y, "float64")
    states = by_hand.forward(by_hand.nothing())
    assert isinstance(rule, WeightFeedback)
    weights = carrying_weights(net)
    given = {
        id(W): B.detach().numpy() for W, B in zip(weights, rule.feedback(weights), strict=True)
    }
    logits, stream = net(x, return_hidden=True)
    error = output_error(logits, y).numpy()
    expected = [error @ given[id(net.head.weight)]]
    for l in reversed(range(3)):
        A, M = (given[id(getattr(net.blocks[l], part))] for part in ("A", "B"))
        t = by_hand.tanh(states[l] @ by_hand.blocks[l][0])
        expected.insert(0, expected[0] + ((expected[0] @ M.T) * (1 - t * t)) @ A.T)
    found = as_arrays(rule.credit(net, stream, logits, y))
    assert max(map(apart, found, expected)) < 1e-12


class Transposed(StreamNet):
    """A head that multiplies by a transposed square weight."""

    arch = "transposed_for_tests"

    def __init__(self) -> None:
        super().__init__({}, (5,), [(5,)])
        self.embed, self.out_ln, self.blocks = nn.Linear(5, 5), nn.Identity(), nn.ModuleList()
        self.head = nn.Linear(5, 5, bias=False)

    def readout(self, h: Tensor) -> Tensor:
        return h @ self.head.weight.t()


def test_a_transposed_weight_has_transposed_feedback() -> None:
    net = Transposed()
    x, y = torch.randn(3, 5), torch.arange(3)
    rule = make_method("fa_weights", net)
    logits, stream = net(x, return_hidden=True)
    (a,) = rule.credit(net, stream, logits, y)
    (B,) = rule.buffers()
    assert a is not None and torch.allclose(a, output_error(logits, y) @ B, atol=1e-6)


@pytest.mark.parametrize("arch", ["resmlp", "resnet20"])
def test_dfa_per_layer_hands_every_weight_the_projected_error_of_what_follows_it(
    arch: str, batch: Batch
) -> None:
    """As backward hooks do it: the gradient of every layer's input is replaced by e_T·B_i on its way."""
    net = network(arch)
    x, y = batch(net, 6)
    rule = make_method("dfa_layers", net, seed=1).double()
    found = torch.autograd.grad(rule.loss(net, x, y)[0], list(net.parameters()))
    logits, stream = net(x, return_hidden=True)
    credit = rule.credit(net, stream, logits, y)
    error = output_error(logits, y) / 6
    given = dict(zip(map(id, carrying_weights(net)), rule.buffers(), strict=True))

    def replaced(module: nn.Module, by_input: Any, by_output: Any) -> Any:
        return (
            ((error @ given[id(module.weight)]).view_as(by_input[0]),)
            if by_input[0] is not None
            else None
        )

    layers = [module for module in net.modules() if id(getattr(module, "weight", None)) in given]
    assert len(layers) == len(given)
    hooks = [module.register_full_backward_hook(replaced) for module in layers]
    logits, stream = net(x, return_hidden=True)
    loss = F.cross_entropy(logits, y)
    expected = torch.autograd.grad(loss, [*net.parameters(), *stream])
    for hook in hooks:
        hook.remove()
    for a, e in zip([*found, *(a / 6 for a in credit if a is not None)], expected, strict=True):
        assert torch.allclose(a, e, atol=1e-12)


@pytest.mark.parametrize("arch", ["vit_mini", "resnet20"])
def test_feedback_has_the_signs_and_the_size_that_the_rules_say(arch: str) -> None:
    net = network(arch)
    weights = carrying_weights(net)
    uniform, fixed, drawn = (
        make_method(name, net, seed=1) for name in ("usf", "frsf", "fa_weights")
    )
    assert isinstance(uniform, WeightFeedback) and isinstance(fixed, WeightFeedback)
    if arch == "vit_mini":  # queries, keys and values, output, MLP, twice; the head
        assert len(weights) == 2 * 4 + 1
    for W, U, M, B in zip(
        weights, uniform.feedback(weights), fixed.feedback(weights), drawn.buffers(), strict=True
    ):
        inputs = W.shape[-1] if "vit" in arch else W[0].numel()
        assert torch.allclose(U.abs(), torch.tensor((3 * inputs) ** -0.5).double())
        assert float(W.detach().square().mean() * 3 * inputs) == pytest.approx(
            1, rel=0.35
        )  # as the weights start
        assert torch.equal(U.sign(), W.sign()) and torch.equal(M.sign(), W.sign())
        assert torch.allclose(M.abs().float(), B.abs())
        assert float(B.var() * 3 * inputs) == pytest.approx(1, rel=0.35)


def train(
    rule: Any, net: StreamNet, x: Tensor, y: Tensor, steps: int, kind: Any = torch.optim.AdamW
) -> None:
    optimizer = kind(rule.trained_parameters(net), lr=3e-3)
    for _ in range(steps):
        loss, info = rule.loss(net, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rule.extra_step(net, info)


def test_magnitudes_are_drawn_again_after_every_step_or_never(net: StreamNet, batch: Batch) -> None:
    x, y = batch(net, 6)
    for name, changes in (("brsf", True), ("frsf", False)):
        rule = make_method(name, net)
        before = rule.state_dict()["B_0"].clone()
        train(rule, net, x, y, 1)
        assert torch.equal(before, rule.state_dict()["B_0"]) != changes


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_kolen_pollacks_feedback_converges_to_the_weights_at_its_rate(
    optimizer: str, net: StreamNet, batch: Batch
) -> None:
    """W − B = (1 − rate)^t·(W_0 − B_0), whatever the optimizer did to W."""
    x, y = batch(net, 32)
    net, x = net.double(), x.double()
    rule = make_method("kp", net, rate=0.02).double()
    start = [W.detach() - B for W, B in zip(carrying_weights(net), rule.buffers(), strict=True)]
    kind = torch.optim.SGD if optimizer == "sgd" else torch.optim.AdamW
    train(rule, net, x, y, 300, kind)
    for W, B, first in zip(carrying_weights(net), rule.buffers(), start, strict=True):
        assert torch.allclose(W.detach() - B, first * 0.98**300, rtol=1e-6, atol=1e-15)
    assert min(value for value in method_gamma(net, rule, x, y) if value is not None) > 0.99


@pytest.mark.parametrize("arch", ["vit_mini", "resnet20"])
def test_the_mirror_finds_the_weights_edges_of_maps_included(arch: str, batch: Batch) -> None:
    """Of fixed weights, with a rate that averages: B's relative distance is the noise that the docstring states."""
    net = build(arch, seed=0, **NETWORKS[arch])
    x, y = batch(net, 128)
    rule = make_method("weight_mirror", net, rate=0.05)
    torch.manual_seed(0)
    info = rule.loss(net, x, y)[1]
    before = {key: value.clone() for key, value in net.state_dict().items()}
    for _ in range(120):
        rule.extra_step(net, info)
    for W, B in zip(carrying_weights(net), rule.buffers(), strict=True):
        cosine = F.cosine_similarity(W.detach().flatten(), B.flatten(), dim=0)
        assert cosine > 0.95
        assert float(B.norm() / W.detach().norm()) == pytest.approx(1, abs=0.1)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_frozen_weights_stay_while_their_feedback_learns(net: StreamNet, batch: Batch) -> None:
    x, y = batch(net, 6)
    rule = make_method("frozen", net, of="kp")
    before = {key: value.clone() for key, value in net.blocks.state_dict().items()}
    train(rule, net, x, y, 3)
    assert all(torch.equal(value, before[key]) for key, value in net.blocks.state_dict().items())


@pytest.mark.parametrize("rate", [0, 1, -0.1, float("nan")])
def test_a_rate_outside_of_0_to_1_is_refused(rate: float, net: StreamNet) -> None:
    with pytest.raises(UsageError, match="kp: rate is"):
        make_method("kp", net, rate=rate)
