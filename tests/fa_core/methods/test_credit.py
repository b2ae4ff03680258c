"""What every method's credit has in common, and what it must equal."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.methods import METHODS, make_method
from fa_core.models import StreamNet, build
from tests.fa_core.methods.conftest import Batch

NETWORKS: dict[str, dict[str, Any]] = {
    "resmlp": {"input_dim": 12, "d": 16, "L": 3},
    "vit_mini": {"image": 8, "patch": 4, "d": 16, "L": 2},
    "smallcnn": {"image": 8, "width": 4, "d": 12},
}
TRAINED = sorted(name for name, rule in METHODS.items() if rule.trains and name != "shallow")
DRAWN = ["fa", "dfa", "state_bridge", "credit_bridge"]


def credit_of(
    net: StreamNet, name: str, x: Tensor, y: Tensor, seed: int = 0
) -> list[Tensor | None]:
    logits, stream = net(x, return_hidden=True)
    return make_method(name, net, seed).credit(net, stream, logits, y)


@pytest.mark.parametrize("arch", NETWORKS)
def test_backprops_credit_is_the_gradient_of_the_summed_loss(arch: str, batch: Batch) -> None:
    net = build(arch, seed=0, **NETWORKS[arch]).double().eval()
    x, y = batch(net, 6)
    logits, stream = net(x, return_hidden=True)
    expected = torch.autograd.grad(F.cross_entropy(logits, y, reduction="sum"), stream)
    for a, g in zip(credit_of(net, "bp", x, y), expected, strict=True):
        assert a is not None
        assert torch.allclose(a, g, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("arch", NETWORKS)
@pytest.mark.parametrize("name", TRAINED)
def test_credit_is_a_constant_of_the_streams_shape_and_training_on_it_reaches_what_is_trained(
    arch: str, name: str, batch: Batch
) -> None:
    net = build(arch, seed=0, **NETWORKS[arch])
    method = make_method(name, net, seed=3)
    x, y = batch(net, 6)
    loss, info = method.loss(net, x, y, 1e-3)
    loss.backward()  # type: ignore[no-untyped-call]
    method.extra_step(net, info)
    assert all(
        p.grad is not None and p.grad.isfinite().all() for p in method.trained_parameters(net)
    )
    assert len(info.stream) == net.n_blocks + 1
    assert not any(h.requires_grad for h in info.stream)

    logits, stream = net(x, return_hidden=True)
    for a, h in zip(method.credit(net, stream, logits, y), stream, strict=True):
        assert a is None or (a.shape == h.shape and a.dtype == h.dtype and not a.requires_grad)


@pytest.mark.parametrize("name", [*DRAWN, "bp", "ep"])
def test_credit_is_per_sample_whatever_the_batch(name: str, net: StreamNet, batch: Batch) -> None:
    net = net.double()
    x, y = batch(net, 6)
    logits, stream = net(x, return_hidden=True)
    method = make_method(name, net).double()
    whole = method.credit(net, stream, logits, y)
    half = method.credit(net, [h[:3] for h in stream], logits[:3], y[:3])
    for a, b in zip(whole, half, strict=True):
        assert a is not None and b is not None
        assert torch.allclose(a[:3], b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["dfa", "credit_bridge", "ep"])
def test_asking_for_credit_leaves_network_and_gradients_as_they_were(
    name: str, net: StreamNet, batch: Batch
) -> None:
    x, y = batch(net, 6)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    with torch.no_grad():
        credit_of(net, name, x, y)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in net.parameters())


@pytest.mark.parametrize("name", DRAWN)
def test_feedback_is_the_seeds_alone(name: str, net: StreamNet, batch: Batch) -> None:
    x, y = batch(net, 6)
    before = torch.get_rng_state()
    first, other = credit_of(net, name, x, y, seed=7), credit_of(net, name, x, y, seed=8)
    assert name.endswith("bridge") or torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    again = credit_of(net, name, x, y, seed=7)
    a, b, c = first[1], again[1], other[1]
    assert a is not None and b is not None and c is not None
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


@pytest.mark.parametrize("name", DRAWN)
def test_fresh_draws_new_feedback_and_keeps_the_old(
    name: str, net: StreamNet, batch: Batch
) -> None:
    x, y = batch(net, 6)
    logits, stream = net(x, return_hidden=True)
    method = make_method(name, net, seed=7)
    old = method.credit(net, stream, logits, y)[1]
    fresh = method.fresh(torch.Generator().manual_seed(0))
    new, again = fresh.credit(net, stream, logits, y)[1], method.credit(net, stream, logits, y)[1]
    assert old is not None and new is not None and again is not None
    assert method.draws_feedback
    assert torch.equal(old, again)
    assert not torch.equal(old, new)


def test_feedback_has_the_protocols_variance() -> None:
    net = build("resmlp", input_dim=4, d=200, L=2, seed=0)
    assert make_method("dfa", net).B_1.var() == pytest.approx(1 / 10, rel=0.15)  # type: ignore[operator]
    assert make_method("fa", net).B_1.var() == pytest.approx(1 / 200, rel=0.05)  # type: ignore[operator]


@pytest.mark.parametrize("name", TRAINED)
def test_training_leaves_batch_statistics_as_one_forward_pass_leaves_them(
    name: str, batch: Batch
) -> None:
    net, twin = (build("smallcnn", seed=0, **NETWORKS["smallcnn"]).train() for _ in range(2))
    x, y = batch(net, 8)
    make_method(name, net).loss(net, x, y)
    twin(x)
    for ours, theirs in zip(net.buffers(), twin.buffers(), strict=True):
        assert torch.allclose(ours, theirs)
