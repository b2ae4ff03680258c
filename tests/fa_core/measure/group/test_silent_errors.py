"""What would give wrong numbers without a word if networks were stacked by their shapes alone."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.measure.group import measure_together
from fa_core.models import build
from tests.fa_core.measure.group.checks import assert_all_same, samples
from tests.fa_core.measure.nets import Hookable, Residual

BATCHES, TEST = samples((5,), 8, 16), samples((5,), 1, 40, seed=1)


class Own(nn.Module):
    """A user's network with attributes and buffers of its own."""

    def __init__(self, scale: float = 1.0, act: Callable[[Tensor], Tensor] = F.gelu, config: Any = None) -> None:
        super().__init__()
        self.scale, self.act, self.config = scale, act, config or {"powers": [1.0]}
        self.embed, self.block, self.head = nn.Linear(5, 6), nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor, return_hidden: bool = False) -> object:
        first = self.embed(x)
        second = first + self.scale * self.config["powers"][-1] * self.act(self.block(first))
        return (self.head(second), [first, second]) if return_hidden else self.head(second)


@pytest.mark.parametrize(
    ("differing", "words"),
    [
        ({"scale": 3.0}, "scale differs"),
        ({"act": F.relu}, "act differs"),
        ({"act": nn.Tanh()}, "the network is made of other modules"),
        ({"config": {"powers": [2.0]}}, "config differs"),
        ({"act": lambda h: h * h}, "act differs"),
    ],
    ids=["number", "function", "module", "nested", "lambda"],
)
def test_an_attribute_that_differs(differing: dict[str, Any], words: str, alone: list[nn.Module]) -> None:
    nets = [Own(), Own(**differing), Own()]
    assert_all_same(nets, BATCHES, TEST)
    assert [net is nets[1] for net in alone[:1]] == [True]
    assert measure_together(nets, BATCHES, TEST)[1].note == f"not stacked with the others: {words}"


def test_another_dtype_says_which_and_which_the_others_have(alone: list[nn.Module]) -> None:
    nets = [Own(), Own().double(), Own()]
    note = measure_together(nets, BATCHES, TEST)[1].note
    assert alone == [nets[1]]
    assert re.fullmatch(r"not stacked with the others: [\w.]+ is float64, float32 in theirs", note)


@pytest.mark.parametrize("first_has_it", [False, True])
def test_a_buffer_that_only_some_have(first_has_it: bool, alone: list[nn.Module]) -> None:
    class Shifted(Own):
        def __init__(self, shifted: bool) -> None:
            super().__init__()
            self.register_buffer("shift", torch.ones(6) if shifted else None)

        def forward(self, x: Tensor, return_hidden: bool = False) -> object:
            first = self.embed(x) if self.shift is None else self.embed(x) + self.shift
            return (self.head(first), [first, self.block(first)]) if return_hidden else self.head(first)

    nets = [Shifted(first_has_it), Shifted(not first_has_it), Shifted(not first_has_it)]
    members = measure_together(nets, BATCHES, TEST, taps="embed")
    assert_all_same(nets, BATCHES, TEST, taps="embed")
    assert alone == [nets[0]] * 2
    assert members[0].note == "not stacked with the others: shift differs"


def test_a_tensor_that_is_neither_parameter_nor_buffer(alone: list[nn.Module]) -> None:
    nets = [Own(config={"powers": torch.tensor([factor])}) for factor in (1.0, 1.0, 4.0)]
    assert_all_same(nets, BATCHES, TEST)
    assert alone == [nets[2]]


def test_mixed_dtypes(alone: list[nn.Module]) -> None:
    nets = [Own(), Own().double(), Own().half(), Own()]
    assert_all_same(nets, BATCHES, TEST)
    assert set(alone) == set(nets[1:3])


def test_a_network_of_two_dtypes_fails_by_itself_only(alone: list[nn.Module]) -> None:
    nets = [build("resmlp", input_dim=5, d=8, L=1, num_classes=4, seed=seed) for seed in range(3)]
    nets[0].out_ln.double()
    members = measure_together(nets, BATCHES, TEST)
    assert "the network failed on inputs" in str(members[0].error)
    assert_all_same(nets[1:], BATCHES, TEST)
    assert alone == [nets[0]]


def test_an_in_place_residual_tapped_by_name(alone: list[nn.Module]) -> None:
    nets = [Hookable(Residual(inplace=True)) for _ in range(3)]
    assert_all_same(nets, BATCHES, TEST, taps="embed,blocks.*")
    assert not alone
    report = measure_together(nets, BATCHES, TEST, taps="embed,blocks.*")[0].diagnosis.report()
    assert len(set(report.residual_norms)) == len(set(report.bp_grad_norms)) == 4


def test_an_in_place_residual_that_returns_its_states_is_refused_as_by_itself(alone: list[nn.Module]) -> None:
    nets = [Residual(inplace=True) for _ in range(2)]
    for member in measure_together(nets, BATCHES, TEST):
        assert "share memory that was written in place" in str(member.error)
    assert len(alone) == 2


@pytest.mark.parametrize(
    "show",
    [torch.clone, lambda h: h[:], lambda h: h[..., :3], lambda h: h.view(-1, 6), lambda h: h[:, None].transpose(1, 2)],
    ids=["copy", "view", "slice", "reshaped", "transposed"],
)
def test_a_returned_state_beside_the_path_to_the_logits(
    show: Callable[[Tensor], Tensor], alone: list[nn.Module]
) -> None:
    nets = [Residual(kind="gelu") for _ in range(3)]
    for net in nets:
        net.show = show
    assert_all_same(nets, BATCHES, TEST)
    assert not alone


def test_a_returned_state_that_the_logits_do_not_depend_on_is_refused_as_by_itself() -> None:
    nets = [Residual() for _ in range(2)]
    for net in nets:
        net.show = torch.sin
    assert all("do not depend on tap 0" in str(member.error) for member in measure_together(nets, BATCHES, TEST))


@pytest.mark.parametrize("how", ["half", "autocast"])
def test_half_precision_as_it_runs_is_not_regrouped(how: str, alone: list[nn.Module]) -> None:
    nets = [build("resmlp", input_dim=5, d=8, L=1, num_classes=4, seed=seed) for seed in range(2)]
    if how == "half":
        nets = [net.bfloat16() for net in nets]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=how == "autocast"):
        members = measure_together(nets, BATCHES, TEST, dtype="as-is")
        assert_all_same(nets, BATCHES, TEST, dtype="as-is")
    assert len(alone) == 4
    assert {member.note for member in members} == {
        "2 runs measured one by one: half precision as it runs rounds differently in a group"
    }


def test_an_attribute_that_changes_while_it_runs(alone: list[nn.Module]) -> None:
    class Counting(Own):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor, return_hidden: bool = False) -> object:
            self.calls += 1
            first = self.embed(x) * self.calls
            return (self.head(first), [first]) if return_hidden else self.head(first)

    nets = [Counting() for _ in range(2)]
    assert_all_same(nets, BATCHES, TEST)
    assert alone == nets


def test_a_buffer_that_is_replaced_while_it_runs(alone: list[nn.Module]) -> None:
    class Counting(Own):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor, return_hidden: bool = False) -> object:
            self.calls = self.calls + 1
            first = self.embed(x) * self.calls
            return (self.head(first), [first]) if return_hidden else self.head(first)

    nets = [Counting() for _ in range(2)]
    assert_all_same(nets, BATCHES, TEST)
    assert alone == nets


def test_a_backward_pass_of_ones_own_is_told_in_the_report(alone: list[nn.Module]) -> None:
    class Feedback(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(h: Tensor, weight: Tensor) -> Tensor:
            return h @ weight.T

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return g.sum(-1, keepdim=True).expand(-1, 6), None

    class Aligned(Own):
        def forward(self, x: Tensor, return_hidden: bool = False) -> object:
            first = self.embed(x)
            logits = Feedback.apply(first, self.head.weight)
            return (logits, [first]) if return_hidden else logits

    nets = [Aligned() for _ in range(2)]
    members = measure_together(nets, BATCHES, TEST)
    assert [member.diagnosis.report().provenance["custom_backward"] for member in members] == [["Feedback"]] * 2
    assert [member.diagnosis.report().credit["gamma"][0] < 0.99 for member in members] == [True] * 2
    assert members[0].note == "2 runs measured one by one: part of its backward pass is its own"


def test_hooks_of_the_users_run() -> None:
    nets = [Own() for _ in range(3)]
    handle = nets[1].block.register_forward_hook(lambda module, args, output: 5 * output)
    members = measure_together(nets, BATCHES, TEST)
    assert_all_same(nets, BATCHES, TEST)
    assert members[1].note == "not stacked with the others: module block has hooks"
    assert [members[0].note, members[2].note] == ["", ""]
    handle.remove()


@pytest.mark.parametrize("make", ["attention", "weight_norm", "old_weight_norm", "branching", "random"])
def test_what_torch_func_cannot_carry_is_measured_one_by_one_and_says_so(make: str, alone: list[nn.Module]) -> None:
    class Branching(Own):
        def forward(self, x: Tensor, return_hidden: bool = False) -> object:
            first = self.embed(x)
            first = 2 * first if first.sum() > 0 else first
            return (self.head(first), [first]) if return_hidden else self.head(first)

    class Attending(Own):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)

        def forward(self, x: Tensor, return_hidden: bool = False) -> object:
            first = self.embed(x)
            second = self.mix(first[:, None])[:, 0]
            return (self.head(second), [first, second]) if return_hidden else self.head(second)

    class Random(Own):
        def forward(self, x: Tensor, return_hidden: bool = False) -> object:
            first = self.embed(x) + 0 * torch.randn(6)
            return (self.head(first), [first]) if return_hidden else self.head(first)

    def network() -> nn.Module:
        if make in ("weight_norm", "old_weight_norm"):
            net = Own()
            kind = nn.utils.parametrizations if make == "weight_norm" else nn.utils
            kind.weight_norm(net.block)
            return net
        return {"attention": Attending, "branching": Branching, "random": Random}[make]()

    nets = [network() for _ in range(2)]
    members = measure_together(nets, BATCHES, TEST)
    assert alone == nets
    notes = {
        "attention": "2 runs measured one by one: torch.func has no batched form of one of its operations",
        "weight_norm": "none of the 2 runs is stacked with another: the weights of block are computed from others (",
        "old_weight_norm": "none of the 2 runs is stacked with another: module block has hooks",
        "branching": "2 runs measured one by one: torch.func cannot run it (",
        "random": "2 runs measured one by one: torch.func cannot run it (",
    }
    assert all(member.note.startswith(notes[make]) for member in members), members[0].note
    assert all(math.isfinite(member.diagnosis.report().g_L) for member in members)
