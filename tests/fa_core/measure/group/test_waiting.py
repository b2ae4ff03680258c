"""A GPU is kept busy: the host asks it for nothing between the batches."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fa_core.measure.accumulator import Accumulator
from fa_core.measure.group import measure_together
from fa_core.measure.passes import backward
from fa_core.measure.vmapped import VmappedAccuracy, VmappedNetworks
from fa_core.models import build
from tests.bench.op_counts import count
from tests.fa_core.measure.group.checks import samples


def waits(nets: list[nn.Module], shape: tuple[int, ...], k: int) -> int:
    batches, test = samples(shape, k, 8), samples(shape, k, 8)
    return count(lambda: measure_together(nets, batches, test)).waits


@pytest.mark.parametrize("arch", ["resmlp", "smallcnn", "vit_mini"])
def test_the_host_waits_no_oftener_for_more_batches_or_more_members(arch: str) -> None:
    args = {"resmlp": {"input_dim": 12, "d": 8, "L": 2}}.get(arch, {"image": 8, "d": 8})
    shape = (12,) if arch == "resmlp" else (3, 8, 8)
    nets = [build(arch, seed=seed, num_classes=4, **args) for seed in range(4)]
    few = waits(nets[:2], shape, 2)
    assert 0 < few < 24
    assert waits(nets, shape, 9) == few


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("arch", ["resmlp", "studentnet", "smallcnn"])
def test_the_passes_run_on_a_device_that_cannot_be_asked_and_mixes_with_no_other(
    arch: str, dtype: torch.dtype
) -> None:
    shape = (3, 32, 32) if arch == "smallcnn" else (3072,)
    args = {} if arch == "smallcnn" else {"input_dim": 3072}
    networks = VmappedNetworks([build(arch, **args).eval().to("meta", dtype) for _ in range(2)])
    x, y = (
        torch.empty(8, *shape, device="meta", dtype=dtype),
        torch.empty(8, device="meta", dtype=torch.int64),
    )
    meter, accumulator = VmappedAccuracy(), Accumulator(norm_batches=2, samples_axis=1)
    meter.add(networks.logits(x), y)
    for _ in range(8):
        accumulator.add(backward(networks.forward(x), y, accumulator.layers))
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        accumulator.measured(meter.right)


def test_waits_are_seen() -> None:
    x = torch.ones(3)
    assert count(lambda: x.sum().item()).waits == 1
    assert count(lambda: x[x > 0]).waits == 1
    assert count(lambda: x.tolist()).waits == 1
    assert count(lambda: x + x).waits == 0
