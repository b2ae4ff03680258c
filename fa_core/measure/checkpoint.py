"""Checkpoint files: their tensors, read without running any code that a file names.

``.safetensors`` files cannot hold code; `fa_core.files.inert` reads files of torch. The
first bytes decide, so that a large file of another kind is never read.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os.path import commonprefix
from pathlib import Path

from safetensors import safe_open
from torch import Tensor

from fa_core.errors import UnreadableInput, UnsafeCheckpoint, UsageError
from fa_core.files.decode import reading
from fa_core.files.inert import EXPORTED_TABLE, Archive, Placeholder, SafeDict
from fa_core.files.opening import name_of, open_file, size_of
from fa_core.files.tensor_mappings import (
    OTHERS,
    StateDict,
    Tensors,
    contents_of,
    mappings,
    tensor_of,
)
from fa_core.formats.checkpoint_file import (
    ARRAYS,
    COPY_AGAIN,
    HEAD,
    HEADER_LIMIT,
    distributed,
    not_a_checkpoint,
    shards,
)

WEIGHT_KEYS = ("model", "state_dict", "model_state_dict", "net", "network", "weights", "params")
"""Keys under which training scripts save the network's state dict; preferred to others."""

AVERAGED = re.compile(r"ema|swa|avg|average|shadow|teacher|target")
"""Keys of averaged weights; taken last."""

FEEDBACK = re.compile(
    r"_?(?:bs?|fb|(?:fixed_|random_)?(?:feedback|backward)"
    r"(?:_?(?:weights|matrices|mats?|bs?))?)(?:_list)?",
    re.I,
)
"""Keys of feedback matrices next to the state dict: ``Bs``, ``feedback``, ``feedback_weights``."""

MOST_NAMED = 6
"""Most names in a message."""

_ZIP_MAGIC = b"PK\x03\x04"
_PICKLE_MAGIC = b"\x80"
_DAMAGED = "is damaged or no checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint file.

    Attributes:
        path: the file.
        mappings: every mapping of tensors, on the CPU, by its place in the file (``""`` = the whole
            file), most preferred first; after `fitted`, the one that fits the network.
        feedback: feedback matrices by name (``B_0``, ``B_1``, ... for a list); may be empty.
        metadata: metadata of a safetensors file, e.g. method and seed.
        contents: names of entries besides tensors.
        taken: note on the mapping that fits and on anything unused or renamed; "" if all tensors
            are used unchanged.
    """

    path: Path
    mappings: Mapping[str, Tensors]
    feedback: StateDict = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    contents: tuple[str, ...] = ()
    taken: str = ""

    @property
    def tensors(self) -> Tensors:
        """The network's state dict."""
        return next(iter(self.mappings.values()))


def load_checkpoint(path: Path, weights: str | None = None) -> Checkpoint:
    """Read a checkpoint.

    Args:
        path: a ``.safetensors`` file, the index of several, or a file of torch with a state dict at
            any depth, or a whole network; possibly feedback next to it (see `FEEDBACK`).
        weights: place of the mapping to take, or the end of one; None = the first that fits the
            network.

    Raises:
        UnsafeCheckpoint: a TorchScript program.
        UnreadableInput: no such file, no permission, truncated, or not a checkpoint.
        UsageError: no mapping has that place.
    """
    with reading(path, _DAMAGED, COPY_AGAIN):
        if path.suffix == ".json":
            found = _read_shards(path)
        else:
            found = _read(path)
    if weights is None:
        return found
    return _chosen(found, weights)


def _chosen(checkpoint: Checkpoint, weights: str) -> Checkpoint:
    """The checkpoint with only what lies below a name, at any level, shortest place first.

    Raises:
        UsageError: there is none.
    """
    named = re.compile(rf"(?:|.*?[._-]){re.escape(weights)}\.")
    found: dict[str, Tensors] = {}
    for place, tensors in checkpoint.mappings.items():
        start = dotted(place)
        matches = [named.match(start + name) for name in tensors]
        for prefix in {match[0] for match in matches if match}:
            if len(prefix) > len(start):
                found[prefix[:-1]] = tensors.below(prefix[len(start) :])
            else:
                found[place] = tensors
    if found:
        chosen = {place: found[place] for place in sorted(found, key=len)}
        return replace(checkpoint, mappings=chosen)
    full = [dotted(place) + name for place, held in checkpoint.mappings.items() for name in held]
    shared, _, _ = commonprefix(full).rpartition(".")
    start = dotted(shared)
    parts = {start + name.removeprefix(start).partition(".")[0] for name in full}
    names = listed(sorted(parts), MOST_NAMED)
    raise UsageError(
        f"holds no --weights {weights}", where=checkpoint.path, hint=f"it holds {names}"
    )


def dotted(place: str) -> str:
    """What a place puts before the names in it."""
    return place and f"{place}."


def listed(names: list[str], most: int = 3) -> str:
    """The first names, and "…" if there are more."""
    text = ", ".join(names[:most])
    if len(names) > most:
        text += ", …"
    return text


def _read(path: Path) -> Checkpoint:
    refusal = distributed(str(path))
    if refusal:
        raise refusal
    with open_file(path) as file:
        size = size_of(file)
        head = file.read(HEAD)
        if head[8:9] == b"{":
            if int.from_bytes(head[:8], "little") > HEADER_LIMIT:
                raise UnreadableInput("its header is too large for any network", where=path)
            return _read_safetensors(path, name_of(file, path))
        if not head.startswith((_ZIP_MAGIC, _PICKLE_MAGIC)):
            raise not_a_checkpoint(str(path), head)
        archive = Archive(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    if head.startswith(_ZIP_MAGIC):
        content = _read_zip(path, archive)
    else:
        content = archive.pickled()
    return _from_content(path, content, size)


def _read_safetensors(path: Path, opened: str) -> Checkpoint:
    with safe_open(opened, framework="pt") as file:
        # not a mapping
        tensors = Tensors((name, file.get_tensor(name)) for name in file.keys())  # noqa: SIM118
        if not tensors:
            raise _without_tensors(path)
        return Checkpoint(path, {"": tensors}, metadata=file.metadata() or {})


def _read_shards(path: Path) -> Checkpoint:
    """Read the tensors of an index, each from its shard."""
    places = shards(path)
    tensors = Tensors()
    for shard in dict.fromkeys(places.values()):
        with reading(shard, _DAMAGED, COPY_AGAIN):
            held = _read(shard).tensors
        own = {name: tensor for name, tensor in held.items() if places.get(name) == shard}
        tensors.update(own)
    missing = [name for name in places if name not in tensors]
    if missing:
        raise UnreadableInput(
            f"its shards lack {len(missing)} tensors, the first is {missing[0]}", where=path
        )
    return Checkpoint(path, {"": tensors})


def _read_zip(path: Path, archive: Archive) -> object:
    archive.open_zip()
    if "constants.pkl" in archive.places:
        raise UnsafeCheckpoint(
            "is a TorchScript program, and checkpoints are not run",
            where=path,
            hint=f"save its weights: torch.save(torch.jit.load({path.name!r}).state_dict(), "
            "'weights.pt')",
        )
    if "data.pkl" in archive.places:
        return archive.zipped()
    if EXPORTED_TABLE in archive.places:
        return archive.exported()
    if any(name.startswith("serialized_exported_program") for name in archive.places):
        raise UnreadableInput(
            "is an exported program of an earlier torch",
            where=path,
            hint=f"save its weights: torch.save(torch.export.load({path.name!r}).state_dict, "
            "'weights.pt')",
        )
    hint = ARRAYS if any(name.endswith(".npy") for name in archive.places) else ""
    raise UnreadableInput("is a zip archive that torch.save did not write", where=path, hint=hint)


def _from_content(path: Path, content: object, size: int) -> Checkpoint:
    found = mappings(content, size)
    root = contents_of(content)
    names = [key for key in root if isinstance(key, str)]
    kept = next(filter(FEEDBACK.fullmatch, names), None)
    feedback = {}
    if kept is not None:
        found.pop(kept, None)
        feedback = _feedback(root[kept])
    whole = {place: tensors for place, tensors in found.items() if tensors}
    if not whole:
        raise _no_tensors(path, content, found, names)
    others: tuple[str, ...] = ()
    if "_modules" not in root:
        taken = {kept, *whole.get("", Tensors()).names}
        others = tuple(name for name in names if name not in taken)
    return Checkpoint(path, by_preference(whole), feedback, contents=others)


def _feedback(value: object) -> dict[str, Tensor]:
    """Feedback matrices by name, from a mapping, a list or a stacked tensor."""
    held = contents_of(value)
    stacked = tensor_of(value)
    if stacked is not None:
        held = dict(enumerate(stacked))
    feedback = {}
    for key, one in held.items():
        name = f"B_{key}"
        if isinstance(key, str):
            name = key
        matrix = tensor_of(one)
        if matrix is not None:
            feedback[name] = matrix
    return feedback


def _no_tensors(
    path: Path, content: object, found: Mapping[str, Tensors], names: list[str]
) -> UnreadableInput:
    """The error for a file without plain tensors, with a description of its content."""
    for tensors in found.values():
        for name in tensors.others:
            return UnreadableInput(f"holds no plain tensor: {other(tensors, name)}", where=path)
    if not content or any(
        type(one) is SafeDict and not one for one in contents_of(content).values()
    ):
        return _without_tensors(path)
    if isinstance(content, Placeholder):
        held = f"a {content.name}, not a state dict"
    elif names:
        held = f"no state dict (it holds {listed(list(map(repr, names)), 6)})"
    else:
        held = f"a {type(content).__name__.lower()}, not a state dict"
    hint = "save the network's state_dict()"
    inner = [content, *contents_of(content).values()]
    for value in (one for held in inner for one in contents_of(held).values()):
        if isinstance(value, Placeholder) and value.name.startswith("numpy"):
            hint = ARRAYS
    return UnreadableInput(f"holds {held}", where=path, hint=hint)


def _without_tensors(path: Path) -> UnreadableInput:
    return UnreadableInput(
        "holds an empty state dict, without any tensor",
        where=path,
        hint="save it on the process that has the weights (rank 0), of a network whose layers are "
        "attributes or in an nn.ModuleList",
    )


def other(tensors: Tensors, name: str) -> str:
    """What a tensor is that is not plain and dense, and how to save it again."""
    kind = tensors.others[name]
    what, again = OTHERS.get(kind, (f"of another kind ({kind})", "as a plain tensor"))
    return f"{name} is {what}; save it again {again}"


def by_preference(found: Mapping[str, Tensors]) -> dict[str, Tensors]:
    """Mappings ordered by preference: averages last, known keys first, then by size."""

    def rank(place: str) -> tuple[bool, bool, int]:
        averaged = AVERAGED.search(place.lower()) is not None
        _, _, key = place.rpartition(".")
        size = sum(tensor.numel() for tensor in found[place].values())
        return averaged, key not in WEIGHT_KEYS, -size

    return {place: found[place] for place in sorted(found, key=rank)}
