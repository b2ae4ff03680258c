from __future__ import annotations

import copy
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fa_core.measure.group import bytes_per_member, signature
from fa_core.measure.group.signature import describe
from fa_core.measure.group.stack import is_residual_mlp
from fa_core.models import build
from tests.fa_core.measure.group.checks import samples


def closure(value: Any) -> Any:
    return lambda: value


class Slots:
    __slots__ = ("a",)

    def __init__(self, a: int) -> None:
        self.a = a


class Hiding:
    """An object that leaves out of its state what counts."""

    def __init__(self, a: int) -> None:
        self.a = a

    def __getstate__(self) -> dict[str, int]:
        return {}


SAME: list[Any] = [
    lambda: 1.5,
    lambda: float("nan"),
    lambda: [1, (2, {"a": {3, 4}})],
    lambda: closure(3),
    lambda: partial(max, 1, key=len),
    lambda: torch.arange(3.0),
    lambda: torch.ones(2, dtype=torch.bfloat16),
    lambda: np.arange(3),
    lambda: SimpleNamespace(a=[1]),
    lambda: Slots(1),
    lambda: torch.float32,
    lambda: nn.Linear,
    lambda: np,
]


@pytest.mark.parametrize("make", SAME)
def test_values_that_act_alike_are_described_alike(make: Any) -> None:
    assert describe(make()) == describe(make())
    assert hash(describe(make())) == hash(describe(make()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ([1], (1,)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (closure(1), closure(2)),
        (lambda x, k=1: x, lambda x, k=2: x),
        (partial(max, 1), partial(max, 2)),
        (torch.zeros(2), torch.zeros(2, 1)),
        (torch.zeros(2), torch.tensor([0.0, 1e-45])),
        (np.zeros(2), np.zeros(2, dtype=np.float32)),
        (SimpleNamespace(a=1), SimpleNamespace(a=2)),
        (Slots(1), Slots(2)),
        (Hiding(1), Hiding(1)),
        (threading.Lock(), threading.Lock()),
        (nn.Linear(1, 1), nn.Linear(1, 1)),
        (torch.relu, torch.tanh),
    ],
)
def test_values_that_may_act_differently_are_told_apart(one: Any, other: Any) -> None:
    assert describe(one) != describe(other)
    assert describe(one) == describe(one)


def test_a_value_that_contains_itself() -> None:
    def loop() -> list[Any]:
        items: list[Any] = [1]
        items.append(items)
        return items

    assert describe(loop()) == describe(loop())


@pytest.mark.parametrize("arch", ["resmlp", "studentnet", "smallcnn", "vit_mini"])
def test_networks_of_one_kind_have_one_signature_in_any_state(arch: str) -> None:
    one, other = build(arch, seed=0), build(arch, seed=1).eval().requires_grad_(False)
    for parameter in one.parameters():
        parameter.grad = torch.ones_like(parameter)
    assert signature(one) == signature(other) == signature(copy.deepcopy(one))
    assert hash(signature(one)) == hash(signature(other))


def changed(change: Any) -> nn.Module:
    net = build("resmlp", input_dim=5, d=8, L=2, seed=0)
    change(net)
    return net


@pytest.mark.parametrize(
    "change",
    [
        lambda net: setattr(net.blocks[1].ln, "eps", 1e-3),
        lambda net: setattr(net.blocks[0], "fc1", nn.Linear(8, 16, bias=False)),
        lambda net: setattr(net, "out_ln", nn.Identity()),
        lambda net: setattr(net.blocks[1].fc1, "weight", net.blocks[0].fc1.weight),
        lambda net: setattr(net.blocks[1], "forward", lambda h: 2 * h),
        lambda net: net.register_buffer("extra", torch.zeros(1)),
        lambda net: setattr(net, "extra", [net.head.weight.detach().clone()]),
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
    assert signature(changed(change)) != signature(plain)


def test_the_taps_belong_to_the_signature() -> None:
    net = nn.Linear(2, 2)
    assert signature(net, "a") != signature(net, "b")
    assert signature(net, ["a", "b"]) == signature(net, ["a", "b"])


@pytest.mark.parametrize(
    "change",
    [
        lambda net: setattr(net.blocks[0], "forward", lambda h: h),
        lambda net: setattr(net, "out_ln", nn.BatchNorm1d(8)),
        lambda net: setattr(net.blocks[0].fc1, "bias", None),
        lambda net: net.out_ln.double(),
    ],
)
def test_a_built_in_network_that_was_altered_is_not_stacked_by_hand(change: Any) -> None:
    assert not is_residual_mlp(changed(change))
    assert is_residual_mlp(changed(lambda net: None))
    assert not is_residual_mlp(build("smallcnn"))


def test_a_member_takes_more_memory_with_more_samples_and_wider_weights() -> None:
    def needed(d: int, size: int, test: int, **to: Any) -> int:
        net = build("resmlp", input_dim=5, d=d, L=2, num_classes=4).to(**to)
        return bytes_per_member(net, samples((5,), 2, size), test)

    base = needed(8, 16, 32)
    weights = sum(p.nbytes for p in build("resmlp", input_dim=5, d=8, L=2, num_classes=4).parameters())
    # both copies of the weights, and at least the states and gradients of a batch
    assert base > 2 * weights + 2 * 3 * 16 * 8 * 4
    assert needed(16, 16, 32) > base
    assert needed(8, 64, 32) > base
    assert needed(8, 16, 4096) > base
    assert needed(8, 16, 32, dtype=torch.float16) < base


def test_a_network_that_cannot_run_still_weighs_something() -> None:
    net = build("resmlp", input_dim=7, d=8, L=2)
    assert bytes_per_member(net, samples((5,), 1, 8), 8) == 2 * sum(p.nbytes for p in net.parameters())
