"""Built-in networks with an explicit stream, by name or by the tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from fa_core.errors import UnknownNetwork, UsageError
from fa_core.option_values import unknown_name
from fa_core.zoo.models.base import Shape, StreamNet
from fa_core.zoo.models.residual_mlp import ResMLP, StudentNet, WideResMLP
from fa_core.zoo.models.resnet import ResNet20, ResNet56, SmallResNet
from fa_core.zoo.models.smallcnn import SmallCNN
from fa_core.zoo.models.vit_mini import ViTMini

__all__ = ["ARCHS", "StreamNet", "arch_of", "build", "build_on_meta", "recognise"]

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
"""Registry name → network class, in the order in which `recognise` tries them."""


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
    if arch not in ARCHS:
        raise unknown_name("network", arch, ARCHS)
    network: Callable[..., StreamNet] = ARCHS[arch]
    known = list(signature(network).parameters)
    for name in args:
        if name not in known:
            raise unknown_name(f"argument of {arch}", name, known)
    try:
        if seed is None:
            return network(**args)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return network(**args)
    except TypeError as error:  # a default is computed from a size that is None or a text
        raise UsageError(f"{arch}: {error}", hint="give whole numbers") from error


class _Undrawn(TorchFunctionMode):
    """Skips `nn.init.normal_`: on the meta device it imports torch's compiler, in two seconds."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        given = kwargs or {}
        if func is nn.init.normal_:
            return given["tensor"]
        return func(*args, **given)


def build_on_meta(arch: str, tensors: int, /, **args: Any) -> StreamNet:
    """`build` on the meta device, for weights that a checkpoint replaces: it draws none.

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
    with torch.device("meta"), _Undrawn():
        return build(arch, **args)


def arch_of(named: str, tensors: Mapping[str, object]) -> str:
    """The registry name of a manifest's network: an early ``resmlp`` is `WideResMLP` today.

    Args:
        named: the manifest's ``arch``.
        tensors: of the checkpoint; an early ``resmlp`` has a ``head``.

    >>> arch_of("resmlp", {"head.weight": 0}), arch_of("resmlp", {"out_head.weight": 0})
    ('resmlp_wide', 'resmlp')
    """
    earlier = f"{WideResMLP.last}.weight" in tensors and f"{ResMLP.last}.weight" not in tensors
    if named == ResMLP.arch and earlier:
        return WideResMLP.arch
    return named


def recognise(tensors: Mapping[str, Sequence[int]]) -> tuple[str, dict[str, int]]:
    """The built-in network with exactly these tensors in its state dict.

    Args:
        tensors: tensor name → shape.

    Returns:
        (arch, arch_args), ready for ``build(arch, **arch_args)``.

    Raises:
        UnknownNetwork: no network has these names and shapes; it says the nearest network and the
            first difference.

    >>> recognise({name: t.shape for name, t in build("resmlp", d=8, L=1).state_dict().items()})[0]
    'resmlp'
    """
    seen: dict[str, Shape] = {name: tuple(shape) for name, shape in tensors.items()}
    nearly: list[tuple[int, str]] = []
    for arch, network in ARCHS.items():
        try:
            args = network.infer_args(seen)
            own = build_on_meta(arch, len(seen), **args).state_dict()
            expected = {name: tuple(tensor.shape) for name, tensor in own.items()}
        except (KeyError, IndexError, ValueError, TypeError, UsageError):
            continue
        if expected == seen:
            return arch, args
        nearly.append(_difference(arch, expected, seen))
    if nearly:
        raise UnknownNetwork(min(nearly)[1], hint="name the network with --model module:callable")
    first = list(seen.items())[:4]
    listed = ", ".join(f"{name} {shape}" for name, shape in first) or "no tensors"
    if len(seen) > len(first):
        listed += f" and {len(seen) - len(first)} more"
    hint = f"name the network with --model module:callable; known: {', '.join(ARCHS)}"
    raise UnknownNetwork(f"tensors of no known network ({listed})", hint=hint)


def _difference(
    arch: str, expected: Mapping[str, Shape], seen: Mapping[str, Shape]
) -> tuple[int, str]:
    """Number of tensors that differ from `arch`'s, and the first difference as text."""
    names = [*expected, *seen]
    wrong = [name for name in dict.fromkeys(names) if expected.get(name) != seen.get(name)]
    name = wrong[0]
    if name not in seen:
        text = f"but {name} {expected[name]} is missing"
    elif name not in expected:
        text = f"which has no {name} {seen[name]}"
    else:
        text = f"but {name} has shape {seen[name]} where {expected[name]} fits the rest"
    return len(wrong), f"looks like {arch}, {text}"
