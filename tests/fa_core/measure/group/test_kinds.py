from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from fa_core.measure.group import Request, kind
from fa_core.measure.vmapped import bytes_per_member
from fa_core.models import ARCHS, build
from tests.fa_core.measure.group.checks import samples

REQUEST = Request([], [], None, 1, None, False)


@pytest.mark.parametrize("arch", ARCHS)
def test_networks_of_one_kind_do_not_differ_in_any_state(arch: str) -> None:
    one, other = build(arch, seed=0), build(arch, seed=1).eval().requires_grad_(False)
    for parameter in one.parameters():
        parameter.grad = torch.ones_like(parameter)
    assert (
        kind(one, REQUEST) == kind(other, REQUEST) == kind(copy.deepcopy(one), REQUEST) is not None
    )


def changed(change: Any) -> nn.Module:
    net = build("resmlp", input_dim=5, d=8, L=2, seed=0)
    change(net)
    return net


@pytest.mark.parametrize(
    "change",
    [
        lambda net: setattr(net.blocks[1].ln, "eps", 1e-3),
        lambda net: setattr(net.blocks[0], "w1", nn.Linear(8, 8, bias=False)),
        lambda net: setattr(net, "out_ln", nn.Identity()),
        lambda net: setattr(net.blocks[1].w1, "weight", net.blocks[0].w1.weight),
        lambda net: setattr(net.blocks[1], "forward", lambda h: 2 * h),
        lambda net: net.register_buffer("extra", torch.zeros(1)),
        lambda net: setattr(net.blocks[0].w1, "bias", None),
        lambda net: setattr(net, "out_ln", nn.BatchNorm1d(8)),
        lambda net: net.blocks.append(nn.Identity()),
        lambda net: net.double(),
        lambda net: net.head.half(),
        lambda net: net.to("meta"),
        lambda net: net.head.register_forward_pre_hook(lambda *_: None),
        lambda net: setattr(net.blocks[0], "__class__", type("Other", (type(net.blocks[0]),), {})),
    ],
)
def test_every_difference_that_counts_shows(change: Any) -> None:
    plain = build("resmlp", input_dim=5, d=8, L=2, seed=1)
    assert kind(changed(change), REQUEST) != kind(plain, REQUEST)


def test_a_member_takes_more_memory_with_more_samples_and_wider_weights() -> None:
    def needed(d: int, size: int, test: int, **to: Any) -> int:
        net = build("resmlp", input_dim=5, d=d, L=2, num_classes=4).to(**to)
        return bytes_per_member(net, samples((5,), 2, size), test)

    base = needed(8, 16, 32)
    weights = sum(
        p.nbytes for p in build("resmlp", input_dim=5, d=8, L=2, num_classes=4).parameters()
    )
    # both copies of the weights, and at least the states and gradients of a batch
    assert base > 2 * weights + 2 * 3 * 16 * 8 * 4
    assert needed(16, 16, 32) > base
    assert needed(8, 64, 32) > base
    assert needed(8, 16, 4096) > base
    assert needed(8, 16, 32, dtype=torch.float16) < base


def test_a_network_that_cannot_run_still_weighs_something() -> None:
    net = build("resmlp", input_dim=7, d=8, L=2)
    assert bytes_per_member(net, samples((5,), 1, 8), 8) == 2 * sum(
        p.nbytes for p in net.parameters()
    )
