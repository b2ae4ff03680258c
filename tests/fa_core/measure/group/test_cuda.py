"""The same comparison on a GPU, with TF32 switched on around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from fa_core.measure.group import measure_together
from fa_core.models import build
from tests.fa_core.measure.group.checks import assert_same, samples

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(autouse=True)
def _tf32() -> Iterator[None]:
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    yield
    torch.set_float32_matmul_precision(before[0])
    torch.backends.cudnn.allow_tf32 = before[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    ("arch", "args", "shape"),
    [
        ("resmlp", {"input_dim": 48, "d": 32, "L": 3}, (48,)),
        ("studentnet", {"input_dim": 48, "d": 32, "L": 3}, (48,)),
        ("smallcnn", {"image": 16, "width": 8, "d": 16}, (3, 16, 16)),
        ("vit_mini", {"image": 16, "d": 16, "L": 2}, (3, 16, 16)),
    ],
)
def test_a_group_on_a_gpu(
    arch: str, args: dict[str, Any], shape: tuple[int, ...], dtype: torch.dtype, alone: list[Any]
) -> None:
    nets = [build(arch, seed=seed, num_classes=4, **args).to("cuda", dtype) for seed in range(4)]
    batches, test = (
        [(x.cuda(), y.cuda()) for x, y in samples(shape, k, size, seed=k)]
        for k, size in ((10, 128), (2, 500))
    )
    members = measure_together(nets, batches, test)
    assert not alone
    for member, net in zip(members, nets, strict=True):
        assert_same(member, net, batches, test)


def test_samples_on_the_host_are_moved(alone: list[Any]) -> None:
    nets = [
        build("resmlp", seed=seed, input_dim=48, d=32, num_classes=4).cuda() for seed in range(3)
    ]
    batches, test = samples((48,), 8, 128), samples((48,), 1, 500)
    for member, net in zip(measure_together(nets, batches, test), nets, strict=True):
        assert_same(member, net, batches, test)
    assert not alone
