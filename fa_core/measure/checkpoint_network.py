"""Networks of checkpoints: built, and loaded with the first mapping of tensors that fits."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

from fa_core.errors import UnknownNetwork, UnreadableInput, UsageError
from fa_core.files.tensor_mappings import StateDict
from fa_core.measure.checkpoint import Checkpoint, by_first_part
from fa_core.measure.isolate import HALF, RngState
from fa_core.report.manifest import MANIFEST, Manifest
from fa_core.zoo.models import arch_of, build_on_meta, recognise
from fa_core.zoo.models.named import Weights, hub_folder, network_of, own_names

INNER_WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
"""Parts that torch.compile, FSDP and activation checkpointing insert anywhere in names."""

WRAPPERS = {"net", "model", "module", *INNER_WRAPPERS}
"""Parts that wrappers, also Lightning and DistributedDataParallel, put before names."""

COUNTER = "n_averaged"
"""Counter that torch's ``AveragedModel`` keeps next to the averages."""

Names: TypeAlias = dict[str, str]
"""A tensor's name in the file → its name in the network."""


def fitted(checkpoint: Checkpoint, own: StateDict) -> Checkpoint:
    """The checkpoint reduced to the tensors that fit a network, under the network's names.

    The first fitting mapping in the order of preference is taken. Prefixes are removed only if all
    names fit afterwards. If no whole mapping fits, the parts of each are tried, as of a network
    saved next to its loss. If nothing fits, the checkpoint is returned unchanged.

    Args:
        checkpoint: the checkpoint as read.
        own: the network's state dict.
    """
    for held in (checkpoint, by_first_part(checkpoint)):
        fits = _fits(held, own)
        if fits:
            return _reduced(held, fits)
    return checkpoint


def _reduced(checkpoint: Checkpoint, fits: Mapping[str, Names]) -> Checkpoint:
    """The checkpoint with its first fitting mapping, and a note on anything unused or renamed."""
    place, *others = fits
    names = fits[place]
    tensors = checkpoint.mappings[place]
    notes = []
    if place:
        notes.append(f"weights from {place!r}")
    for other in others:
        notes.append(f"{other!r} fits too (--weights {other})")
    prefixes = {old.removesuffix(new) for old, new in names.items() if old != new}
    if prefixes:
        notes.append(f"names without {', '.join(map(repr, sorted(prefixes)))}")
    used = {*fits, *names}
    for fitting in fits:
        first, _, _ = fitting.partition(".")
        used.add(first)
    unused = [name for name in (*checkpoint.contents, *tensors) if name not in used]
    if unused:
        notes.append(f"not used: {_listed(unused, 6)}")
    mappings = {place: _renamed(tensors, names)}
    return replace(checkpoint, mappings=mappings, taken="; ".join(notes))


def _renamed(tensors: StateDict, names: Names) -> dict[str, Tensor]:
    return {new: tensors[old] for old, new in names.items()}


def _listed(names: list[str], most: int) -> str:
    """The first names, and "…" if there are more."""
    text = ", ".join(names[:most])
    if len(names) > most:
        text += ", …"
    return text


def _fits(checkpoint: Checkpoint, own: StateDict) -> dict[str, Names]:
    """Places of the mappings that fit a network, each with its names."""
    fits: dict[str, Names] = {}
    for place, tensors in checkpoint.mappings.items():
        for names in (_unchanged(tensors), _unwrapped(tensors, own)):
            renamed = _renamed(tensors, names)
            if not any(_misfits(own, renamed)) and not _wrong_shapes(own, renamed):
                fits[place] = names
                break
    return fits


def _unchanged(names: Iterable[str]) -> Names:
    return {name: name for name in names}


def _unwrapped(names: Iterable[str], known: Container[str] = ()) -> Names:
    """Each name without the prefixes of wrappers, down to a known name.

    A first part that all names share counts as a wrapper too. An average's counter is left out.
    """
    names = [name for name in names if name != COUNTER or name in known]
    firsts = {name.partition(".")[0] for name in names}
    found = {}
    for name in names:
        parts = name.split(".")
        if len(firsts) == 1 and len(parts) > 1 and name not in known:
            del parts[0]
        while len(parts) > 1 and parts[0] in WRAPPERS and ".".join(parts) not in known:
            del parts[0]
        if ".".join(parts) not in known:
            parts = [part for part in parts if part not in INNER_WRAPPERS]
        found[name] = ".".join(parts)
    if len(set(found.values())) < len(found):
        return _unchanged(names)
    return found


def network_for(
    checkpoint: Checkpoint,
    manifest: Manifest | None = None,
    model: str | None = None,
    as_is: bool = False,
) -> nn.Module:
    """Build the network of a checkpoint and load its weights.

    Args:
        checkpoint: the checkpoint.
        manifest: the run's manifest, if any, which names a built-in network.
        model: a SPEC of `fa_core.zoo.models.named`, used instead of the manifest. Must come from
            the user, never from a file, as it may import code.
        as_is: keep half-precision weights in half precision instead of float32.

    Raises:
        UsageError: ``model`` cannot be imported, or gives no module.
        UnknownNetwork: tensors of no known network.
        UnreadableInput: tensors that do not fit the network.
    """
    if model is not None:
        # an unsaved buffer may be drawn at random; draw the same one each time
        with RngState().isolated():
            network = network_of(model, _weights(checkpoint))
    elif manifest is not None:
        network = _manifest_network(manifest, checkpoint)
    else:
        network = _recognised_network(checkpoint)
    tensors = own_names(network, fitted(checkpoint, network.state_dict()).tensors)
    load_tensors(network, tensors, checkpoint.path)
    dtypes = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    kept = {torch.float64}
    if as_is:
        kept.update(HALF)
    if len(dtypes) == 1 and dtypes <= kept:
        network.to(dtypes.pop())
        network.load_state_dict(dict(tensors), strict=False)
    return network


def load_tensors(network: nn.Module, tensors: StateDict, where: Path) -> None:
    """Load tensors into a network, each converted to the network's precision.

    Raises:
        UnreadableInput: missing or unknown tensors; a shape that differs; integers, booleans or
            complex numbers in place of floating-point tensors.
    """
    own = network.state_dict()
    _check_shapes(own, tensors, where)
    _check_kinds(own, tensors, where)
    missing, unknown = _misfits(own, tensors)
    parts = []
    if missing:
        parts.append(f"{len(missing)} missing ({_listed(missing, 3)})")
    if unknown:
        parts.append(f"{len(unknown)} that the network does not have ({_listed(unknown, 3)})")
    if parts:
        raise UnreadableInput(f"tensors do not fit the network: {', '.join(parts)}", where=where)
    network.load_state_dict(dict(tensors), strict=False)


def _misfits(own: StateDict, tensors: StateDict) -> tuple[list[str], list[str]]:
    """Tensors of the network that are missing, and tensors that it does not have."""
    # tied tensors are saved once
    loaded = set()
    for name, tensor in own.items():
        if name in tensors and tensor.numel():
            loaded.add(tensor.data_ptr())
    missing = []
    for name, tensor in own.items():
        is_counter = name.endswith("num_batches_tracked")
        if name not in tensors and not is_counter and tensor.data_ptr() not in loaded:
            missing.append(name)
    return missing, [name for name in tensors if name not in own]


def _wrong_shapes(own: StateDict, tensors: StateDict) -> list[str]:
    wrong = []
    for name, tensor in own.items():
        if tensors.get(name, tensor).shape != tensor.shape:
            wrong.append(name)
    return wrong


def _and_more(names: list[str], what: str) -> str:
    """Number of names after the first, in brackets."""
    if len(names) == 1:
        return ""
    return f" (and {len(names) - 1} more {what})"


def _check_shapes(own: StateDict, tensors: StateDict, where: Path) -> None:
    wrong = _wrong_shapes(own, tensors)
    if wrong:
        name = wrong[0]
        saved = tuple(tensors[name].shape)
        needed = tuple(own[name].shape)
        more = _and_more(wrong, "differ")
        raise UnreadableInput(
            f"{name} has shape {saved} in the file and {needed} in the network{more}", where=where
        )


def _check_kinds(own: StateDict, tensors: StateDict, where: Path) -> None:
    """Refuse complex weights, and integers, which are quantised weights without their scale.

    Raises:
        UnreadableInput: a floating-point tensor of the network is stored as another kind.
    """
    wrong = []
    for name, tensor in own.items():
        saved = tensors.get(name, tensor)
        if tensor.is_floating_point() and not saved.is_floating_point():
            wrong.append(name)
    if not wrong:
        return
    name = wrong[0]
    saved = tensors[name]
    why = "no scale is known, so norms would mean nothing"
    hint = "dequantise the weights and save them as float32"
    if saved.is_complex():
        why = "the network has no imaginary part"
        hint = "name the network that it belongs to with --model"
    kind = str(saved.dtype).removeprefix("torch.")
    more = _and_more(wrong, "tensors are no floats")
    raise UnreadableInput(f"{name} is stored as {kind}{more}: {why}", where=where, hint=hint)


def _manifest_network(manifest: Manifest, checkpoint: Checkpoint) -> nn.Module:
    names = _unwrapped(checkpoint.tensors).values()
    try:
        arch = arch_of(manifest.arch, dict.fromkeys(names))
        network = build_on_meta(arch, len(names), **manifest.arch_args)
        own = network.state_dict()
        # checked before it takes memory: a manifest can ask for a terabyte
        _check_shapes(own, fitted(checkpoint, own).tensors, checkpoint.path)
        return network.to_empty(device="cpu")
    except UsageError as error:
        raise UnknownNetwork(
            error.what, where=checkpoint.path.parent / MANIFEST, hint=error.hint
        ) from error


def _recognised_network(checkpoint: Checkpoint) -> nn.Module:
    failed: list[UnknownNetwork] = []
    for tensors in checkpoint.mappings.values():
        for names in (_unchanged(tensors), _unwrapped(tensors)):
            renamed = _renamed(tensors, names)
            shapes = {name: tensor.shape for name, tensor in renamed.items()}
            try:
                arch, arch_args = recognise(shapes)
                return build_on_meta(arch, len(shapes), **arch_args).to_empty(device="cpu")
            except UnknownNetwork as error:
                failed.append(error)
    folder = hub_folder(checkpoint.path)
    if folder:
        return network_of(f"hf:{folder}", _weights(checkpoint))
    first = failed[0]
    raise UnknownNetwork(first.what, where=checkpoint.path, hint=first.hint) from first


def _weights(checkpoint: Checkpoint) -> Weights:
    sizes = [tensor.nbytes for tensor in checkpoint.tensors.values()]
    return Weights(checkpoint.path, len(sizes), sum(sizes))
