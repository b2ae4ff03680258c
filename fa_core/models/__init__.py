"""Built-in networks with an exposed residual stream, by name or by the tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from fa_core.errors import UnknownNetwork, UsageError
from fa_core.models.base import Shape, StreamNet
from fa_core.models.decoder import Decoder
from fa_core.models.residual_mlp import ResMLP, StudentNet, WideResMLP
from fa_core.models.resnet import ResNet20, ResNet56, SmallResNet
from fa_core.models.smallcnn import SmallCNN
from fa_core.models.vit_mini import ViTMini
from fa_core.option_values import nearest, unknown_name

__all__ = ["ARCHS", "StreamNet", "arch_of", "build", "planned", "recognise"]

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
        Decoder,
    )
}
"""Registry name → network class. A checkpoint is of the first that it fits."""


def build(arch: str, /, *, seed: int | None = None, **args: Any) -> StreamNet:
    """A freshly initialised network.

    Args:
        arch: a name in `ARCHS`.
        seed: draws the initial weights; the global generator is then left as it was.
            None = use the global generator.
        args: the network's constructor arguments.

    Raises:
        UsageError: unknown network or argument, or a size that cannot be meant.

    >>> build("resmlp", input_dim=16, d=8, L=2, seed=0).state_shapes
    [(8,), (8,), (8,)]
    """
    if arch not in ARCHS:
        raise unknown_name("network", arch, ARCHS)
    known = list(signature(ARCHS[arch]).parameters)
    for name in args:
        if name not in known:
            raise UsageError(f"{arch} has no argument {name!r}", hint=nearest(name, known))
    try:
        if seed is None:
            return ARCHS[arch](**args)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return ARCHS[arch](**args)
    except TypeError as error:  # None or a text, where a default is computed from a size
        raise UsageError(f"{arch}: {error}", hint="give whole numbers") from error


class _Undrawn(TorchFunctionMode):
    """Normal numbers are not drawn: on the meta device that alone imports torch's compiler, which
    takes two seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is nn.init.normal_:
            return kwargs["tensor"]
        return func(*args, **kwargs or {})


def planned(arch: str, tensors: int, /, **args: Any) -> StreamNet:
    """As `build`, on the meta device: drawing initial weights takes longer than reading those that
    replace them.

    Args:
        arch: the network.
        tensors: how many a file has for it; a network of more blocks is refused before it is built.
        args: its arguments.

    Raises:
        UsageError: as `build`.
    """
    blocks = args.get("L")
    if isinstance(blocks, int) and blocks > tensors:
        raise UsageError(f"L is {blocks}, and the file has {tensors} tensors")
    with torch.device("meta"), _Undrawn():
        return build(arch, **args)


def arch_of(named: str, tensors: Mapping[str, object]) -> str:
    """The network that a manifest names, by the tensors next to it: ``resmlp`` with a ``head`` is
    `WideResMLP`.

    Args:
        named: the manifest's ``arch``.
        tensors: the checkpoint's, by name.

    >>> arch_of("resmlp", {"head.weight": 0}), arch_of("resmlp", {"out_head.weight": 0})
    ('resmlp_wide', 'resmlp')
    """
    earlier = f"{WideResMLP.last}.weight" in tensors and f"{ResMLP.last}.weight" not in tensors
    if named == ResMLP.arch and earlier:
        return WideResMLP.arch
    return named


def recognise(tensors: Mapping[str, Sequence[int]]) -> tuple[str, dict[str, Any]]:
    """The built-in network whose state dict has exactly these tensors.

    Args:
        tensors: tensor name → shape.

    Returns:
        (arch, arch_args), ready for ``build(arch, **arch_args)``.

    Raises:
        UnknownNetwork: no network has these names, or one has but a shape differs (both are said).

    >>> recognise({name: t.shape for name, t in build("resmlp", d=8, L=1).state_dict().items()})[0]
    'resmlp'
    """
    seen: dict[str, Shape] = {name: tuple(shape) for name, shape in tensors.items()}
    nearly: list[tuple[int, str]] = []
    for arch, network in ARCHS.items():
        try:
            args = network.infer_args(seen)
            own = planned(arch, len(seen), **args).state_dict()
            expected = {name: tuple(tensor.shape) for name, tensor in own.items()}
        except (KeyError, IndexError, ValueError, TypeError, UsageError):
            continue
        if expected == seen:
            return arch, args
        nearly.append(_difference(arch, expected, seen))
    if nearly:
        raise UnknownNetwork(min(nearly)[1], hint="name the network with --model module:callable")
    listed = ", ".join(f"{name} {shape}" for name, shape in list(seen.items())[:4]) or "no tensors"
    if len(seen) > 4:
        more = f" and {len(seen) - 4} more"
    else:
        more = ""
    hint = f"name the network with --model module:callable; known: {', '.join(ARCHS)}"
    raise UnknownNetwork(f"tensors of no known network ({listed}{more})", hint=hint)


def _difference(
    arch: str, expected: Mapping[str, Shape], seen: Mapping[str, Shape]
) -> tuple[int, str]:
    """How many tensors differ from `arch`'s, and the first one as text."""
    names = [*expected, *(name for name in seen if name not in expected)]
    wrong = [name for name in names if expected.get(name) != seen.get(name)]
    name = wrong[0]
    if name not in seen:
        text = f"looks like {arch}, but {name} {expected[name]} is missing"
    elif name not in expected:
        text = f"looks like {arch}, which has no {name} {seen[name]}"
    else:
        text = (
            f"looks like {arch}, but {name} has shape {seen[name]} where {expected[name]} "
            "fits the rest"
        )
    return len(wrong), text
