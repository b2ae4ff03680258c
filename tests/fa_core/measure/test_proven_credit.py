"""The credit of networks that bring their own backward pass: the vector that trains, or none."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fa_core import diagnose
from tests.field.credit_nets import FeedbackLinear, Instead

WIDTH, CLASSES, DEPTH = 6, 4, 3


class Direct(nn.Module):
    """tanh(W·h) in every block, each trained by e_T·B_l in one way of writing that.

    The error is computed in the forward, from labels that stand in the first columns of the input.
    """

    def __init__(self, how="plain"):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(Block(how, 8 if l == 0 else WIDTH) for l in range(DEPTH))
        self.head = nn.Linear(WIDTH, CLASSES)
        self.how = how
        if how == "tied":
            self.blocks[2].lin = self.blocks[1].lin
        self.double()

    def error(self, x, y=None):
        """(e_T at the labels, /B), by plain operations."""
        with torch.no_grad():
            h = x
            for block in self.blocks:
                h = torch.tanh(F.linear(h, block.lin.weight, block.lin.bias))
            y = x[:, :CLASSES].argmax(1) if y is None else y
            return (self.head(h).softmax(1) - F.one_hot(y, CLASSES)) / len(x)

    def forward(self, x):
        if self.how != "stored":
            error = self.error(x)
        h = x
        for block in self.blocks:
            if self.how != "stored":
                block.a = error @ block.feedback
            h = block(h)
            if self.how == "hook by the next" and h.requires_grad:
                h.register_hook(lambda g, a=block.a: a)
        return self.head(h)


class Block(nn.Module):
    def __init__(self, how, inputs):
        super().__init__()
        self.lin = nn.Linear(inputs, WIDTH)
        self.register_buffer("feedback", torch.randn(CLASSES, WIDTH))
        self.how, self.a = how, None
        if how == "module hook":
            self.out = nn.Identity()
            self.out.register_full_backward_hook(lambda module, given, got: (self.a,))

    def forward(self, h):
        h = torch.tanh(self.lin(h))
        if self.how in ("hook", "stored", "tied") and h.requires_grad:
            h.register_hook(lambda g: 1 * self.a)
        if self.how == "Function":
            h = Instead.apply(h, self.a)
        if self.how == "copied":
            h = Instead.apply(h.clone(), self.a).clone()
        if self.how == "module hook":
            h = self.out(h)
        if self.how == "partly":
            h.register_hook(lambda g: self.a)
            h = h + torch.sin(self.lin.bias)
        return h


def data(k=8, size=32):
    found = []
    for index in range(k):
        x = torch.randn(size, 8, generator=torch.Generator().manual_seed(index)).double()
        y = x[:, :CLASSES].argmax(1)
        x[:, :CLASSES] = F.one_hot(y, CLASSES)
        found.append((x, y))
    return found


def plain_gradients(net, x, y):
    """(h_0..h_2, g_0..g_2, e_T/B) by the formula of the network."""
    hidden, h = [], x
    for block in net.blocks:
        h = torch.tanh(F.linear(h, block.lin.weight, block.lin.bias))
        hidden.append(h)
    logits = net.head(h)
    gradients = torch.autograd.grad(F.cross_entropy(logits, y), hidden)
    error = (logits.softmax(1) - torch.eye(CLASSES).to(x)[y]).detach() / len(x)
    return hidden, gradients, error


def expected_gammas(net):
    """cos(e_T·B_l, g_l); each e_T·B_l by its weights' gradients is what trains block l."""
    x, y = data(1)[0]
    hidden, gradients, error = plain_gradients(net, x, y)
    net.zero_grad()
    F.cross_entropy(net(x), y).backward()
    gammas = []
    for l, block in enumerate(net.blocks):
        a = error @ block.feedback
        into = x if l == 0 else hidden[l - 1]
        if net.how != "tied" or l == 0:
            written = (a * (1 - hidden[l] ** 2)).T @ into
            assert torch.allclose(block.lin.weight.grad, written)
        gammas.append(F.cosine_similarity(1e9 * a, 1e9 * gradients[l]).mean().item())
    return gammas


def measured(net, batches=None):
    return diagnose(net, batches or data(), taps=["blocks.*"])


AT_THE_TAP = ["hook", "hook by the next", "Function", "copied", "module hook", "tied"]


@pytest.mark.parametrize("how", AT_THE_TAP)
def test_gamma_is_of_the_vector_that_trains_the_block_wherever_it_comes_in(how):
    net, twin = Direct(how), Direct()
    report = measured(net)
    assert report.credit["gamma"] == pytest.approx(expected_gammas(net), abs=1e-12)
    assert report.credit["deep_layers"] == [1, 2] and "gamma" not in report.unmeasured
    if how == "tied":
        twin.blocks[2].lin = twin.blocks[1].lin
    expected = measured(twin)
    assert report.bp_grad_norms == pytest.approx(expected.bp_grad_norms, rel=1e-12)
    assert report.cross_batch_stability == pytest.approx(expected.cross_batch_stability, abs=1e-12)
    assert report.credit["deep_gamma"] == pytest.approx(sum(report.credit["gamma"][1:]) / 2)


def with_stored_error(net, batches):
    x, y = batches
    for block in net.blocks:
        block.a = net.error(x, y) @ block.feedback
    return net


def test_an_error_that_is_stored_gives_no_gamma_also_if_it_is_that_of_the_batch():
    for stored in (data()[5], data()[0]):
        report = measured(with_stored_error(Direct("stored"), stored))
        assert "gamma" not in report.credit and report.deep_gamma is None
        assert "reads a stored error" in report.unmeasured["gamma"]
        assert report.coverage == "abc"
    assert report.bp_grad_norms == pytest.approx(measured(Direct()).bp_grad_norms, rel=1e-12)


def test_a_hook_that_raises_is_named_and_costs_gamma_alone():
    expected = measured(Direct())
    for net in (Direct("stored"), with_stored_error(Direct("stored"), data(size=16)[0])):
        report = measured(net)
        assert report.bp_grad_norms == pytest.approx(expected.bp_grad_norms, rel=1e-12)
        assert report.cross_batch_stability == pytest.approx(expected.cross_batch_stability)
        assert "own backward pass (tensor hook) fails, not its forward" in str(report)


def test_a_vector_that_trains_a_part_of_the_block_only_is_no_credit():
    report = measured(Direct("partly"))
    assert "not shown to train the parameters before it" in report.unmeasured["gamma"]


class Thrown(nn.Module):
    """h + f(h), where a hook gives f another vector: the stream's own trains nothing."""

    def __init__(self):
        super().__init__()
        self.f = nn.Linear(WIDTH, WIDTH)

    def forward(self, h):
        u = self.f(h)
        u.register_hook(lambda g: torch.roll(g, 1, 1))
        return h + u


def test_a_vector_that_is_thrown_away_is_none_and_the_layers_are_named():
    net = nn.Sequential(nn.Linear(8, WIDTH), Thrown(), Thrown(), nn.Linear(WIDTH, CLASSES)).double()
    report = diagnose(net, data(), taps="0,1,2")
    gammas = report.credit["gamma"]
    assert gammas[1:] == [None, None] and 0 < gammas[0] < 0.999
    assert report.credit["deep_gamma"] is None and report.credit["deep_layers"] == []
    assert "h_1, h_2" in report.unmeasured["gamma"]


class Fed(nn.Linear):
    def forward(self, h):
        return FeedbackLinear.apply(h, self.weight, torch.sin(self.weight))


def test_rows_of_layers_hand_credit_through_those_without_parameters():
    net = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), Fed(6, 6), nn.Tanh(), Fed(6, 4)).double()
    report = diagnose(net, data(), taps="0,1,2,3")
    x, y = data(1)[0]
    h = [net[0](x)]
    h.append(h[0].tanh())
    h.append(h[1] @ net[2].weight.T)
    h.append(h[2].tanh())
    logits = h[3] @ net[4].weight.T
    gradients = torch.autograd.grad(F.cross_entropy(logits, y), h)
    a = {3: (logits.softmax(1) - torch.eye(4)[y]) @ net[4].weight.sin()}
    a[2] = a[3] * (1 - h[3] ** 2)
    a[1] = a[2] @ net[2].weight.sin()
    a[0] = a[1] * (1 - h[1] ** 2)
    wanted = [F.cosine_similarity(a[l], 1e9 * gradients[l]).mean().item() for l in range(4)]
    assert report.credit["gamma"] == pytest.approx(wanted, abs=1e-12)


def test_lost_credit_leaves_deep_gamma_undefined_and_names_the_layer():
    net = Direct("hook")
    net.blocks[1].feedback.zero_()
    report = measured(net)
    wanted = expected_gammas(net)
    assert report.credit["gamma"][2] == pytest.approx(wanted[2], abs=1e-12)
    assert report.credit["gamma"][1] is None and report.credit["zeros"][1] == 1.0
    assert report.credit["deep_gamma"] is None
    assert "0 at l = 1" in report.credit["aggregation"]
