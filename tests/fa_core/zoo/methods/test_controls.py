"""The controls train exactly what they say."""

import pytest
import torch

from fa_core.zoo.methods import METHODS, make_method, method_class
from fa_core.zoo.models import build
from tests.fa_core.zoo.methods.credits import batch, credit_of, train, weights_now

SHALLOW = method_class("shallow").adapt_arch_args({"input_dim": 12, "d": 16, "L": 4})
HEADS = {"embed", "out_ln", "out_head"}
TRAINED = {
    name: HEADS if name in ("frozen", "shallow") else HEADS | {"blocks"}
    for name in sorted(METHODS.keys() - {"random_init"})
}


@pytest.mark.parametrize("name", TRAINED)
def test_a_method_trains_the_whole_network_or_what_its_control_says(name, net):
    if name == "shallow":
        net = build("resmlp", seed=0, **SHALLOW)
        assert net.n_blocks == 0
    before = weights_now(net)
    train(make_method(name, net), net, 3, lam=1e-3)
    after = net.state_dict().items()
    moved = {key.split(".")[0] for key, value in after if not torch.equal(value, before[key])}
    assert moved == TRAINED[name]


@pytest.mark.parametrize("of", ["bp", "dfa"])
def test_a_frozen_net_uses_its_rules_credit_at_the_embedding_only(of, net):
    x, y = batch(net)
    first, *others = credit_of(make_method("frozen", net, of=of), net, x, y)
    assert torch.equal(first, credit_of(make_method(of, net), net, x, y)[0])
    assert others == [None] * net.n_blocks


def test_frozen_weights_stay_while_their_feedback_learns(net):
    before = weights_now(net.blocks)
    train(make_method("frozen", net, of="dtp"), net, 3)
    assert all(torch.equal(value, before[key]) for key, value in net.blocks.state_dict().items())


def test_random_init_has_nothing_to_train_and_no_credit(net):
    method = make_method("random_init", net)
    assert method.trained_parameters(net) == []
    assert credit_of(method, net, *batch(net)) == [None] * 4


def test_random_targets_are_new_at_every_step_and_the_same_under_a_seed(net):
    x, y = batch(net, 200)
    first, second = (make_method("random_targets", net, seed=1, of="dfa") for _ in range(2))
    drawn = [first.loss(net, x, y)[1].y for _ in range(2)]
    assert not torch.equal(drawn[0], drawn[1])
    assert torch.equal(second.loss(net, x, y)[1].y, drawn[0])
    assert (drawn[0] == y).float().mean() < 0.25
    assert len(set(drawn[0].tolist())) == 10
