"""The network that a checkpoint's tensors belong to, with them in it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fa_core.errors import UnknownNetwork, UnreadableInput, UsageError
from fa_core.measure.checkpoint import Checkpoint
from fa_core.measure.isolate import HALF, Draws
from fa_core.models.registry import build, recognise
from fa_core.runs import MANIFEST, Manifest
from fa_core.user_code import import_callable


def network_for(
    checkpoint: Checkpoint, manifest: Manifest | None = None, model: str | None = None, as_is: bool = False
) -> nn.Module:
    """Build the network of a checkpoint and load its weights.

    Args:
        checkpoint: the tensors.
        manifest: the run's manifest, if it has one: names a built-in network.
        model: ``module:callable`` that returns the user's network when called without arguments; it goes
            before the manifest. Only ever what the user typed.
        as_is: keep half-precision weights in half precision instead of float32.

    Raises:
        UsageError: ``model`` cannot be imported, or gives no module.
        UnknownNetwork: tensors of no known network.
        UnreadableInput: tensors that do not fit the network.
    """
    if model is not None:
        network = _users_network(model)
    elif manifest is not None:
        network = _manifest_network(manifest, checkpoint)
    else:
        network = _recognised_network(checkpoint)
    load_tensors(network, checkpoint.tensors, checkpoint.path)
    kinds = {tensor.dtype for tensor in checkpoint.tensors.values() if tensor.is_floating_point()}
    if kinds == {torch.float64} or (as_is and len(kinds) == 1 and kinds <= {*HALF}):
        network.to(kinds.pop())
        network.load_state_dict(dict(checkpoint.tensors), strict=False)
    return network


def load_tensors(network: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Put tensors into a network; each is converted to the network's own precision.

    Raises:
        UnreadableInput: missing or unknown tensors, or shapes that differ (both are said); integers, booleans or
            complex numbers where the network has floating-point tensors.
    """
    own = network.state_dict()
    _check_shapes(own, tensors, where)
    _check_kinds(own, tensors, where)
    loaded = {own[name].data_ptr() for name in own if name in tensors and own[name].numel()}
    missing = [
        name
        for name, tensor in own.items()
        if name not in tensors and not name.endswith("num_batches_tracked") and tensor.data_ptr() not in loaded
    ]
    unknown = [name for name in tensors if name not in own]
    if missing or unknown:
        parts = [
            f"{len(names)} {kind} ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"
            for kind, names in (("missing", missing), ("that the network does not have", unknown))
            if names
        ]
        raise UnreadableInput(f"tensors do not fit the network: {', '.join(parts)}", where=where)
    network.load_state_dict(dict(tensors), strict=False)


def _users_network(model: str) -> nn.Module:
    make = import_callable(model, "--model")
    try:
        # a buffer that is not saved may be drawn: the same one each time
        with Draws().passing():
            network = make()
    except TypeError as error:
        raise UsageError(
            f"--model {model} cannot be called without arguments ({error})", hint="name a function that needs none"
        ) from error
    if not isinstance(network, nn.Module):
        raise UsageError(f"--model {model} gave a {type(network).__name__}", hint="return a torch.nn.Module")
    return network


def _check_shapes(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], where: Path) -> None:
    wrong = [name for name in own if name in tensors and own[name].shape != tensors[name].shape]
    if wrong:
        name, more = wrong[0], f" (and {len(wrong) - 1} more differ)" if len(wrong) > 1 else ""
        raise UnreadableInput(
            f"{name} has shape {tuple(tensors[name].shape)} in the file"
            f" and {tuple(own[name].shape)} in the network{more}",
            where=where,
        )


def _check_kinds(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], where: Path) -> None:
    """Refuse what would be taken for weights by value: quantised ones are only weights together with their scale."""
    wrong = [
        name
        for name in own
        if name in tensors and own[name].is_floating_point() and not tensors[name].is_floating_point()
    ]
    if not wrong:
        return
    name, more = wrong[0], f" (and {len(wrong) - 1} more tensors are no floats)" if len(wrong) > 1 else ""
    kind = str(tensors[name].dtype).removeprefix("torch.")
    if tensors[name].is_complex():
        why, hint = "the network has no imaginary part", "name the network that it belongs to with --model"
    else:
        why, hint = "no scale is known, so norms would mean nothing", "dequantise the weights and save them as float32"
    raise UnreadableInput(f"{name} is stored as {kind}{more}: {why}", where=where, hint=hint)


def _manifest_network(manifest: Manifest, checkpoint: Checkpoint) -> nn.Module:
    try:
        planned = _planned(manifest.arch, manifest.arch_args)
        # before it takes memory: a manifest can ask for a terabyte
        _check_shapes(planned.state_dict(), checkpoint.tensors, checkpoint.path)
        return planned.to_empty(device="cpu")
    except UsageError as error:
        where = checkpoint.path.parent / MANIFEST
        raise UnknownNetwork(error.what, where=where, hint=error.hint) from error


def _recognised_network(checkpoint: Checkpoint) -> nn.Module:
    try:
        arch, arch_args = _recognised(tuple(checkpoint.shapes.items()))
    except UnknownNetwork as error:
        raise UnknownNetwork(error.what, where=checkpoint.path, hint=error.hint) from error
    return _planned(arch, arch_args).to_empty(device="cpu")


def _planned(arch: str, arch_args: Mapping[str, Any]) -> nn.Module:
    """The network without memory; drawing initial weights costs more time than reading those that replace them."""
    return copy.deepcopy(_plan(arch, json.dumps(arch_args)))


@lru_cache(maxsize=8)
def _plan(arch: str, arch_args: str) -> nn.Module:
    with torch.device("meta"):
        return build(arch, **json.loads(arch_args))


@lru_cache(maxsize=8)
def _recognised(shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[str, dict[str, Any]]:
    return recognise(dict(shapes))
