"""The controls train exactly what they say."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fa_core.errors import UsageError
from fa_core.methods import METHODS, make_method, method_class
from fa_core.models import StreamNet, build
from tests.fa_core.methods.conftest import Batch


def moved(net: StreamNet, name: str, batch: Batch, **args: Any) -> set[str]:
    """Top-level parts of the network that three steps change."""
    before = {key: value.detach().clone() for key, value in net.named_parameters()}
    method = make_method(name, net, **args)
    optimizer = torch.optim.AdamW(method.trained_parameters(net), lr=1e-2)
    x, y = batch(net, 6)
    for _ in range(3):
        loss, info = method.loss(net, x, y, 1e-3)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        method.extra_step(net, info)
    return {
        key.split(".")[0]
        for key, value in net.named_parameters()
        if not torch.equal(value, before[key])
    }


def test_frozen_blocks_keep_their_initial_weights(net: StreamNet, batch: Batch) -> None:
    assert moved(net, "frozen", batch) == {"embed", "out_ln", "out_head"}


@pytest.mark.parametrize("name", sorted(METHODS.keys() - {"frozen", "shallow", "random_init"}))
def test_all_other_methods_train_the_whole_network(name: str, net: StreamNet, batch: Batch) -> None:
    assert moved(net, name, batch) == {"embed", "blocks", "out_ln", "out_head"}


@pytest.mark.parametrize("of", ["bp", "dfa"])
def test_a_frozen_net_uses_its_rules_credit_at_the_embedding_only(
    of: str, net: StreamNet, batch: Batch
) -> None:
    x, y = batch(net, 6)
    logits, stream = net(x, return_hidden=True)
    first, *others = make_method("frozen", net, of=of).credit(net, stream, logits, y)
    expected = make_method(of, net).credit(net, stream, logits, y)[0]
    assert first is not None and expected is not None
    assert torch.equal(first, expected)
    assert others == [None] * net.n_blocks


def test_a_control_trains_by_no_control(net: StreamNet) -> None:
    with pytest.raises(UsageError, match="shallow"):
        make_method("frozen", net, of="shallow")


def test_shallow_is_the_network_without_blocks(batch: Batch) -> None:
    args = method_class("shallow").adapt_arch_args({"input_dim": 12, "d": 16, "L": 4})
    net = build("resmlp", seed=0, **args)
    assert net.n_blocks == 0
    assert moved(net, "shallow", batch) == {"embed", "out_ln", "out_head"}


def test_shallow_refuses_a_network_with_blocks(net: StreamNet) -> None:
    with pytest.raises(UsageError, match="L=3"):
        make_method("shallow", net)


def test_random_init_has_nothing_to_train_and_no_credit(net: StreamNet, batch: Batch) -> None:
    x, y = batch(net, 6)
    method = make_method("random_init", net)
    logits, stream = net(x, return_hidden=True)
    assert not method.trains
    assert method.trained_parameters(net) == []
    assert method.credit(net, stream, logits, y) == [None] * 4


def test_random_targets_are_new_at_every_step_and_the_same_under_a_seed(
    net: StreamNet, batch: Batch
) -> None:
    x, y = batch(net, 200)
    first, second = (make_method("random_targets", net, seed=1, of="dfa") for _ in range(2))
    drawn = [first.loss(net, x, y)[1].y for _ in range(2)]
    assert not torch.equal(drawn[0], drawn[1])
    assert torch.equal(second.loss(net, x, y)[1].y, drawn[0])
    assert (drawn[0] == y).float().mean() < 0.25
    assert len(set(drawn[0].tolist())) == 10


def test_random_targets_train_a_rule_that_trains(net: StreamNet) -> None:
    with pytest.raises(UsageError, match="random_init"):
        make_method("random_targets", net, of="random_init")
