"""Checkpoints as networks: tensors are read without running code that a file names.

``.safetensors`` files cannot hold code; what torch wrote is read by
`fa_core.measure.safe_unpickle`. Files are recognised by their first bytes, so that a large file of
another kind is never read. Of several mappings of tensors in a file, the first one that fits the
network is taken.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from fa_core.decode import reading
from fa_core.errors import UnknownNetwork, UnreadableInput, UnsafeCheckpoint, UsageError
from fa_core.facts.runs import MANIFEST, Manifest
from fa_core.files import name_of, open_file, size_of
from fa_core.formats.checkpoint_file import COPY_AGAIN, HEADER_LIMIT, distributed, shards
from fa_core.measure.isolate import HALF, Draws
from fa_core.measure.safe_unpickle import EXPORTED_TABLE, Archive, inside, mappings, tensor_of
from fa_core.models import arch_of, planned, recognise
from fa_core.models.named import Weights, hub_folder, network_of, own_names

WEIGHT_KEYS = ("model", "state_dict", "model_state_dict", "net", "network", "weights", "params")
"""Where a training script's checkpoint keeps the network's state dict: preferred to other
places."""

AVERAGED = re.compile(r"ema|swa|avg|average|shadow|teacher|target")
"""Where it keeps an average of them, taken after all others."""

FEEDBACK = re.compile(
    r"_?(?:bs?|fb|(?:fixed_|random_)?(?:feedback|backward)"
    r"(?:_?(?:weights|matrices|mats?|bs?))?)(?:_list)?",
    re.I,
)
"""Where it keeps its feedback matrices, next to the state dict: ``Bs``, ``feedback``,
``feedback_weights``."""
INNER_WRAPPERS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
"""What torch.compile, FSDP and activation checkpointing put into names, anywhere."""

WRAPPERS = {"net", "model", "module", *INNER_WRAPPERS}
"""What Lightning and DistributedDataParallel, too, put before names."""

COUNTER = "n_averaged"
"""What torch's ``AveragedModel`` keeps next to the averages."""

_ZIP_MAGIC = b"PK\x03\x04"
_PICKLE_MAGIC = b"\x80"


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint file holds.

    Attributes:
        path: the file.
        mappings: every mapping of tensors, on the CPU, by its place in the file (``""`` for the
            whole file), in the order of preference; once it is `fitted`, the one that fits the
            network.
        feedback: feedback matrices by name (``B_0``, ``B_1``, ... for a list), empty if it has
            none.
        metadata: a safetensors file's own notes, e.g. method and seed.
        contents: names of what the file holds besides tensors.
        taken: which mapping fits, and what was left out or renamed; empty where all is taken as it
            is.
    """

    path: Path
    mappings: Mapping[str, Mapping[str, Tensor]]
    feedback: Mapping[str, Tensor] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    contents: tuple[str, ...] = ()
    taken: str = ""

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The network's state dict."""
        return next(iter(self.mappings.values()))


def load_checkpoint(path: Path, weights: str | None = None) -> Checkpoint:
    """Read a checkpoint.

    Args:
        path: a ``.safetensors`` file, the index of several, or what torch wrote: a state dict, or
            anything that holds one, or a whole network; feedback next to it (see `FEEDBACK`).
        weights: place of the mapping to take, or the end of it; None = the first that fits the
            network.

    Raises:
        UnsafeCheckpoint: a TorchScript program.
        UnreadableInput: no such file, no permission, truncated, or no checkpoint at all.
        UsageError: no mapping has that place.
    """
    with reading(path, _NONE, COPY_AGAIN):
        if path.suffix == ".json":
            found = _read_shards(path)
        else:
            found = _read(path)
    if weights is None:
        return found
    parted = _parted(found)
    for held in (found, parted):
        if named := [
            name for name in held.mappings if re.search(rf"(?:^|[._-]){re.escape(weights)}$", name)
        ]:
            return replace(
                held, mappings={name: held.mappings[name] for name in sorted(named, key=len)}
            )
    names = ", ".join([*filter(None, found.mappings)] or parted.mappings) or "nothing by a name"
    raise UsageError(f"holds no --weights {weights}", where=path, hint=f"it holds {names}")


_NONE = "is damaged or no checkpoint"


def _read(path: Path) -> Checkpoint:
    if refusal := distributed(str(path)):
        raise refusal
    with open_file(path) as file:
        size = size_of(file)
        head = file.read(16)
        if size == 0:
            raise UnreadableInput("is empty", where=path)
        if head[8:9] == b"{":
            if int.from_bytes(head[:8], "little") > HEADER_LIMIT:
                raise UnreadableInput("its header is too large for any network", where=path)
            return _read_safetensors(path, name_of(file, path))
        if not head.startswith((_ZIP_MAGIC, _PICKLE_MAGIC)):
            hint = "checkpoints are .safetensors files, or .pt/.pth files written by torch.save"
            raise UnreadableInput(
                f"is no checkpoint (it starts with {head[:8]!r})", where=path, hint=hint
            )
        archive = Archive(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    if head.startswith(_ZIP_MAGIC):
        content = _zipped(path, archive)
    else:
        content = archive.pickled()
    return _from_content(path, content, size)


def _read_safetensors(path: Path, opened: str) -> Checkpoint:
    with safe_open(opened, framework="pt") as file:
        # not a mapping
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return Checkpoint(path, {"": tensors}, metadata=file.metadata() or {})


def _read_shards(path: Path) -> Checkpoint:
    """The tensors that an index names, each from the shard that it names."""
    places = shards(path)
    tensors: dict[str, Tensor] = {}
    for shard in dict.fromkeys(places.values()):
        with reading(shard, _NONE, COPY_AGAIN):
            tensors.update(
                (n, t) for n, t in _read(shard).tensors.items() if places.get(n) == shard
            )
    if missing := [name for name in places if name not in tensors]:
        raise UnreadableInput(
            f"its shards lack {len(missing)} tensors, the first is {missing[0]}", where=path
        )
    return Checkpoint(path, {"": tensors})


def _zipped(path: Path, archive: Archive) -> Any:
    archive.open_zip()
    if "constants.pkl" in archive.places:
        hint = (
            f"save its weights: torch.save(torch.jit.load({path.name!r}).state_dict(), "
            "'weights.pt')"
        )
        raise UnsafeCheckpoint(
            "is a TorchScript program, and checkpoints are not run", where=path, hint=hint
        )
    if "data.pkl" in archive.places:
        return archive.zipped()
    if EXPORTED_TABLE in archive.places:
        return archive.exported()
    if any(name.startswith("serialized_exported_program") for name in archive.places):
        hint = (
            f"save its weights: torch.save(torch.export.load({path.name!r}).state_dict, "
            "'weights.pt')"
        )
        raise UnreadableInput("is an exported program of an earlier torch", where=path, hint=hint)
    raise UnreadableInput("is a zip archive that torch.save did not write", where=path)


def _from_content(path: Path, content: Any, size: int) -> Checkpoint:
    found, root = mappings(content, size), inside(content)
    kept = next((key for key in root if isinstance(key, str) and FEEDBACK.fullmatch(key)), None)
    found.pop(kept or "-", None)
    names = [key for key in root if isinstance(key, str)]
    if not found:
        kind = getattr(content, "name", None) or type(content).__name__.strip("_").lower()
        if names:
            held = f"no state dict (it holds {', '.join(map(repr, names[:6]))})"
        else:
            held = f"a {kind}, not a state dict"
        arrays = any(getattr(value, "name", "").startswith("numpy") for value in root.values())
        if arrays:
            hint = "turn its NumPy arrays into tensors (torch.from_numpy)"
        else:
            hint = "save the network's state_dict()"
        raise UnreadableInput(f"holds {held}", where=path, hint=hint)
    stacked = tensor_of(root.get(kept))
    if stacked is None:
        kept_as = inside(root.get(kept))
    else:
        kept_as = dict(enumerate(stacked))
    matrices = ((name, tensor_of(one)) for name, one in kept_as.items())
    feedback = {
        n if isinstance(n, str) else f"B_{n}": matrix
        for n, matrix in matrices
        if matrix is not None
    }
    beside = (
        ()
        if "_modules" in root
        else (name for name in names if name not in {kept, *found.get("", ())})
    )
    return Checkpoint(
        path, dict(sorted(found.items(), key=_preference)), feedback, contents=tuple(beside)
    )


def _preference(found: tuple[str, Mapping[str, Tensor]]) -> tuple[bool, bool, int]:
    name, tensors = found
    last = name.rpartition(".")[2]
    return (
        bool(AVERAGED.search(name.lower())),
        last not in WEIGHT_KEYS,
        -sum(t.numel() for t in tensors.values()),
    )


def _parted(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with the tensors under each first component of their names as a mapping of
    their own.

    >>> flat = {"student.w": torch.ones(1), "teacher.w": torch.ones(1)}
    >>> list(_parted(Checkpoint(Path("a.pt"), {"net": flat})).mappings)
    ['net.student', 'net.teacher']
    """
    parts: dict[str, dict[str, Tensor]] = {}
    for place, tensors in checkpoint.mappings.items():
        if len({name.partition(".")[0] for name in tensors}) < 2 or not any(
            "." in name for name in tensors
        ):
            continue
        for name, tensor in tensors.items():
            first, _, rest = name.partition(".")
            parts.setdefault(f"{place}.{first}" if place else first, {})[rest] = tensor
    contents = (*parts, *checkpoint.contents)
    return replace(
        checkpoint, mappings=dict(sorted(parts.items(), key=_preference)), contents=contents
    )


def fitted(checkpoint: Checkpoint, own: Mapping[str, Tensor]) -> Checkpoint:
    """The checkpoint with the tensors that fit a network, called as the network calls them.

    Of several mappings that fit, the first in the order of preference is taken. Prefixes are taken
    off if, and only if, all names fit then. Where no whole mapping fits, the parts of each are
    tried: a network next to its loss. Where nothing fits, the checkpoint is as it was.

    Args:
        checkpoint: as it was read.
        own: the network's state dict.
    """
    if not (fits := _fits(checkpoint, own)):
        parted = _parted(checkpoint)
        if not (fits := _fits(parted, own)):
            return checkpoint
        checkpoint = parted
    place, names = next(iter(fits.items()))
    tensors = checkpoint.mappings[place]
    prefixes = {old.removesuffix(new) for old, new in names.items() if old != new}
    used = {name.partition(".")[0] for name in fits} | fits.keys() | names.keys()
    unused = [name for name in (*checkpoint.contents, *tensors) if name not in used]
    said = (
        place and f"weights from {place!r}",
        *(f"{other!r} fits too (--weights {other})" for other in fits if other != place),
        prefixes and f"names without {', '.join(map(repr, sorted(prefixes)))}",
        unused and f"not used: {', '.join(unused[:6])}{', …' if len(unused) > 6 else ''}",
    )
    found = {place: {new: tensors[old] for old, new in names.items()}}
    return replace(checkpoint, mappings=found, taken="; ".join(str(part) for part in said if part))


def _fits(checkpoint: Checkpoint, own: Mapping[str, Tensor]) -> dict[str, dict[str, str]]:
    """The places of the mappings that fit a network → the names of their tensors → those of the
    network."""
    fits: dict[str, dict[str, str]] = {}
    for place, tensors in checkpoint.mappings.items():
        for names in (_unwrapped(tensors, own), {name: name for name in tensors}):
            named = {new: tensors[old] for old, new in names.items()}
            if not any(_misfits(own, named)) and not _wrong_shapes(own, named):
                fits[place] = names
    return fits


def _unwrapped(names: Iterable[str], known: Container[str] = ()) -> dict[str, str]:
    """Each name → itself without what wrappers put into it, down to a name that is known.

    Where all begin with the same part, that is a wrapper's too; an average's counter is left out.
    """
    names = [name for name in names if name != COUNTER or name in known]
    shared = {name.partition(".")[0] for name in names}
    found = {}
    for name in names:
        first, *parts = name.split(".")
        if not (parts and len(shared) == 1 and name not in known):
            parts = [first, *parts]
        while len(parts) > 1 and parts[0] in WRAPPERS and ".".join(parts) not in known:
            del parts[0]
        short = ".".join(parts)
        found[name] = (
            short
            if short in known
            else ".".join(part for part in parts if part not in INNER_WRAPPERS)
        )
    if len({*found.values()}) == len(found):
        return found
    return {name: name for name in names}


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
    if missing or unknown:
        parts = [
            f"{len(names)} {kind} ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"
            for kind, names in (("missing", missing), ("that the network does not have", unknown))
            if names
        ]
        raise UnreadableInput(f"tensors do not fit the network: {', '.join(parts)}", where=where)
    network.load_state_dict(dict(tensors), strict=False)


def _misfits(
    own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]
) -> tuple[list[str], list[str]]:
    """The network's tensors that are missing, and those that it does not have."""
    loaded = {own[name].data_ptr() for name in own if name in tensors and own[name].numel()}
    absent = [
        name for name in own if name not in tensors and not name.endswith("num_batches_tracked")
    ]
    missing = [name for name in absent if own[name].data_ptr() not in loaded]
    return missing, [name for name in tensors if name not in own]


def _wrong_shapes(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> list[str]:
    return [name for name in own if name in tensors and own[name].shape != tensors[name].shape]


def _check_shapes(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], where: Path) -> None:
    wrong = _wrong_shapes(own, tensors)
    if wrong:
        name, more = wrong[0], f" (and {len(wrong) - 1} more differ)" if len(wrong) > 1 else ""
        saved, needed = tuple(tensors[name].shape), tuple(own[name].shape)
        what = f"{name} has shape {saved} in the file and {needed} in the network{more}"
        raise UnreadableInput(what, where=where)


def _check_kinds(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], where: Path) -> None:
    """Refuse what would be taken for weights by value: quantised ones are only weights together
    with their scale."""
    floating = [name for name in own if name in tensors and own[name].is_floating_point()]
    wrong = [name for name in floating if not tensors[name].is_floating_point()]
    if not wrong:
        return
    name, more = (
        wrong[0],
        f" (and {len(wrong) - 1} more tensors are no floats)" if len(wrong) > 1 else "",
    )
    kind = str(tensors[name].dtype).removeprefix("torch.")
    if tensors[name].is_complex():
        why, hint = (
            "the network has no imaginary part",
            "name the network that it belongs to with --model",
        )
    else:
        why, hint = (
            "no scale is known, so norms would mean nothing",
            "dequantise the weights and save them as float32",
        )
    raise UnreadableInput(f"{name} is stored as {kind}{more}: {why}", where=where, hint=hint)


def _manifest_network(manifest: Manifest, checkpoint: Checkpoint) -> nn.Module:
    try:
        names = _unwrapped(checkpoint.tensors).values()
        network = planned(
            arch_of(manifest.arch, dict.fromkeys(names)), len(names), **manifest.arch_args
        )
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
        for names in ({name: name for name in tensors}, _unwrapped(tensors)):
            shapes = {new: tensors[old].shape for old, new in names.items()}
            try:
                arch, arch_args = recognise(shapes)
                return planned(arch, len(shapes), **arch_args).to_empty(device="cpu")
            except UnknownNetwork as error:
                failed.append(error)
    if folder := hub_folder(checkpoint.path):
        return network_of(f"hf:{folder}", _weights(checkpoint))
    raise UnknownNetwork(failed[0].what, where=checkpoint.path, hint=failed[0].hint) from failed[0]


def _weights(checkpoint: Checkpoint) -> Weights:
    sizes = [tensor.nbytes for tensor in checkpoint.tensors.values()]
    return Weights(checkpoint.path, len(sizes), sum(sizes))
