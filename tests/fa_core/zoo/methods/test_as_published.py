"""Updates of rules by hand, and how far they are from those first published (docs/protocol.md §5)."""

import pytest
import torch

from fa_core.zoo.data import load_data
from fa_core.zoo.methods import make_method
from fa_core.zoo.models import build
from tests.fa_core.zoo.methods.credits import batch, credit_of, same, slopes_of
from tests.fa_core.zoo.methods.published import compared, local_gradients

SAME = (1 - 1e-9, 1 + 1e-9)

BANDS = {
    "pepita": {"embed": SAME, "w1": (0.0, 0.1), "w2": SAME, "out_head": (0.99, 1.0)},
    "ff": {"embed": SAME, "w1": (0.75, 0.92), "w2": SAME, "out_head": SAME},
}
"""Cosine of the update of each kind of weight with the published one, at init."""


@pytest.mark.parametrize("name", BANDS)
def test_an_update_is_as_far_from_the_published_one_as_is_said(name):
    data = load_data("synthetic:input=16,train=256,test=256")
    net = build("resmlp", input_dim=16, d=32, L=3, seed=0)
    found = compared(net, make_method(name, net, 0), data.test_x, data.test_y)
    assert found.keys() == BANDS[name].keys()
    for kind, (low, high) in BANDS[name].items():
        cosine, ratio = found[kind]
        assert low <= cosine <= high, f"{kind}: {cosine}"
        assert (low, high) != SAME or ratio == pytest.approx(1), kind


@pytest.mark.parametrize("lam", [0.0, 1e-2])
@pytest.mark.parametrize("name", ["fa", "dfa", "drtp"])
def test_every_gradient_of_a_local_loss_is_that_by_hand(name, lam, net):
    net = net.double()
    rule = make_method(name, net, seed=5).double()
    generator = torch.Generator().manual_seed(2)
    for parameter in net.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    x, y = batch(net, 7)
    by_hand = local_gradients(rule, net, x, y, lam)
    names = [key for key, _ in net.named_parameters()]
    assert by_hand.keys() == {*names}
    same(slopes_of(rule, net, x, y, lam), [by_hand[key] for key in names], 1e-9)


@pytest.mark.parametrize("name", ["fa", "dfa", "sparse_dfa"])
def test_tokens_that_nobody_reads_get_the_same_credit_as_the_one_that_is_read(name):
    """The cosine with a credit of the read token alone is 1/√T; the gradient of the others is 0 at h_L."""
    net = build("vit_mini", image=8, patch=2, d=16, L=2, seed=0)
    a, true = (credit_of(make_method(one, net), net, *batch(net, 4))[-1] for one in (name, "bp"))
    assert not true[:, 1:].any()
    read = torch.zeros_like(a)
    read[:, 0] = a[:, 0]
    cosine = torch.cosine_similarity(a.flatten(1), read.flatten(1))
    assert cosine.tolist() == pytest.approx([a.shape[1] ** -0.5] * 4, rel=1e-5)
