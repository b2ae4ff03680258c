"""What would give wrong numbers without a word if networks were stacked by their shapes alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.measure.group import measure_together
from fa_core.models import build
from tests.fa_core.measure.group.checks import assert_all_same, samples

BATCHES, TEST = samples((5,), 8, 16), samples((5,), 1, 40, seed=1)


def mlps(count: int) -> list[nn.Module]:
    return [
        build("resmlp", input_dim=5, d=8, L=1, num_classes=4, seed=seed) for seed in range(count)
    ]


class Own(nn.Module):
    """A user's network with attributes and buffers of its own."""

    def __init__(
        self, scale: float = 1.0, act: Callable[[Tensor], Tensor] = F.gelu, config: Any = None
    ) -> None:
        super().__init__()
        self.scale, self.act, self.config = scale, act, config or {"powers": [1.0]}
        self.embed, self.block, self.head = nn.Linear(5, 6), nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor, return_hidden: bool = False) -> object:
        first = self.embed(x)
        second = first + self.scale * self.config["powers"][-1] * self.act(self.block(first))
        return (self.head(second), [first, second]) if return_hidden else self.head(second)


@pytest.mark.parametrize(
    "differing",
    [
        {"scale": 3.0},
        {"act": F.relu},
        {"act": nn.Tanh()},
        {"config": {"powers": [2.0]}},
        {"act": lambda h: h * h},
    ],
    ids=["number", "function", "module", "nested", "lambda"],
)
def test_an_attribute_that_differs(differing: dict[str, Any]) -> None:
    assert_all_same([Own(), Own(**differing), Own()], BATCHES, TEST)


def test_a_class_derived_from_a_built_in_one(alone: list[nn.Module]) -> None:
    class Doubled(type(mlps(1)[0])):  # type: ignore[misc]
        def branch(self, l: int, h: Tensor) -> Tensor:
            return 2 * super().branch(l, h)

    nets = [Doubled(input_dim=5, d=8, L=1, num_classes=4) for _ in range(2)]
    assert_all_same(nets, BATCHES, TEST)
    assert alone == nets


def test_mixed_dtypes(alone: list[nn.Module]) -> None:
    one, double, half, other = mlps(4)
    nets = [one, double.double(), half.half(), other]
    assert_all_same(nets, BATCHES, TEST)
    assert set(alone) == set(nets[1:3])


def test_a_network_of_two_dtypes_fails_by_itself_only(alone: list[nn.Module]) -> None:
    nets = mlps(3)
    nets[0].out_ln.double()
    members = measure_together(nets, BATCHES, TEST)
    assert "the network failed on inputs" in str(members[0].error)
    assert_all_same(nets[1:], BATCHES, TEST)
    assert alone == [nets[0]]


@pytest.mark.parametrize("how", ["half", "autocast"])
def test_half_precision_as_it_runs_is_not_regrouped(how: str, alone: list[nn.Module]) -> None:
    nets = mlps(2)
    if how == "half":
        nets = [net.bfloat16() for net in nets]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=how == "autocast"):
        assert_all_same(nets, BATCHES, TEST, dtype="as-is")
    assert alone == nets


def test_hooks_of_the_users_run() -> None:
    nets = mlps(3)
    handle = nets[1].blocks[0].register_forward_hook(lambda module, args, output: 5 * output)
    members = measure_together(nets, BATCHES, TEST)
    assert_all_same(nets, BATCHES, TEST)
    assert members[1].note.startswith("not stacked with the others")
    assert [members[0].note, members[2].note] == ["", ""]
    handle.remove()


@pytest.mark.parametrize("kind", ["weight_norm", "old_weight_norm"])
def test_weights_that_are_computed_from_others(kind: str) -> None:
    nets = mlps(3)
    for net in nets:
        (nn.utils.parametrizations if kind == "weight_norm" else nn.utils).weight_norm(
            net.blocks[0].w1
        )
    assert_all_same(nets, BATCHES, TEST)
