from __future__ import annotations

import copy
import threading
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fa_core.measure.group import bytes_per_member
from fa_core.measure.group.stack import difference, is_residual_mlp, obstacle
from fa_core.models import build
from tests.fa_core.measure.group.checks import samples


def closure(value: Any) -> Any:
    return lambda: value


@dataclass
class Config:
    powers: list[float]


class Hiding:
    """An object that leaves out of its state what counts."""

    def __init__(self, a: int) -> None:
        self.a = a

    def __getstate__(self) -> dict[str, int]:
        return {}


class Holder(nn.Module):
    """A network with an attribute."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1)
        self.value = value


def difference_of(one: Any, other: Any) -> str:
    return difference(Holder(one), Holder(other))


SAME: list[Any] = [
    lambda: 1.5,
    lambda: float("nan"),
    lambda: [1, (2, {"a": (3, "4")})],
    lambda: closure(3),
    lambda: torch.arange(3.0),
    lambda: torch.ones(2, dtype=torch.bfloat16),
    lambda: Config([1.0]),
    lambda: torch.float32,
    lambda: nn.Linear,
    lambda: np,
    lambda: torch.relu,
]


@pytest.mark.parametrize("make", SAME)
def test_attributes_that_act_alike_keep_no_networks_apart(make: Any) -> None:
    assert difference_of(make(), make()) == ""


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
        (Config([1.0]), Config([2.0])),
        (Hiding(1), Hiding(1)),
        (threading.Lock(), threading.Lock()),
        (nn.Linear(1, 1), nn.ELU()),
        ([nn.Linear(1, 1)], [nn.Linear(1, 1)]),
        (torch.relu, torch.tanh),
    ],
)
def test_attributes_that_may_act_differently_keep_networks_apart(one: Any, other: Any) -> None:
    assert difference_of(one, other) != ""
    assert difference(holder := Holder(one), holder) == ""


def test_an_attribute_that_contains_itself_cannot_be_compared() -> None:
    def loop() -> list[Any]:
        items: list[Any] = [1]
        items.append(items)
        return items

    assert difference_of(loop(), loop()) == "value differs"


def test_attributes_that_hold_modules_of_the_network_itself_are_compared_by_their_names() -> None:
    def network(at: int) -> nn.Module:
        net = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
        net.listed = [net[at]]
        return net

    assert difference(network(0), network(0)) == ""
    assert difference(network(0), network(1)) == "listed differs"


@pytest.mark.parametrize("arch", ["resmlp", "resmlp_wide", "studentnet", "smallcnn", "vit_mini"])
def test_networks_of_one_kind_do_not_differ_in_any_state(arch: str) -> None:
    one, other = build(arch, seed=0), build(arch, seed=1).eval().requires_grad_(False)
    for parameter in one.parameters():
        parameter.grad = torch.ones_like(parameter)
    assert difference(one, other) == difference(copy.deepcopy(one), one) == ""


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
    assert obstacle(changed(change)) or difference(changed(change), plain)
    assert obstacle(changed(change)) or difference(plain, changed(change))


@pytest.mark.parametrize(
    "change",
    [
        lambda net: setattr(net.blocks[0], "forward", lambda h: h),
        lambda net: setattr(net, "out_ln", nn.BatchNorm1d(8)),
        lambda net: setattr(net.blocks[0].w1, "bias", None),
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
