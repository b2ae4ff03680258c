"""Checkpoint files: their tensors, read without running any code that a file names.

``.safetensors`` files cannot hold code; `fa_core.files.torch_file` reads files of torch. The name
and the first bytes decide, so that a large file of another kind is never read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from safetensors import safe_open
from torch import Tensor

from fa_core.errors import UnreadableInput, UnsafeCheckpoint, UsageError
from fa_core.files.decode import reading
from fa_core.files.inert import Placeholder, zip_entries
from fa_core.files.opening import name_of, open_file, size_of
from fa_core.files.tensor_mappings import (
    State,
    StateDict,
    contents_of,
    mappings,
    tensor_of,
)
from fa_core.files.torch_file import content_of
from fa_core.formats.checkpoint_file import (
    ARRAYS,
    COPY_AGAIN,
    HEAD,
    HEADER_LIMIT,
    distributed,
    not_a_checkpoint,
    safetensors_metadata,
    shards,
)
from fa_core.report.numbers import listed

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

_MOST_LAYERS = 1 << 12
"""Matrices of a stack that are looked at; no network of so many layers trains."""

_JIT = "save its weights: torch.save(torch.jit.load({!r}).state_dict(), 'weights.pt')"
_EXPORT = "save its weights: torch.save(torch.export.load({!r}).state_dict, 'weights.pt')"
_OTHER_ZIPS = {
    "constants.pkl": ("a TorchScript program, and checkpoints are not run", _JIT),
    "model_weights_config.json": ("a program of torch.export", _EXPORT),
    "serialized_exported_program": ("a program of torch.export", _EXPORT),
    ".npy": ("an archive of NumPy arrays", ARRAYS),
}
"""Part of an entry's name in zip archives that are no checkpoints, what they are, what helps."""

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
    mappings: Mapping[str, State]
    feedback: StateDict = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    contents: tuple[str, ...] = ()
    taken: str = ""

    @property
    def state(self) -> State:
        """The network's state dict."""
        return next(iter(self.mappings.values()))

    @property
    def tensors(self) -> StateDict:
        """The tensors of `state`."""
        return self.state.tensors


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
    found: dict[str, State] = {}
    known = set()
    for place, state in checkpoint.mappings.items():
        start = dotted(place)
        for name in state:
            known.add(start + name.partition(".")[0])
            match = named.match(start + name)
            if match and match.end() <= len(start):
                found[place] = state
            elif match and match[0][:-1] not in found:
                found[match[0][:-1]] = state.below(match[0][len(start) :])
    if found:
        chosen = {place: found[place] for place in sorted(found, key=len)}
        return replace(checkpoint, mappings=chosen)
    raise UsageError(
        f"holds no --weights {weights}",
        where=checkpoint.path,
        hint=f"it holds {listed(sorted(known))}",
    )


def dotted(place: str) -> str:
    """What a place puts before the names in it."""
    return place and f"{place}."


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
            if path.suffix != ".safetensors":  # torch.load may find a pickle in it
                raise UnreadableInput(
                    "is a safetensors file of another name",
                    where=path,
                    hint=f"rename it: {path.with_suffix('.safetensors').name}",
                )
            metadata = safetensors_metadata(str(path), file, size)
            return _read_safetensors(path, name_of(file), metadata)
        if not head.startswith((_ZIP_MAGIC, _PICKLE_MAGIC)):
            raise not_a_checkpoint(str(path), head)
        entries = None
        if head.startswith(_ZIP_MAGIC):
            entries = zip_entries(file)
            names = " ".join(PurePosixPath(entry.filename).name for entry in entries)
            for part, (kind, hint) in _OTHER_ZIPS.items():
                if part in names:
                    raise UnsafeCheckpoint(f"is {kind}", where=path, hint=hint.format(path.name))
        content, others = content_of(path, file, entries)
    return _from_content(path, content, size, others)


def _read_safetensors(path: Path, opened: str, metadata: Mapping[str, str]) -> Checkpoint:
    with safe_open(opened, framework="pt") as file:
        # not a mapping
        tensors = State((name, file.get_tensor(name)) for name in file.keys())  # noqa: SIM118
        if not tensors:
            raise _no_tensors(path, {}, {})
        return Checkpoint(path, {"": tensors}, metadata=metadata)


def _read_shards(path: Path) -> Checkpoint:
    """Read the tensors of an index, each from its shard."""
    places = shards(path)
    tensors = State()
    for shard in dict.fromkeys(places.values()):
        with reading(shard, _DAMAGED, COPY_AGAIN):
            held = _read(shard).mappings.get("", State()).tensors
        astray = [name for name in held if places.get(name) != shard]
        if astray:
            raise UnreadableInput(f"holds {astray[0]}, which its index does not have", where=shard)
        tensors.update(held)
    missing = [name for name in places if name not in tensors]
    if missing:
        raise UnreadableInput(
            f"its shards lack {len(missing)} tensors, the first is {missing[0]}", where=path
        )
    return Checkpoint(path, {"": tensors})


def _from_content(path: Path, content: object, size: int, others: str) -> Checkpoint:
    found = mappings(content, size)
    root = contents_of(content)
    names = [key for key in root if isinstance(key, str)]
    kept = next(filter(FEEDBACK.fullmatch, names), None)
    feedback = {}
    if kept is not None:
        found.pop(kept, None)
        feedback = _feedback(root[kept])
    whole = {place: state for place, state in found.items() if state.tensors}
    if others or not whole:
        raise _no_tensors(path, content, found, others)
    contents: tuple[str, ...] = ()
    if "_modules" not in root:
        taken = {kept, *whole.get("", ())}
        contents = tuple(name for name in names if name not in taken)
    return Checkpoint(path, by_preference(whole), feedback, contents=contents)


def _feedback(value: object) -> dict[str, Tensor]:
    """Feedback matrices by name, from a mapping, a list or a stacked tensor."""
    held = contents_of(value)
    stacked = tensor_of(value)
    if stacked is not None:
        # a file of few bytes may state any number of rows
        held = dict(enumerate(stacked[:_MOST_LAYERS]))
    feedback = {}
    for key, one in held.items():
        matrix = tensor_of(one)
        if matrix is not None:
            feedback[key if isinstance(key, str) else f"B_{key}"] = matrix
    return feedback


def _no_tensors(
    path: Path, content: object, found: Mapping[str, State], others: str = ""
) -> UnreadableInput:
    """The error for a file without plain tensors, or of others, with a description of its
    content."""
    root = contents_of(content)
    kinds = [f"{name} {what}" for state in found.values() for name, what in state.others.items()]
    if others:
        kinds.append(f"{others}; save the network's state_dict()")
    if kinds:
        what = f"holds more than plain tensors, numbers and texts: {kinds[0]}"
        return UnreadableInput(what, where=path)
    kind = content.name if isinstance(content, Placeholder) else type(content).__name__.lower()
    held = f"a {kind}, not a state dict"
    hint = "save the network's state_dict()"
    likely = (content, *map(root.get, WEIGHT_KEYS))
    dicts = [one for one in likely if isinstance(one, dict) and not isinstance(one, Placeholder)]
    if not all(dicts):
        held = "an empty state dict"
        hint = "save it on the process that has the weights, with layers in an nn.ModuleList"
    elif names := [repr(name) for name in root if isinstance(name, str)]:
        held = f"no state dict (it holds {listed(names)})"
    if any(isinstance(one, Placeholder) and one.name.startswith("numpy") for one in root.values()):
        hint = ARRAYS
    return UnreadableInput(f"holds {held}", where=path, hint=hint)


def by_preference(found: Mapping[str, State]) -> dict[str, State]:
    """Mappings ordered by preference: averages last, known keys first, then by size."""

    def rank(place: str) -> tuple[bool, bool, int]:
        averaged = AVERAGED.search(place.lower()) is not None
        _, _, key = place.rpartition(".")
        size = sum(tensor.numel() for tensor in found[place].tensors.values())
        return averaged, key not in WEIGHT_KEYS, -size

    return {place: found[place] for place in sorted(found, key=rank)}
