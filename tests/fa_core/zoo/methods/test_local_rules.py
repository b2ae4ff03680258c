"""Sparse feedback, learned inverses and classifiers, forward-only rules."""

from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fa_core.measure.credit import method_credit_quality
from fa_core.zoo.methods import METHODS, make_method
from fa_core.zoo.methods.base import output_error
from fa_core.zoo.models import build
from tests.fa_core.zoo.methods.credits import batch, credit_of, network, same, slopes_of


@pytest.mark.parametrize("name", ["fa", "dfa"])
def test_every_weight_has_the_gradient_of_its_own_blocks_loss(name, net):
    """⟨f_l, a_{l+1}⟩ + λ‖f_l‖² of one block at a time; embedding and head apart."""
    x, y = batch(net.double(), 7)
    rule = make_method(name, net, seed=5).double()
    _, stream = net(x, return_hidden=True)
    expected = []
    for l, a in enumerate(credit_of(rule, net, x, y)):
        output = net.branch(l - 1, stream[l - 1].detach()) if l else net.embed(x)
        loss = (output * a.detach() + bool(l) * 0.01 * output.square()).sum() / len(y)
        trained = [net.embed, *net.blocks][l].parameters()
        expected += torch.autograd.grad(loss, list(trained))
    ce = F.cross_entropy(net.readout(stream[-1].detach()), y)
    last = [*net.out_ln.parameters(), *net.head.parameters()]
    same(slopes_of(rule, net, x, y, 0.01), [*expected, *torch.autograd.grad(ce, last)])


def test_drtp_projects_the_label_in_place_of_the_error(net):
    x, y = batch(net)
    rule = make_method("drtp", net)
    same(credit_of(rule, net, x, y), [-B[y] for B in rule.buffers()])


def test_sparse_feedback_has_so_many_connections_per_unit_and_the_sum_of_dfas_variance():
    net = build("resmlp", input_dim=4, d=400, L=1, seed=0)
    for connections in (1, 3, 10):
        (B, _) = make_method("sparse_dfa", net, connections=connections).buffers()
        assert bool(((B != 0).sum(0) == connections).all())
        assert float(B.square().sum(0).mean()) == pytest.approx(1, rel=0.25)
        assert len(set((B != 0).sum(1).tolist())) > 1 or connections == 10  # drawn, not dealt


def test_target_propagation_with_linear_inverses_is_their_jacobian(net):
    """V_l replaced by linear maps: a_l = a_{l+1}·(I + M_l) in a residual network, exactly, whatever η is."""
    x, y = batch(net.double())
    rule = make_method("dtp", net, eta=0.7).double()
    maps = torch.randn(3, 16, 16, dtype=torch.float64)
    for l, M in enumerate(maps):
        rule.inverses[l] = nn.Linear(16, 16, bias=False).double()
        rule.inverses[l].weight.data = M.T
    expected = [credit_of(make_method("bp", net), net, x, y)[-1]]
    for M in maps.flip(0):
        expected.insert(0, expected[0] + expected[0] @ M)
    same(credit_of(rule, net, x, y), expected)


@pytest.mark.parametrize("arch", ["vit_mini", "resnet20"])
def test_the_inverses_learn_to_invert(arch):
    net = network(arch)
    rule = make_method("dtp", net, lr=3e-3)
    x, y = batch(net, 32)
    losses = [rule.extra_step(net, rule.loss(net, x, y)[1]) for _ in range(60)]
    assert losses[-1] < 0.6 * losses[0]


def test_a_local_credit_is_the_gradient_through_its_own_classifier(net):
    """(softmax(h·Wᵀ + b) − onehot)·W by hand below L; at L the gradient itself."""
    x, y = batch(net)
    rule = make_method("local_loss", net, seed=1)
    _, stream = net(x, return_hidden=True)
    below = zip(stream[:-1], rule.classifiers, strict=True)
    expected = [(C(h).softmax(1) - F.one_hot(y, 10)) @ C.weight for h, C in below]
    expected.append(credit_of(make_method("bp", net), net, x, y)[-1])
    same(credit_of(rule, net, x, y), expected, atol=1e-6)


@pytest.mark.parametrize("name", ["pepita", "ff"])
def test_a_forward_only_rule_has_no_credit_and_says_why(name, net):
    found = method_credit_quality(net, make_method(name, net), batch(net), directions=2)
    assert found["gamma"] == found["rho"] == found["nudge"] == [None] * 4
    assert found["missing"] == {"gamma, rho, nudge": METHODS[name].no_credit}
    assert "pass" in METHODS[name].no_credit and found["deep_gamma"] is None


def test_pepita_moves_by_the_change_of_the_state_behind_a_weight(net):
    """The gradient of a bias is the mean of h − h̃ behind it, h̃ the stream of x + e_T·F."""
    x, y = batch(net.double())
    rule = make_method("pepita", net).double()
    slopes = dict(zip(dict(net.named_parameters()), slopes_of(rule, net, x, y), strict=True))
    logits, stream = net(x, return_hidden=True)
    _, moved = net(x + output_error(logits, y) @ rule.state_dict()["F"], return_hidden=True)
    expected = [(h - m).mean(0) for h, m in zip(stream, moved, strict=True)]
    names = ["embed.bias", *(f"blocks.{l}.w2.bias" for l in range(net.n_blocks))]
    same([slopes[name] for name in names], expected)


def test_forward_forward_is_the_goodness_of_the_right_label_and_of_a_wrong_one(net):
    x, y = batch(net.double())
    rule = make_method("ff", net).double()
    torch.manual_seed(3)
    loss, info = rule.loss(net, x, y)
    torch.manual_seed(3)
    wrong, total = (y + torch.randint(1, 10, y.shape)) % 10, 0.0
    for sign, labels in ((1, y), (-1, wrong)):
        given = x + F.one_hot(labels, 10).double() @ rule.state_dict()["F"]
        _, stream = net(given, return_hidden=True)
        outputs = [stream[0], *(after - before for before, after in pairwise(stream))]
        goodness = [output.square().mean(1) for output in outputs]
        total += sum(F.softplus(sign * (1.0 - one)).mean() for one in goodness)
    assert torch.allclose(loss - info.ce, total)
