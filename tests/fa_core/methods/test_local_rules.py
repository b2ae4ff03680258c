"""Sparse and label-driven feedback, predictive coding, learned inverses and classifiers, forward-only rules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.data import DataSet, load_data
from fa_core.errors import UsageError
from fa_core.measure.credit import method_credit_quality
from fa_core.measure.null_gamma import method_gamma
from fa_core.methods import METHODS, Method, make_method
from fa_core.methods.local_nets import LocalLoss, TargetPropagation
from fa_core.models import StreamNet, build
from tests.fa_core.methods.conftest import Batch
from tests.fa_core.methods.test_controls import moved

NEW = [
    "fa_weights",
    "usf",
    "brsf",
    "frsf",
    "kp",
    "weight_mirror",
    "dfa_layers",
    "sparse_dfa",
    "drtp",
    "dtp",
    "pc",
    "local_loss",
]
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


@pytest.mark.parametrize("name", [*NEW, *FORWARD_ONLY])
def test_every_rule_trains_above_chance(name: str, data: DataSet) -> None:
    """Chance is 0.1; DRTP, whose stream runs away (see its docstring), with the penalty."""
    net = build("resmlp", input_dim=16, d=24, L=2, seed=0)
    rule = make_method(name, net)
    assert train(rule, net, data, 0) < 0.2
    assert train(rule, net.train(), data, 100, lam=1.0 if name == "drtp" else 0.0) > 0.25


@pytest.mark.parametrize("name", [*NEW, *FORWARD_ONLY])
def test_every_rule_trains_the_whole_network(name: str, net: StreamNet, batch: Batch) -> None:
    assert moved(net, name, batch) == {"embed", "blocks", "out_ln", "out_head"}


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


def test_a_projected_label_is_the_same_credit_for_a_class_whatever_the_output(
    net: StreamNet, batch: Batch
) -> None:
    x, _ = batch(net, 6)
    y = torch.tensor([0, 0, 1, 1, 2, 2])
    logits, stream = net(x, return_hidden=True)
    rule = make_method("drtp", net)
    for l, a in enumerate(rule.credit(net, stream, logits, y)):
        assert a is not None
        assert torch.equal(a, -rule.state_dict()[f"B_{l}"][y])


ARCHS: dict[str, dict[str, Any]] = {
    "resmlp": {"input_dim": 12, "d": 16, "L": 3},
    "vit_mini": {"image": 8, "patch": 4, "d": 16, "L": 2},
    "smallcnn": {"image": 8, "width": 4, "d": 12},
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


def test_fixed_predictions_settle_on_the_gradient_at_a_smaller_step_too(
    net: StreamNet, batch: Batch
) -> None:
    x, y = batch(net.double(), 6)
    logits, stream = net(x, return_hidden=True)
    true = make_method("bp", net).credit(net, stream, logits, y)
    apart = []
    for steps in (3, 30, 300):
        signal = make_method("pc", net, fixed=True, eta=0.2, steps=steps).credit(
            net, stream, logits, y
        )
        assert signal[0] is not None and true[0] is not None
        apart.append(float((signal[0] - true[0]).norm() / true[0].norm()))
    assert apart[0] > 0.5 > apart[1] > 1e-4 > 1e-10 > apart[2]


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


def test_equilibrium_propagation_becomes_backprop_as_beta_falls(
    net: StreamNet, batch: Batch
) -> None:
    x, y = batch(net.double(), 6)
    logits, stream = net(x, return_hidden=True)
    true = make_method("bp", net).credit(net, stream, logits, y)
    errors = []
    for beta in (0.1, 0.01, 0.001):
        settled = {"beta": beta, "eta": 0.3, "steps": 200, "estimator": "prediction_error"}
        signal = make_method("ep", net, **settled).credit(net, stream, logits, y)
        pairs = zip(signal, true, strict=True)
        errors.append(
            max(
                float((a - g).norm() / g.norm())
                for a, g in pairs
                if a is not None and g is not None
            )
        )
    assert errors[1] < errors[0] / 5 and errors[2] < errors[1] / 5 and errors[2] < 1e-2


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
    of_it = method_credit_quality(
        net, make_method("random_targets", net, of=name), x, y, directions=2
    )
    assert of_it.missing == found.missing


@pytest.mark.parametrize("name", FORWARD_ONLY)
def test_token_numbers_cannot_be_added_to(name: str) -> None:
    with pytest.raises(
        UsageError, match=f"{name} adds numbers to the input, and decoder takes token numbers"
    ):
        make_method(name, build("decoder", vocab=5, length=3, d=8, L=1, heads=2))


def test_pepitas_update_is_the_difference_of_two_passes_times_the_second_input(
    batch: Batch,
) -> None:
    """Of the embedding and a block's outer layer, by hand."""
    net = build("studentnet", input_dim=12, d=16, L=1, seed=0).double()
    x, y = batch(net, 7)
    rule = make_method("pepita", net, scale=0.3).double()
    logits, (h_0, h_1) = net(x, return_hidden=True)
    error = logits.softmax(1) - F.one_hot(y, 10)
    second = x + error @ rule.state_dict()["F"]
    _, (m_0, m_1) = net(second, return_hidden=True)
    embed, block = net.embed, net.blocks[0]
    assert isinstance(embed, torch.nn.Linear)
    outer: Tensor = block.fc2.weight  # type: ignore[assignment,union-attr]
    found = torch.autograd.grad(rule.loss(net, x, y)[0], [embed.weight, outer])
    inner = F.gelu(block.fc1(m_0))  # type: ignore[operator]
    for gradient, moved_by, given in zip(
        found, (h_0 - m_0, h_1 - m_1), (second, inner), strict=True
    ):
        assert torch.allclose(gradient, moved_by.T @ given / 7, atol=1e-12)


def test_forward_forward_tells_right_labels_from_wrong_ones_by_goodness(data: DataSet) -> None:
    net = build("resmlp", input_dim=16, d=24, L=2, seed=0)
    rule = make_method("ff", net)
    x, y = data.test_x[:256], data.test_y[:256]

    def goodness(labels: Tensor) -> list[Tensor]:
        hidden = net.embed_input(x + F.one_hot(labels, 10).float() @ rule.state_dict()["F"])
        found = [hidden]
        for l in range(2):
            found.append(net.branch(l, hidden))
            hidden = hidden + found[-1]
        return [output.square().mean(1) for output in found]

    train(rule, net, data, 300)
    for right, wrong in zip(goodness(y), goodness((y + 3) % 10), strict=True):
        assert (right > wrong).float().mean() > 0.6
