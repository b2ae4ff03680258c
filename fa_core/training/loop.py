"""One epoch of training, the same few lines for every method; network arguments that follow from the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from fa_core.data import DataSet
from fa_core.errors import FaError, UsageError
from fa_core.methods import Method
from fa_core.models import ARCHS, StreamNet
from fa_core.option_values import unknown_name
from fa_core.training.plan import Recipe

CHECK_EVERY = 50
"""Steps between two looks at whether the loss is still finite: on a GPU each look waits for the device."""


class Diverged(FaError):
    """The training loss is no longer finite."""


def make_optimizer(recipe: Recipe, method: Method, net: StreamNet) -> torch.optim.Optimizer | None:
    """The recipe's optimizer over what the method trains; None where it trains nothing."""
    parameters = method.trained_parameters(net)
    if not parameters:
        return None
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}[recipe.optimizer]
    return kind(parameters, lr=recipe.lr, weight_decay=recipe.weight_decay)  # type: ignore[no-any-return]


def steps_per_epoch(data: DataSet, recipe: Recipe) -> int:
    """Full batches in the training samples.

    Raises:
        UsageError: the batch is larger than the data set.
    """
    steps = len(data.train_y) // recipe.batch_size
    if steps == 0:
        raise UsageError(
            f"a batch of {recipe.batch_size} is larger than the {len(data.train_y)} training samples of {data.spec}",
            hint="give a smaller --batch-size",
        )
    return steps


def sample_order(count: int, seed: int, epoch: int) -> Tensor:
    """The permutation of an epoch: it depends on seed and epoch only, so a resumed run sees the same samples."""
    generator = torch.Generator().manual_seed((seed * 1_000_003 + epoch) % 2**63)
    return torch.randperm(count, generator=generator)


def train_epoch(
    net: StreamNet,
    method: Method,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    data: DataSet,
    *,
    seed: int,
    epoch: int,
    on_step: Callable[[int], None] = lambda step: None,
) -> float:
    """Train one epoch.

    Args:
        net: the network; put into train mode.
        method: gives the loss, then takes its own step.
        optimizer: over the method's trained parameters.
        recipe: learning rate, batch size, λ.
        data: training samples, on any device.
        seed: with `epoch`, orders the samples.
        epoch: 1, 2, ...
        on_step: called with the number of steps done.

    Returns:
        Mean cross entropy over the epoch's steps.

    Raises:
        Diverged: it became NaN or infinite.
    """
    net.train()
    device = next(net.parameters()).device
    steps = steps_per_epoch(data, recipe)
    order = sample_order(len(data.train_y), seed, epoch).to(data.train_y.device)
    total = torch.zeros((), dtype=torch.float64, device=device)
    for step in range(steps):
        rate = recipe.lr_at((epoch - 1) * steps + step, recipe.epochs * steps)
        for group in optimizer.param_groups:
            group["lr"] = rate
        rows = order[step * recipe.batch_size : (step + 1) * recipe.batch_size]
        loss, info = method.loss(net, data.train_x[rows].to(device), data.train_y[rows].to(device), recipe.lam)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        method.extra_step(net, info)
        total += info.ce
        if (step + 1) % CHECK_EVERY == 0 or step + 1 == steps:
            if not math.isfinite(float(total)):
                raise Diverged(f"the loss is {float(info.ce)} by step {step + 1} of epoch {epoch}")
            on_step(step + 1)
    return float(total) / steps


@contextmanager
def deterministic(seed: int, device: torch.device) -> Iterator[None]:
    """Seeded generators and deterministic kernels inside; the caller's afterwards."""
    strict, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(strict, warn_only=warn)


def fitted_args(arch: str, given: dict[str, Any], data: DataSet) -> dict[str, Any]:
    """The given arguments, completed by those that the data decide: input size, classes.

    Args:
        arch: built-in network name.
        given: what the user chose; it is kept.
        data: the data set.

    Raises:
        UsageError: unknown network, or data of a kind it does not take (both shapes are said).
    """
    if arch not in ARCHS:
        raise unknown_name("network", arch, ARCHS)
    known = signature(ARCHS[arch]).parameters
    decided: dict[str, Any] = {"num_classes": data.num_classes}
    if "input_dim" in known:
        decided["input_dim"] = math.prod(data.input_shape)
    elif "vocab" in known:
        x = data.train_x
        if x.dim() != 2 or int(x.min()) < 0 or not torch.equal(x, x.round()):
            raise UsageError(
                f"{arch} takes token numbers (samples, tokens), {data.spec} gives samples of shape {data.input_shape}",
                hint="choose data of whole numbers from 0 on, the label the token that follows",
            )
        top = max(int(x.max()), int(data.test_x.max()))
        decided |= {"length": x.shape[1], "vocab": max(top + 1, data.num_classes)}
    else:
        shape = data.input_shape
        if len(shape) != 3 or shape[1] != shape[2]:
            raise UsageError(
                f"{arch} takes square images (channels, size, size), {data.spec} gives samples of shape {shape}",
                hint="choose image data such as cifar10:DIR, or --arch resmlp",
            )
        decided |= {"channels": shape[0], "image": shape[1]}
    return {name: value for name, value in decided.items() if name in known} | given
