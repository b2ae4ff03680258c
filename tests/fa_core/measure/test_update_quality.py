"""One optimizer step against backprop's, against steps and losses computed by hand."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.measure.update_quality import Optimizer, update_quality
from fa_core.methods import make_method
from fa_core.models import build
from fa_core.models.base import StreamNet

LR = 1e-2
RECIPE = Optimizer(lr=LR)


@pytest.fixture
def net() -> StreamNet:
    return build("resmlp", seed=3, input_dim=6, d=8, L=2, num_classes=4).double()


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    draws = torch.Generator().manual_seed(5)
    x = torch.randn(10, 6, generator=draws, dtype=torch.float64)
    return x, torch.arange(10) % 4


def adam_step(gradient: Tensor) -> Tensor:
    """AdamW's first step: both moments are corrected to g and g²."""
    return -LR * gradient / (gradient.abs() + 1e-8)


def gradients_by_hand(net: StreamNet, name: str, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """∂loss/∂θ of a method."""
    twin = copy.deepcopy(net).eval()
    method = make_method(name, twin, 0).double()
    loss, _ = method.loss(twin, x, y)
    loss.backward()
    return {name: parameter.grad for name, parameter in twin.named_parameters()}


def ce_after(net: StreamNet, steps: dict[str, Tensor], x: Tensor, y: Tensor) -> float:
    twin = copy.deepcopy(net).eval()
    with torch.no_grad():
        for name, parameter in twin.named_parameters():
            parameter += steps[name]
        return float(F.cross_entropy(twin(x), y))


@pytest.mark.parametrize(("optimizer", "step"), [("adamw", adam_step), ("sgd", lambda g: -LR * g)])
def test_cosines_ratios_and_decreases_are_those_of_steps_by_hand(
    net: StreamNet, batch: tuple[Tensor, Tensor], optimizer: str, step: object
) -> None:
    x, y = batch
    found = update_quality(
        net, make_method("dfa", net, 0).double(), x, y, Optimizer(optimizer=optimizer, lr=LR)
    )
    steps = {}
    for name in ("dfa", "bp"):
        grads = gradients_by_hand(net, name, x, y)
        steps[name] = {key: step(g) for key, g in grads.items()}  # type: ignore[operator]
    assert found.parts == ["embed", "0", "1", "readout"]
    for part, cosine, ratio in zip(found.parts, found.cosine, found.norm_ratio, strict=True):
        names = [key for key in steps["bp"] if place(key) == part]
        own = torch.cat([steps["dfa"][key].flatten() for key in names])
        bp = torch.cat([steps["bp"][key].flatten() for key in names])
        assert cosine == pytest.approx(float(F.cosine_similarity(own, bp, 0)), abs=1e-10)
        assert ratio == pytest.approx(float(own.norm() / bp.norm()), rel=1e-9)
    before = ce_after(net, {key: torch.zeros_like(s) for key, s in steps["bp"].items()}, x, y)
    assert found.decrease == pytest.approx(before - ce_after(net, steps["dfa"], x, y), abs=1e-12)
    assert found.decrease_bp == pytest.approx(before - ce_after(net, steps["bp"], x, y), abs=1e-12)
    assert found.cosine[-1] == pytest.approx(1.0)  # the readout has the true gradient


def place(name: str) -> str:
    first, second, *_ = name.split(".")
    if first == "blocks":
        return second
    return {"out_ln": "readout", "out_head": "readout"}.get(first, first)


def test_backprop_is_itself(net: StreamNet, batch: tuple[Tensor, Tensor]) -> None:
    found = update_quality(net, make_method("bp", net, 0), *batch)
    assert found.cosine == pytest.approx([1.0] * 4) and found.norm_ratio == pytest.approx([1.0] * 4)
    assert found.decrease == found.decrease_bp > 0


def test_a_part_that_is_not_trained_has_no_cosine(
    net: StreamNet, batch: tuple[Tensor, Tensor]
) -> None:
    found = update_quality(net, make_method("frozen", net, 0), *batch)
    assert found.cosine[1:3] == [None, None] and found.norm_ratio[1:3] == [0.0, 0.0]


def test_adam_loses_credit_below_its_epsilon(net: StreamNet, batch: tuple[Tensor, Tensor]) -> None:
    x, y = batch
    tiny = make_method("dfa", net, 0).double()
    with torch.no_grad():
        for buffer in tiny.buffers():
            buffer *= 1e-12
    lost = update_quality(net, tiny, x, y, RECIPE)
    whole = update_quality(net, make_method("dfa", net, 0).double(), x, y, RECIPE)
    assert max(filter(None, lost.norm_ratio[:3])) < 1e-3 < min(filter(None, whole.norm_ratio[:3]))


def test_a_recorded_state_is_continued(net: StreamNet, batch: tuple[Tensor, Tensor]) -> None:
    x, y = batch
    twin = copy.deepcopy(net).eval()
    optimizer = torch.optim.AdamW(twin.parameters(), lr=LR, weight_decay=0.5)
    F.cross_entropy(twin(x), y).backward()
    optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    found = update_quality(twin, make_method("bp", twin, 0), x, y, RECIPE, state)
    first = update_quality(twin, make_method("bp", twin, 0), x, y, RECIPE)
    assert not found.first_step and first.first_step
    assert found.decrease != first.decrease


def test_the_network_comes_back_as_it_was(net: StreamNet, batch: tuple[Tensor, Tensor]) -> None:
    net.train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    update_quality(net, make_method("dfa", net, 0).double(), *batch)
    assert net.training and all(parameter.requires_grad for parameter in net.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_networks_step_in_float32(
    dtype: torch.dtype, batch: tuple[Tensor, Tensor]
) -> None:
    net = build("resmlp", seed=3, input_dim=6, d=8, L=1, num_classes=4).to(dtype)
    found = update_quality(net, make_method("bp", net, 0), batch[0], batch[1])
    assert found.cosine == pytest.approx([1.0] * 3)


def test_weights_that_are_not_finite_give_no_number(
    net: StreamNet, batch: tuple[Tensor, Tensor]
) -> None:
    with torch.no_grad():
        net.blocks[0].w1.weight[0, 0] = math.nan  # type: ignore[union-attr, index]
    found = update_quality(net, make_method("dfa", net, 0).double(), *batch)
    assert math.isnan(found.decrease)
    assert all(cosine is None or math.isnan(cosine) for cosine in found.cosine)


def test_one_sample_and_one_layer(batch: tuple[Tensor, Tensor]) -> None:
    net = build("resmlp", seed=3, input_dim=6, d=8, L=1, num_classes=4)
    found = update_quality(net, make_method("dfa", net, 0), batch[0][:1].float(), batch[1][:1])
    assert len(found.cosine) == 3 and isinstance(net, nn.Module)
