"""What a training run is made of: optimizer, order of samples, determinism, arguments that follow from the data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from fa_core.data import DataSet
from fa_core.errors import UsageError
from fa_core.methods import Method
from fa_core.models import ARCHS, StreamNet
from fa_core.option_values import unknown_name
from fa_core.training.plan import Recipe


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
