"""Checkpoint files: their tensors, read without running any code that a file names.

``.safetensors`` files cannot hold code; `fa_core.files.inert` reads files of torch. The
first bytes decide, so that a large file of another kind is never read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from safetensors import safe_open
from torch import Tensor

from fa_core.errors import UnreadableInput, UnsafeCheckpoint, UsageError
from fa_core.files.decode import reading
from fa_core.files.inert import EXPORTED_TABLE, Archive, Placeholder, opened
from fa_core.files.opening import name_of, open_file, size_of
from fa_core.files.tensor_mappings import Contents, StateDict, contents_of, mappings, tensor_of
from fa_core.formats.checkpoint_file import COPY_AGAIN, HEADER_LIMIT, distributed, shards

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
    mappings: Mapping[str, StateDict]
    feedback: StateDict = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    contents: tuple[str, ...] = ()
    taken: str = ""

    @property
    def tensors(self) -> StateDict:
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
    """The checkpoint with only the mappings whose place ends in a name, shortest place first.

    Raises:
        UsageError: there is none.
    """
    named = re.compile(rf"(?:^|[._-]){re.escape(weights)}$")
    parted = by_first_part(checkpoint)
    for held in (checkpoint, parted):
        places = sorted(filter(named.search, held.mappings), key=len)
        if places:
            return replace(held, mappings={place: held.mappings[place] for place in places})
    known = list(filter(None, checkpoint.mappings)) or parted.mappings
    names = ", ".join(known) or "nothing by a name"
    raise UsageError(
        f"holds no --weights {weights}", where=checkpoint.path, hint=f"it holds {names}"
    )


def _read(path: Path) -> Checkpoint:
    refusal = distributed(str(path))
    if refusal:
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
            raise UnreadableInput(
                f"is no checkpoint (it starts with {head[:8]!r})",
                where=path,
                hint="checkpoints are .safetensors files, or .pt/.pth files written by torch.save",
            )
        archive = opened(file)
    if head.startswith(_ZIP_MAGIC):
        content = _read_zip(path, archive)
    else:
        content = archive.pickled()
    return _from_content(path, content, size)


def _read_safetensors(path: Path, opened: str) -> Checkpoint:
    with safe_open(opened, framework="pt") as file:
        # not a mapping
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return Checkpoint(path, {"": tensors}, metadata=file.metadata() or {})


def _read_shards(path: Path) -> Checkpoint:
    """Read the tensors of an index, each from its shard."""
    places = shards(path)
    tensors: dict[str, Tensor] = {}
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
    raise UnreadableInput("is a zip archive that torch.save did not write", where=path)


def _from_content(path: Path, content: object, size: int) -> Checkpoint:
    found = mappings(content, size)
    root = contents_of(content)
    names = [key for key in root if isinstance(key, str)]
    kept = next(filter(FEEDBACK.fullmatch, names), None)
    feedback = {}
    if kept is not None:
        found.pop(kept, None)
        feedback = _feedback(root[kept])
    if not found:
        raise _no_tensors(path, content, root, names)
    others: tuple[str, ...] = ()
    if "_modules" not in root:
        taken = {kept, *found.get("", ())}
        others = tuple(name for name in names if name not in taken)
    return Checkpoint(path, _by_preference(found), feedback, contents=others)


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


def _no_tensors(path: Path, content: object, root: Contents, names: list[str]) -> UnreadableInput:
    """The error for a file without tensors, with a description of its content."""
    if names:
        held = f"no state dict (it holds {', '.join(map(repr, names[:6]))})"
    elif isinstance(content, Placeholder):
        held = f"a {content.name}, not a state dict"
    elif isinstance(content, dict):
        held = "a dict, not a state dict"
    else:
        held = f"a {type(content).__name__.lower()}, not a state dict"
    hint = "save the network's state_dict()"
    for value in root.values():
        if isinstance(value, Placeholder) and value.name.startswith("numpy"):
            hint = "turn its NumPy arrays into tensors (torch.from_numpy)"
    return UnreadableInput(f"holds {held}", where=path, hint=hint)


def _by_preference(found: Mapping[str, StateDict]) -> dict[str, StateDict]:
    """Mappings ordered by preference: averages last, known keys first, then by size."""

    def rank(place: str) -> tuple[bool, bool, int]:
        averaged = AVERAGED.search(place.lower()) is not None
        _, _, key = place.rpartition(".")
        size = sum(tensor.numel() for tensor in found[place].values())
        return averaged, key not in WEIGHT_KEYS, -size

    return {place: found[place] for place in sorted(found, key=rank)}


def by_first_part(checkpoint: Checkpoint) -> Checkpoint:
    """The checkpoint with one mapping per first part of the tensors' names.

    >>> import torch
    >>> flat = {"student.w": torch.ones(1), "teacher.w": torch.ones(1)}
    >>> list(by_first_part(Checkpoint(Path("a.pt"), {"net": flat})).mappings)
    ['net.student', 'net.teacher']
    """
    parts: dict[str, dict[str, Tensor]] = {}
    for place, tensors in checkpoint.mappings.items():
        firsts = {name.partition(".")[0] for name in tensors}
        if len(firsts) < 2 or not any("." in name for name in tensors):
            continue
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            if place:
                part = f"{place}.{part}"
            parts.setdefault(part, {})[rest] = tensor
    contents = (*parts, *checkpoint.contents)
    return replace(checkpoint, mappings=_by_preference(parts), contents=contents)
