"""Built-in networks with an explicit stream, by name or by the tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from inspect import signature
from typing import Any

import torch

from fa_core.errors import UsageError
from fa_core.option_values import check_known
from fa_core.zoo.models.base import Shapes, StreamNet
from fa_core.zoo.models.convnets import ResNet20, ResNet56, SmallCNN, SmallResNet
from fa_core.zoo.models.residual_mlp import ResMLP, StudentNet, WideResMLP
from fa_core.zoo.models.vit_mini import ViTMini

__all__ = ["ARCHS", "StreamNet", "build", "build_on_meta", "likely"]

ARCHS: Mapping[str, type[StreamNet]] = {
    net.arch: net
    for net in (
        ResMLP,
        WideResMLP,
        ViTMini,
        StudentNet,
        SmallCNN,
        SmallResNet,
        ResNet56,
        ResNet20,
    )
}
"""Registry name → network class, in the order in which `likely` tries them."""


def build(arch: str, /, *, seed: int | None = None, **args: object) -> StreamNet:
    """A newly initialised network.

    Args:
        arch: a name in `ARCHS`.
        seed: of the initial weights, without touching the global generator; None = draw them from
            the global generator.
        args: the network's constructor arguments.

    Raises:
        UsageError: unknown network or argument, or an invalid size.

    >>> build("resmlp", input_dim=16, d=8, L=2, seed=0).state_shapes
    [(8,), (8,), (8,)]
    """
    check_known("network", arch, ARCHS)
    network: Callable[..., StreamNet] = ARCHS[arch]
    known = list(signature(network).parameters)
    for name in args:
        check_known(f"argument of {arch}", name, known)
    try:
        if seed is None:
            return network(**args)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return network(**args)
    except TypeError as error:  # a default is computed from a size that is None or a text
        raise UsageError(f"{arch}: {error}", hint="give whole numbers") from error


def build_on_meta(arch: str, tensors: int, /, **args: Any) -> StreamNet:
    """`build` on the meta device, for weights that a checkpoint replaces.

    Args:
        arch: a name in `ARCHS`.
        tensors: number of tensors in the checkpoint.
        args: the network's constructor arguments.

    Raises:
        UsageError: as `build`, or more blocks than tensors.
    """
    blocks = args.get("L")
    if isinstance(blocks, int) and blocks > tensors:
        raise UsageError(f"L is {blocks}, and the file has {tensors} tensors")
    with torch.device("meta"):
        return build(arch, **args)


def likely(tensors: Shapes) -> Iterator[StreamNet]:
    """The built-in networks, on the meta device, that some of these tensors may be of.

    Args:
        tensors: tensor name → shape.

    >>> shapes = {name: t.shape for name, t in build("resmlp", d=8, L=1).state_dict().items()}
    >>> [network.arch for network in likely(shapes)]
    ['resmlp']
    """
    for arch, network in ARCHS.items():
        with suppress(KeyError, IndexError, ValueError, TypeError, UsageError):
            yield build_on_meta(arch, len(tensors), **network.infer_args(tensors))
