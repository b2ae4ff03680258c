"""A group gives every member what it gets by itself."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from fa_core.measure.group import measure_together
from fa_core.models import build
from tests.fa_core.measure.group.checks import assert_all_same, samples
from tests.fa_core.measure.nets import Hookable, Residual

NETS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "resmlp": ({"input_dim": 12, "d": 16, "L": 3}, (12,)),
    "studentnet": ({"input_dim": 12, "d": 16, "L": 2}, (12,)),
    "smallcnn": ({"image": 8, "width": 4, "d": 8}, (3, 8, 8)),
    "vit_mini": ({"image": 8, "d": 8, "L": 2, "heads": 2}, (3, 8, 8)),
    "resmlp_wide": ({"input_dim": 12, "d": 16, "L": 1}, (12,)),
    "small_resnet": ({"image": 8, "width": 4}, (3, 8, 8)),
}


def trained(arch: str, seed: int, **args: Any) -> nn.Module:
    """A network whose normalisations are not at their initial values."""
    net = build(arch, seed=seed, num_classes=4, **args)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in net.state_dict().items():
            if "ln" in name or "bn" in name:
                tensor.add_(torch.rand(tensor.shape, generator=draw).to(tensor.dtype))
    return net


@pytest.mark.parametrize(
    "options",
    [{}, {"norm_batches": 3}, {"dtype": "float64"}],
    ids=["plain", "norm batches", "float64"],
)
@pytest.mark.parametrize("arch", NETS)
def test_the_built_in_networks(arch: str, options: dict[str, Any], alone: list[nn.Module]) -> None:
    args, shape = NETS[arch]
    nets = [trained(arch, seed, **args).train() for seed in range(3)]
    assert_all_same(nets, samples(shape, 8, 16), samples(shape, 2, 40, seed=1), **options)
    assert not alone
    assert all(module.training for net in nets for module in net.modules())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("arch", ["resmlp", "smallcnn"])
def test_networks_in_another_precision(
    arch: str, dtype: torch.dtype, alone: list[nn.Module]
) -> None:
    args, shape = NETS[arch]
    nets = [trained(arch, seed, **args).to(dtype) for seed in range(2)]
    rel = 1e-11 if dtype == torch.float64 else 1e-5
    assert_all_same(nets, samples(shape, 8, 16), samples(shape, 1, 40, seed=1), rel)
    assert not alone
    assert {tensor.dtype for tensor in nets[0].parameters()} == {dtype}


@pytest.mark.parametrize(
    "options",
    [
        {"taps": ["blocks.*:in", "out_ln:in"]},
        {"taps": lambda net, x: net(x, return_hidden=True)},
        {"dtype": "as-is"},
    ],
    ids=["names", "function", "as-is"],
)
def test_taps_and_arithmetic_of_the_callers_are_measured_one_by_one(
    options: dict[str, Any], alone: list[nn.Module]
) -> None:
    args, shape = NETS["resmlp"]
    nets = [trained("resmlp", seed, **args) for seed in range(2)]
    assert_all_same(nets, samples(shape, 8, 16), samples(shape, 1, 40, seed=1), **options)
    assert alone == nets


def test_a_decoder(alone: list[nn.Module]) -> None:
    draw = torch.Generator().manual_seed(0)
    data = [
        (torch.randint(11, (8, 5), generator=draw), torch.randint(11, (8,), generator=draw))
        for _ in range(9)
    ]
    nets = [build("decoder", vocab=11, length=5, d=8, L=2, heads=2, seed=seed) for seed in range(3)]
    assert_all_same(nets, data[:8], data[8:])
    assert_all_same(nets, [(x.float(), y) for x, y in data[:8]], data[8:])
    assert not alone


def test_batches_of_unequal_size(alone: list[nn.Module]) -> None:
    args, shape = NETS["resmlp"]
    batches = [(x[: 16 - i], y[: 16 - i]) for i, (x, y) in enumerate(samples(shape, 8, 16))]
    nets = [trained("resmlp", seed, **args) for seed in range(2)]
    assert_all_same(nets, batches, samples(shape, 1, 7), norm_batches=4)
    assert not alone


@pytest.mark.parametrize("depth", [0, 1])
def test_shallow_networks(depth: int, alone: list[nn.Module]) -> None:
    nets = [
        build("resmlp", input_dim=5, d=8, L=depth, num_classes=4, seed=seed) for seed in range(2)
    ]
    assert_all_same(nets, samples((5,), 8, 16), samples((5,), 1, 16))
    assert not alone


@pytest.mark.parametrize(("k", "size"), [(1, 1), (1, 16), (7, 16)])
def test_few_samples_and_few_batches(k: int, size: int, alone: list[nn.Module]) -> None:
    nets = [build("resmlp", input_dim=5, d=8, L=2, num_classes=4, seed=seed) for seed in range(2)]
    assert_all_same(nets, samples((5,), k, size), samples((5,), 1, 1))
    assert not alone


def tied() -> nn.Module:
    block = nn.Linear(5, 5)
    return nn.Sequential(block, nn.GELU(), block, nn.Linear(5, 4))


@pytest.mark.parametrize(
    ("make", "taps"),
    [
        (lambda: Residual(kind="gelu", out_ln=True), None),
        (lambda: Hookable(Residual(kind="gelu")), "embed, blocks.*"),
        (tied, "0"),
    ],
    ids=["its own stream", "module names", "a block that runs twice"],
)
def test_networks_of_ones_own_are_measured_one_by_one(
    make: Any, taps: Any, alone: list[nn.Module]
) -> None:
    nets = [make() for _ in range(3)]
    assert_all_same(nets, samples((5,), 8, 16), samples((5,), 1, 40), taps=taps)
    assert alone == nets


def test_tiny_and_huge_norms_are_kept(alone: list[nn.Module]) -> None:
    nets = [
        build("resmlp", input_dim=5, d=8, L=2, num_classes=4, terminal_ln=False, seed=seed)
        for seed in range(3)
    ]
    with torch.no_grad():
        nets[0].head.weight.mul_(1e-30)
        nets[1].embed.weight.mul_(1e25)
        nets[1].head.weight.mul_(1e-25)
    found = measure_together(nets, samples((5,), 8, 16), samples((5,), 1, 40))
    assert 0 < found[0].diagnosis.report().g_L < 1e-30
    assert 1e23 < found[1].diagnosis.report().residual_norms[0] < 1e27
    assert_all_same(nets, samples((5,), 8, 16), samples((5,), 1, 40))
    assert not alone


def test_near_ties_are_decided_in_float64_for_the_member_that_has_them(
    alone: list[nn.Module],
) -> None:
    nets = [
        build("studentnet", input_dim=4, d=4, L=1, num_classes=3, seed=seed) for seed in range(3)
    ]
    with torch.no_grad():
        # two classes differ by 1e-9 of an input that is as often positive as negative
        nets[1].head.weight[:] = 0
        nets[1].head.bias[:] = torch.tensor([1.0, 1.0, 0.0])
        nets[1].head.weight[0, 0] = 1e-9
    batches, test = samples((4,), 8, 16, classes=2), samples((4,), 3, 50, classes=2, seed=3)
    assert_all_same(nets, batches, test)
    exact = nets[1].double()(torch.cat([x for x, _ in test]).double()).argmax(1)
    labels = torch.cat([y for _, y in test])
    nets[1].float()
    assert measure_together(nets, samples((4,), 8, 16, classes=2), test)[1].acc == float(
        (exact == labels).double().mean()
    )
    assert not alone


def test_measuring_leaves_the_networks_the_data_and_the_random_state_alone() -> None:
    args, shape = NETS["smallcnn"]
    nets = [trained("smallcnn", seed, **args).train() for seed in range(2)]
    batches, test = samples(shape, 8, 8), samples(shape, 1, 8)
    before = [{name: t.clone() for name, t in net.state_dict().items()} for net in nets]
    data, state = [x.clone() for x, _ in batches], torch.get_rng_state()
    measure_together(nets, batches, test)
    for old, net in zip(before, nets, strict=True):
        assert all(torch.equal(old[name], tensor) for name, tensor in net.state_dict().items())
    assert all(p.grad is None and p.requires_grad for net in nets for p in net.parameters())
    assert all(torch.equal(old, x) for old, (x, _) in zip(data, batches, strict=True))
    assert torch.equal(state, torch.get_rng_state())


def test_progress_counts_the_batches_of_a_group_once() -> None:
    nets = [build("resmlp", input_dim=5, d=8, L=1, num_classes=4, seed=seed) for seed in range(3)]
    told: list[tuple[int, int]] = []
    measure_together(
        nets, samples((5,), 3, 4), samples((5,), 2, 4), on_batch=lambda *at: told.append(at)
    )
    assert told == [(done, 5) for done in range(1, 6)]
