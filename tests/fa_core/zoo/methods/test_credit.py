"""What every method's credit has in common, and what it must equal."""

import pytest
import torch
from torch.nn import functional as F

from fa_core.zoo.methods import METHODS, make_method
from fa_core.zoo.models import build
from tests.fa_core.zoo.methods.credits import (
    batch,
    credit_of,
    network,
    same,
    slopes_of,
    weights_now,
)

TRAINED = sorted(METHODS.keys() - {"random_init", "shallow"})
DRAWN = ["fa", "dfa", "credit_bridge"]


@pytest.mark.parametrize(("arch", "lam"), [("resmlp", 0.0), ("vit_mini", 1e-2), ("resnet20", 1e-2)])
def test_backprop_is_the_networks_own_gradient(arch, lam):
    """Its credit is the gradient of the summed loss, its slopes are those of the mean loss with penalty λ."""
    net = network(arch).double().eval()
    x, y = batch(net)
    made = make_method("bp", net)
    logits, stream = net(x, return_hidden=True)
    total = F.cross_entropy(logits, y, reduction="sum")
    same(credit_of(made, net, x, y), torch.autograd.grad(total, stream, retain_graph=True))
    penalty = sum(
        net.branch(l, stream[l]).square().flatten(1).sum(1).mean() for l in range(net.n_blocks)
    )
    expected = torch.autograd.grad(total / len(y) + lam * penalty, list(net.parameters()))
    same(slopes_of(made, net, x, y, lam), expected)


@pytest.mark.parametrize("arch", ["resmlp", "vit_mini", "smallcnn"])
@pytest.mark.parametrize("name", TRAINED)
def test_credit_is_a_constant_of_the_streams_shape_and_training_on_it_reaches_what_is_trained(
    arch, name
):
    net, twin = network(arch).train(), network(arch).train()
    method = make_method(name, net, seed=3)
    x, y = batch(net)
    loss, info = method.loss(net, x, y, 1e-3)
    twin(x)
    same(net.buffers(), twin.buffers(), 1e-5, 1e-8)  # batch statistics of one forward pass
    loss.backward()
    method.extra_step(net, info)
    assert all(p.grad.isfinite().all() for p in method.trained_parameters(net))
    assert len(info.stream) == net.n_blocks + 1
    assert not any(h.requires_grad for h in info.stream)
    for a, h in zip(credit_of(method, net, x, y), info.stream, strict=True):
        assert a is None or (a.shape == h.shape and a.dtype == h.dtype and not a.requires_grad)


@pytest.mark.parametrize("name", [*DRAWN, "bp", "ep"])
def test_credit_is_per_sample_and_asking_for_it_leaves_network_and_gradients_as_they_were(
    name, net
):
    net = net.double()
    x, y = batch(net)
    before = weights_now(net)
    method = make_method(name, net).double()
    with torch.no_grad():
        whole, half = credit_of(method, net, x, y), credit_of(method, net, x[:3], y[:3])
    same([a[:3] for a in whole], half, 1e-9)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in net.parameters())


@pytest.mark.parametrize("name", DRAWN)
def test_feedback_is_the_seeds_alone_and_a_fresh_draw_keeps_the_old(name, net):
    x, y = batch(net)
    state = torch.get_rng_state()
    first, other = (make_method(name, net, seed) for seed in (7, 8))
    assert name.endswith("bridge") or torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    old = credit_of(first, net, x, y)[1]
    fresh = first.fresh(torch.Generator().manual_seed(0))
    assert first.draws_feedback
    for again in (first, make_method(name, net, 7)):
        assert torch.equal(old, credit_of(again, net, x, y)[1])
    for new in (other, fresh):
        assert not torch.equal(old, credit_of(new, net, x, y)[1])


def test_feedback_has_the_protocols_variance():
    net = build("resmlp", input_dim=4, d=200, L=2, seed=0)
    assert make_method("dfa", net).B_1.var() == pytest.approx(1 / 10, rel=0.15)
    assert make_method("fa", net).B_1.var() == pytest.approx(1 / 200, rel=0.05)
