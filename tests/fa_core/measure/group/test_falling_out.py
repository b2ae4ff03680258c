"""One bad network does not hurt the others."""

from __future__ import annotations

import math
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fa_core.errors import FaError, MeasureError, UsageError
from fa_core.measure import group
from fa_core.measure.accumulator import CannotStack
from fa_core.measure.accuracy import accuracy
from fa_core.measure.diagnose import diagnose
from fa_core.measure.group import measure_together
from fa_core.models import build
from tests.fa_core.measure.group.checks import assert_same, bits, samples
from tests.fa_core.measure.nets import Residual

BATCHES, TEST = samples((5,), 8, 16), samples((5,), 1, 40, seed=1)


def mlps(count: int, **args: Any) -> list[nn.Module]:
    sizes = {"input_dim": 5, "d": 8, "L": 2, "num_classes": 4, **args}
    return [build("resmlp", seed=seed, **sizes) for seed in range(count)]


def cnns(count: int) -> list[nn.Module]:
    return [
        build("smallcnn", image=8, width=2, d=4, num_classes=4, seed=seed) for seed in range(count)
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1e38])
@pytest.mark.parametrize("kind", ["resmlp", "smallcnn"])
def test_a_broken_member_leaves_the_others_as_they_are_to_the_last_bit(
    kind: str, value: float, dtype: torch.dtype, alone: list[nn.Module]
) -> None:
    nets = [net.to(dtype) for net in (mlps(3) if kind == "resmlp" else cnns(3))]
    shape = (5,) if kind == "resmlp" else (3, 8, 8)
    batches, test = samples(shape, 8, 16), samples(shape, 1, 40)
    healthy = measure_together(nets, batches, test)
    with torch.no_grad():
        next(nets[1].blocks[0].parameters())[0] = value
    members = measure_together(nets, batches, test)
    assert [bits(members[at]) for at in (0, 2)] == [bits(healthy[at]) for at in (0, 2)]
    broken = members[1].diagnosis.report()
    # where a sum over padding meets an infinity, NaN or not depends on the order of the convolution
    if kind == "resmlp" or not math.isinf(value):
        assert_same(members[1], nets[1], batches, test)
    assert broken.verdict == diagnose(nets[1], batches).verdict
    assert math.isfinite(value) or broken.verdict.startswith("needs walk-back")
    assert not alone


def test_a_member_whose_weights_are_all_zero(alone: list[nn.Module]) -> None:
    nets = mlps(3)
    with torch.no_grad():
        nets[1].head.weight.zero_()
    members = measure_together(nets, BATCHES, TEST)
    for member, net in zip(members, nets, strict=True):
        assert_same(member, net, BATCHES, TEST)
    assert "mean gradient of eval batch 0 is zero" in members[1].diagnosis.report().unmeasured["c"]
    assert not alone


def test_a_vit_without_gradients_is_read_in_another_way_and_takes_its_group_apart(
    alone: list[nn.Module],
) -> None:
    nets = [
        build("vit_mini", image=8, d=8, L=2, heads=2, num_classes=4, seed=seed) for seed in range(3)
    ]
    with torch.no_grad():
        nets[1].head.weight.zero_()
    batches, test = samples((3, 8, 8), 8, 8), samples((3, 8, 8), 1, 8)
    members = measure_together(nets, batches, test)
    for member, net in zip(members, nets, strict=True):
        assert_same(member, net, batches, test)
    assert alone == nets
    assert (
        members[1].note
        == "3 runs measured one by one: their states are read cls token or flattened"
    )


def test_other_shapes_fall_out_of_the_group(alone: list[nn.Module]) -> None:
    nets = [*mlps(2), *mlps(1, d=12), *mlps(1, L=3)]
    members = measure_together(nets, BATCHES, TEST)
    for member, net in zip(members, nets, strict=True):
        assert_same(member, net, BATCHES, TEST)
    assert set(alone) == set(nets[2:])
    assert [bool(member.note) for member in members] == [False, False, True, True]


def test_what_is_left_out_says_why() -> None:
    nets = [*mlps(2), *(mlp.double() for mlp in mlps(1)), *mlps(1, d=12), Residual()]
    notes = [member.note for member in measure_together(nets, BATCHES, TEST)]
    assert notes == ["", ""] + [group.NOT_VMAPPED] * 3


def test_members_keep_their_places_whatever_is_mixed() -> None:
    nets = [mlps(1)[0], Residual(), *mlps(2)[1:], Residual()]
    for member, net in zip(measure_together(nets, BATCHES, TEST), nets, strict=True):
        assert_same(member, net, BATCHES, TEST)


def test_a_member_that_raises_gives_its_error_and_nothing_else() -> None:
    class Raising(nn.Module):
        def forward(self, x: Tensor, return_hidden: bool = False) -> Tensor:
            raise KeyError("scale")

    nets = [*mlps(2), Raising(), build("resmlp", input_dim=7, d=8, L=2, num_classes=4)]
    members = measure_together(nets, BATCHES, TEST)
    assert [member.error is None for member in members] == [True, True, False, False]
    assert "KeyError: 'scale'; it is called as model(x): wrap it in a module" in str(
        members[2].error
    )
    assert (members[2].acc, members[2].diagnosis) == (None, None)
    assert isinstance(members[3].error, MeasureError)


def test_a_members_error_does_not_keep_the_tensors_of_its_failed_pass_alive() -> None:
    class Failing(nn.Module):
        def forward(self, x: Tensor, return_hidden: bool = False) -> Tensor:
            made = torch.ones(3)
            kept.append(weakref.ref(made))
            raise ValueError("no")

    kept: list[Any] = []
    members = measure_together([Failing(), *mlps(2)], BATCHES, TEST)
    assert "no" in str(members[0].error)
    assert [reference() for reference in kept] == [None] * len(kept) != []


BAD: dict[str, tuple[Any, Any]] = {
    "no batches": ([], TEST),
    "no test": (BATCHES, []),
    "labels out of range": ([(x, y + 1) for x, y in BATCHES], TEST),
    "test labels out of range": (BATCHES, [(x, y + 1) for x, y in TEST]),
    "negative labels": ([(x, y - 1) for x, y in BATCHES], TEST),
    "another width": ([(torch.zeros(4, 7), torch.zeros(4, dtype=torch.int64))], TEST),
    "an empty batch": ([*BATCHES, (torch.zeros(0, 5), torch.zeros(0, dtype=torch.int64))], TEST),
    "no pair": ([torch.zeros(4, 5)], TEST),
    "float labels": ([(x, y.float()) for x, y in BATCHES], TEST),
}


@pytest.mark.parametrize(
    "kind", [mlps, lambda count: [Residual() for _ in range(count)]], ids=["built-in", "own"]
)
@pytest.mark.parametrize("case", BAD)
def test_bad_samples_give_every_member_the_error_of_the_ordinary_path(case: str, kind: Any) -> None:
    batches, test = BAD[case]
    nets = kind(2)
    with pytest.raises(FaError) as expected:
        accuracy(nets[0], test)
        diagnose(nets[0], batches)
    for member in measure_together(nets, batches, test):
        assert (str(member.error), type(member.error)) == (str(expected.value), expected.type)
        assert (member.acc, member.diagnosis) == (None, None)


def test_a_network_without_a_stream_says_what_could_be_tapped() -> None:
    nets = [nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 4)) for _ in range(2)]
    for member in measure_together(nets, BATCHES, TEST):
        assert "offers no model(x, return_hidden=True)" in str(member.error)


def test_a_single_network_takes_the_ordinary_path_and_needs_no_note(alone: list[nn.Module]) -> None:
    net = mlps(1)[0]
    (member,) = measure_together([net], iter(BATCHES), iter(TEST))
    assert_same(member, net, BATCHES, TEST)
    assert (alone, member.note) == ([net], "")


def test_no_network_at_all() -> None:
    assert measure_together([], BATCHES, TEST) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [({"norm_batches": 0}, "norm_batches is 0"), ({"dtype": "float8"}, "unknown dtype")],
)
def test_an_option_that_cannot_be_meant_is_every_members_error(
    options: dict[str, Any], words: str
) -> None:
    for member in measure_together(mlps(2), BATCHES, TEST, **options):
        assert words in str(member.error) and isinstance(member.error, UsageError)


@pytest.mark.parametrize(
    "raised",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
    ids=["cuda", "cpu"],
)
@pytest.mark.parametrize("count", [1, 3])
def test_a_full_memory_is_let_through(
    count: int, raised: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise raised

    monkeypatch.setattr(group, "VmappedNetworks", full)
    monkeypatch.setattr(group, "run_diagnosis", full)
    with pytest.raises(type(raised)):
        measure_together(mlps(count), BATCHES, TEST)


@pytest.mark.parametrize("count", [1, 3])
def test_a_lost_device_is_let_through(
    count: int, alone: list[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(group, "VmappedNetworks", lost)
    monkeypatch.setattr(group, "run_diagnosis", lost)
    with pytest.raises(RuntimeError, match="device-side"):
        measure_together(mlps(count), BATCHES, TEST)
    assert len(alone) == (count == 1)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("at", [1, 4])
def test_what_the_listener_raises_is_let_through(
    count: int, at: int, alone: list[nn.Module]
) -> None:
    class Cancelled(Exception):
        pass

    def listen(done: int, total: int) -> None:
        if done == at:
            raise Cancelled

    with pytest.raises(Cancelled):
        measure_together(mlps(count), BATCHES, TEST, on_batch=listen)
    assert len(alone) <= 1


def test_progress_reaches_its_end_when_a_group_is_taken_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unable(*_: Any, **__: Any) -> Any:
        raise CannotStack("no samples")

    monkeypatch.setattr(group, "_together", unable)
    told: list[tuple[int, int]] = []
    members = measure_together(mlps(2), BATCHES, TEST, on_batch=lambda *at: told.append(at))
    assert told[-1] == (18, 27)
    assert {member.note for member in members} == {"2 runs measured one by one: no samples"}
