"""Sparse and label-driven feedback, predictive coding, learned inverses and classifiers, forward-only rules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from fa_core.data import DataSet, load_data
from fa_core.errors import UsageError
from fa_core.measure.credit import method_credit_quality
from fa_core.measure.null_gamma import method_gamma
from fa_core.methods import METHODS, Method, make_method
from fa_core.methods.local_nets import LocalLoss, TargetPropagation
from fa_core.models import StreamNet, build
from tests.fa_core.methods.conftest import Batch

FORWARD_ONLY = ["pepita", "ff"]


@pytest.fixture(scope="module")
def data() -> DataSet:
    return load_data("synthetic:input=16,train=3200,test=1000")


def train(rule: Method, net: StreamNet, data: DataSet, steps: int, lam: float = 0.0) -> float:
    """Accuracy after AdamW steps of 64 samples."""
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(rule.trained_parameters(net), lr=3e-3)
    for step in range(steps):
        rows = torch.arange(64) + 64 * (step % 50)
        loss, info = rule.loss(net, data.train_x[rows], data.train_y[rows], lam)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        rule.extra_step(net, info)
    return float((net.eval()(data.test_x).argmax(1) == data.test_y).float().mean())


def test_sparse_feedback_has_so_many_connections_per_unit_and_the_sum_of_dfas_variance() -> None:
    net = build("resmlp", input_dim=4, d=400, L=1, seed=0)
    for connections in (1, 3, 10):
        (B, _) = make_method("sparse_dfa", net, connections=connections).buffers()
        assert bool(((B != 0).sum(0) == connections).all())
        assert float(B.square().sum(0).mean()) == pytest.approx(1, rel=0.25)
        assert len(set((B != 0).sum(1).tolist())) > 1 or connections == 10  # drawn, not dealt


@pytest.mark.parametrize("connections", [0, 11, 1.5])
def test_a_unit_sees_at_least_one_class_and_at_most_all(connections: Any, net: StreamNet) -> None:
    with pytest.raises(UsageError, match="connections is"):
        make_method("sparse_dfa", net, connections=connections)


ARCHS: dict[str, dict[str, Any]] = {
    "vit_mini": {"image": 8, "patch": 4, "d": 16, "L": 2},
    "resnet20": {"image": 8, "width": 4, "L": 3},
}


@pytest.mark.parametrize("arch", ARCHS)
def test_predictive_coding_with_fixed_predictions_is_backprop(arch: str, batch: Batch) -> None:
    """Γ = 1, its credit is the gradient, and so is the gradient of every parameter."""
    net = build(arch, seed=0, **ARCHS[arch]).double()
    x, y = batch(net, 6)
    rule, bp = make_method("pc", net, fixed=True), make_method("bp", net)
    gammas = method_gamma(net, rule, x, y)
    assert gammas == pytest.approx([1.0] * (net.n_blocks + 1), abs=1e-12)
    found, true = (
        torch.autograd.grad(one.loss(net, x, y)[0], list(net.parameters())) for one in (rule, bp)
    )
    assert all(
        torch.allclose(a, b, rtol=1e-6, atol=1e-12) for a, b in zip(found, true, strict=True)
    )


def test_predictive_coding_that_settles_is_the_nudged_phase_at_full_force(
    net: StreamNet, batch: Batch
) -> None:
    x, y = batch(net, 6)
    logits, stream = net(x, return_hidden=True)
    options = {"beta": 1.0, "eta": 0.1, "steps": 20, "estimator": "prediction_error"}
    pairs = zip(
        make_method("pc", net).credit(net, stream, logits, y),
        make_method("ep", net, **options).credit(net, stream, logits, y),
        strict=True,
    )
    assert all(a is not None and b is not None and torch.equal(a, b) for a, b in pairs)


def test_target_propagation_with_linear_inverses_is_their_jacobian(
    net: StreamNet, batch: Batch
) -> None:
    """V_l replaced by linear maps: a_l = a_{l+1}·(I + M_l) in a residual network, exactly, whatever η is."""
    x, y = batch(net.double(), 6)
    rule = make_method("dtp", net, eta=0.7).double()
    assert isinstance(rule, TargetPropagation)
    maps = [torch.randn(16, 16, dtype=torch.float64) for _ in range(3)]
    for l, M in enumerate(maps):
        rule.inverses[l] = torch.nn.Linear(16, 16, bias=False).double()
        rule.inverses[l].weight.data = M.T
    logits, stream = net(x, return_hidden=True)
    *signal, last = rule.credit(net, stream, logits, y)
    true = make_method("bp", net).credit(net, stream, logits, y)[-1]
    assert last is not None and true is not None and torch.allclose(last, true)
    expected = last
    for a, M in zip(reversed(signal), reversed(maps), strict=True):
        expected = expected + expected @ M
        assert a is not None and torch.allclose(a, expected, rtol=1e-9)


@pytest.mark.parametrize("arch", ARCHS)
def test_the_inverses_learn_to_invert(arch: str, batch: Batch) -> None:
    net = build(arch, seed=0, **ARCHS[arch])
    rule = make_method("dtp", net, lr=3e-3)
    x, y = batch(net, 32)
    losses = [rule.extra_step(net, rule.loss(net, x, y)[1]) for _ in range(60)]
    assert losses[0] is not None and losses[-1] is not None and losses[-1] < 0.6 * losses[0]


def test_a_local_credit_is_the_gradient_through_its_own_classifier(
    net: StreamNet, batch: Batch
) -> None:
    """(softmax(h·Wᵀ + b) − onehot)·W by hand below L; at L the gradient itself."""
    x, y = batch(net, 6)
    rule = make_method("local_loss", net, seed=1)
    assert isinstance(rule, LocalLoss)
    logits, stream = net(x, return_hidden=True)
    *signal, last = rule.credit(net, stream, logits, y)
    for a, h, C in zip(signal, stream, rule.classifiers, strict=False):
        error = C(h).softmax(1) - F.one_hot(y, 10)
        assert a is not None and torch.allclose(a, error @ C.weight, atol=1e-6)  # type: ignore[operator]
    true = make_method("bp", net).credit(net, stream, logits, y)[-1]
    assert last is not None and true is not None and torch.allclose(last, true)


@pytest.mark.parametrize("name", FORWARD_ONLY)
def test_a_forward_only_rule_has_no_credit_and_says_why(
    name: str, net: StreamNet, batch: Batch
) -> None:
    x, y = batch(net, 6)
    found = method_credit_quality(net, make_method(name, net), x, y, directions=2)
    for series in (found.gamma, found.rho, found.nudge):
        assert series == [None] * 4
    assert found.to_dict()["missing"] == {"gamma, rho, nudge": METHODS[name].no_credit}
    assert "pass" in METHODS[name].no_credit and found.deep() is None


@pytest.mark.parametrize("name", FORWARD_ONLY)
def test_token_numbers_cannot_be_added_to(name: str) -> None:
    with pytest.raises(
        UsageError, match=f"{name} adds numbers to the input, and decoder takes token numbers"
    ):
        make_method(name, build("decoder", vocab=5, length=3, d=8, L=1, heads=2))
