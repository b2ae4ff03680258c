"""The network of a checkpoint: built, and its weights loaded under the names it uses.

Of several mappings of tensors in a file, the first one that fits the network is taken.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from fa_core.errors import UnknownNetwork, UnreadableInput, UsageError
from fa_core.facts.run_names import MANIFEST, Manifest
from fa_core.measure.checkpoint import Checkpoint, by_first_part
from fa_core.measure.isolate import HALF, Draws
from fa_core.models import arch_of, planned, recognise
from fa_core.models.named import Weights, hub_folder, network_of, own_names

INNER_WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
"""What torch.compile, FSDP and activation checkpointing put into names, anywhere."""

WRAPPERS = {"net", "model", "module", *INNER_WRAPPERS}
"""What Lightning and DistributedDataParallel, too, put before names."""

COUNTER = "n_averaged"
"""What torch's ``AveragedModel`` keeps next to the averages."""


def fitted(checkpoint: Checkpoint, own: Mapping[str, Tensor]) -> Checkpoint:
    """The checkpoint with the tensors that fit a network, called as the network calls them.

    Of several mappings that fit, the first in the order of preference is taken. Prefixes are taken
    off if, and only if, all names fit then. Where no whole mapping fits, the parts of each are
    tried: a network next to its loss. Where nothing fits, the checkpoint is as it was.

    Args:
        checkpoint: as it was read.
        own: the network's state dict.
    """
    for held in (checkpoint, by_first_part(checkpoint)):
        fits = _fits(held, own)
        if fits:
            return _taken(held, fits)
    return checkpoint


def _taken(checkpoint: Checkpoint, fits: Mapping[str, Mapping[str, str]]) -> Checkpoint:
    """The checkpoint with the first mapping that fits, and what was left out or renamed."""
    place, names = next(iter(fits.items()))
    tensors = checkpoint.mappings[place]
    remarks = []
    if place:
        remarks.append(f"weights from {place!r}")
    for other in fits:
        if other != place:
            remarks.append(f"{other!r} fits too (--weights {other})")
    prefixes = {old.removesuffix(new) for old, new in names.items() if old != new}
    if prefixes:
        remarks.append(f"names without {', '.join(map(repr, sorted(prefixes)))}")
    used = {fitting.partition(".")[0] for fitting in fits} | fits.keys() | names.keys()
    unused = [name for name in (*checkpoint.contents, *tensors) if name not in used]
    if unused:
        remarks.append(f"not used: {_listed(unused, 6)}")
    found = {new: tensors[old] for old, new in names.items()}
    return replace(checkpoint, mappings={place: found}, taken="; ".join(remarks))


def _listed(names: list[str], most: int) -> str:
    """The first names; "…" stands for more."""
    text = ", ".join(names[:most])
    if len(names) > most:
        text += ", …"
    return text


def _fits(checkpoint: Checkpoint, own: Mapping[str, Tensor]) -> dict[str, dict[str, str]]:
    """The places of the mappings that fit a network → their tensors' names → the network's."""
    fits: dict[str, dict[str, str]] = {}
    for place, tensors in checkpoint.mappings.items():
        for names in (_unchanged(tensors), _unwrapped(tensors, own)):
            named = {new: tensors[old] for old, new in names.items()}
            if not any(_misfits(own, named)) and not _wrong_shapes(own, named):
                fits[place] = names
                break
    return fits


def _unchanged(names: Iterable[str]) -> dict[str, str]:
    return {name: name for name in names}


def _unwrapped(names: Iterable[str], known: Container[str] = ()) -> dict[str, str]:
    """Each name → itself without the prefixes of wrappers, down to a known name.

    A part that all begin with is a wrapper's too; an average's counter is left out.
    """
    names = [name for name in names if name != COUNTER or name in known]
    shared = len({name.partition(".")[0] for name in names}) == 1
    found = {}
    for name in names:
        parts = name.split(".")
        if shared and len(parts) > 1 and name not in known:
            del parts[0]
        while len(parts) > 1 and parts[0] in WRAPPERS and ".".join(parts) not in known:
            del parts[0]
        short = ".".join(parts)
        if short not in known:
            short = ".".join(part for part in parts if part not in INNER_WRAPPERS)
        found[name] = short
    if len({*found.values()}) < len(found):
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
        checkpoint: the tensors.
        manifest: the run's manifest, if it has one: names a built-in network.
        model: a SPEC of `fa_core.models.named`; it goes before the manifest. Only ever what the
            user typed.
        as_is: keep half-precision weights in half precision instead of float32.

    Raises:
        UsageError: ``model`` cannot be imported, or gives no module.
        UnknownNetwork: tensors of no known network.
        UnreadableInput: tensors that do not fit the network.
    """
    if model is not None:
        # a buffer that is not saved may be drawn: the same one each time
        with Draws().passing():
            network = network_of(model, _weights(checkpoint))
    elif manifest is not None:
        network = _manifest_network(manifest, checkpoint)
    else:
        network = _recognised_network(checkpoint)
    tensors = own_names(network, fitted(checkpoint, network.state_dict()).tensors)
    load_tensors(network, tensors, checkpoint.path)
    kinds = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    if kinds == {torch.float64} or (as_is and len(kinds) == 1 and kinds <= {*HALF}):
        network.to(kinds.pop())
        network.load_state_dict(dict(tensors), strict=False)
    return network


def load_tensors(network: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Put tensors into a network; each is converted to the network's own precision.

    Raises:
        UnreadableInput: missing or unknown tensors, or shapes that differ (both are said);
            integers, booleans or complex numbers where the network has floating-point tensors.
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


def _misfits(
    own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]
) -> tuple[list[str], list[str]]:
    """The network's tensors that are missing, and those that it does not have."""
    loaded = {own[name].data_ptr() for name in own if name in tensors and own[name].numel()}
    missing = []
    for name, tensor in own.items():
        if name in tensors or name.endswith("num_batches_tracked"):
            continue
        if tensor.data_ptr() not in loaded:
            missing.append(name)
    return missing, [name for name in tensors if name not in own]


def _wrong_shapes(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> list[str]:
    return [name for name in own if name in tensors and own[name].shape != tensors[name].shape]


def _and_more(names: list[str], what: str) -> str:
    """How many names follow the first one, in brackets."""
    if len(names) == 1:
        return ""
    return f" (and {len(names) - 1} more {what})"


def _check_shapes(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], where: Path) -> None:
    wrong = _wrong_shapes(own, tensors)
    if wrong:
        name = wrong[0]
        saved, needed = tuple(tensors[name].shape), tuple(own[name].shape)
        more = _and_more(wrong, "differ")
        what = f"{name} has shape {saved} in the file and {needed} in the network{more}"
        raise UnreadableInput(what, where=where)


def _check_kinds(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], where: Path) -> None:
    """Refuse values that are no weights: quantised ones only are together with their scale."""
    floating = [name for name in own if name in tensors and own[name].is_floating_point()]
    wrong = [name for name in floating if not tensors[name].is_floating_point()]
    if not wrong:
        return
    first = tensors[wrong[0]]
    if first.is_complex():
        why = "the network has no imaginary part"
        hint = "name the network that it belongs to with --model"
    else:
        why = "no scale is known, so norms would mean nothing"
        hint = "dequantise the weights and save them as float32"
    kind = str(first.dtype).removeprefix("torch.")
    more = _and_more(wrong, "tensors are no floats")
    raise UnreadableInput(f"{wrong[0]} is stored as {kind}{more}: {why}", where=where, hint=hint)


def _manifest_network(manifest: Manifest, checkpoint: Checkpoint) -> nn.Module:
    names = _unwrapped(checkpoint.tensors).values()
    try:
        arch = arch_of(manifest.arch, dict.fromkeys(names))
        network = planned(arch, len(names), **manifest.arch_args)
        own = network.state_dict()
        # before it takes memory: a manifest can ask for a terabyte
        _check_shapes(own, fitted(checkpoint, own).tensors, checkpoint.path)
        return network.to_empty(device="cpu")
    except UsageError as error:
        where = checkpoint.path.parent / MANIFEST
        raise UnknownNetwork(error.what, where=where, hint=error.hint) from error


def _recognised_network(checkpoint: Checkpoint) -> nn.Module:
    failed: list[UnknownNetwork] = []
    for tensors in checkpoint.mappings.values():
        for names in (_unchanged(tensors), _unwrapped(tensors)):
            shapes = {new: tensors[old].shape for old, new in names.items()}
            try:
                arch, arch_args = recognise(shapes)
                return planned(arch, len(shapes), **arch_args).to_empty(device="cpu")
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
