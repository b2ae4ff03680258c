"""The network of a checkpoint file: its tensors, read without ever running code that the file names, and their network.

``.safetensors`` files cannot hold code. ``.pt`` and ``.pth`` files are pickles: they are read with
``weights_only=True``, always; one that needs more is refused, and the message says what it wanted.
Files are recognised by their first bytes, so that a large file of another kind is never read.
"""

from __future__ import annotations

import copy
import json
import pickle
import pickletools
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from fa_core.errors import UnknownNetwork, UnreadableInput, UnsafeCheckpoint, UsageError
from fa_core.measure.isolate import HALF, Draws
from fa_core.models import arch_of, build, recognise
from fa_core.models.named import hub_folder, network_of, own_names
from fa_core.runs import MANIFEST, Manifest

PICKLES_PER_FILE = 4
"""What torch's old format puts in a row: magic number, protocol, system, then the content."""


def pickle_globals(path: Path) -> list[str]:
    """``module.name`` of every global in a pickle file that is no zip archive.

    Names that the pickle builds while it runs are not found; those that are in it as text are.
    """
    found: list[str] = []
    strings: list[str] = []
    try:
        with path.open("rb") as file:
            for _ in range(PICKLES_PER_FILE):
                for opcode, argument, _ in pickletools.genops(file):
                    if opcode.name == "GLOBAL":
                        found.append(str(argument).replace(" ", "."))
                    elif opcode.name == "STACK_GLOBAL":
                        found.append(".".join(strings[-2:]))
                    elif isinstance(argument, str):
                        strings.append(argument)
    except (ValueError, OSError):
        pass
    return list(dict.fromkeys(found))


WEIGHT_KEYS = ("model", "state_dict", "model_state_dict")
"""Where a training script's checkpoint keeps the network's state dict."""

FEEDBACK_KEY = "Bs"
"""Where it keeps its feedback matrices, next to the state dict."""

WRAPPER_PREFIXES = ("module.", "_orig_mod.")
"""What DistributedDataParallel and torch.compile put before every name."""

_ZIP_MAGIC = b"PK\x03\x04"
_PICKLE_MAGIC = b"\x80"
_LARGEST_HEADER = 100_000_000


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint file holds.

    Attributes:
        path: the file.
        tensors: the network's state dict, on the CPU.
        feedback: feedback matrices by name (``B_0``, ``B_1``, ... for a list), empty if it has none.
        metadata: a safetensors file's own notes, e.g. method and seed.
    """

    path: Path
    tensors: Mapping[str, Tensor]
    feedback: Mapping[str, Tensor] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Tensor name → shape."""
        return {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Args:
        path: a ``.safetensors`` file, or what ``torch.save`` wrote: a state dict, bare or under ``model``,
            ``state_dict`` or ``model_state_dict``, feedback under ``Bs`` next to it.

    Raises:
        UnsafeCheckpoint: a pickle that needs to load more than tensors and plain containers.
        UnreadableInput: no such file, no permission, truncated, or no checkpoint at all.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(16)
    except OSError as error:
        raise UnreadableInput(f"cannot be read ({error.strerror})", where=path) from error
    if size == 0:
        raise UnreadableInput("is empty", where=path)
    if head[8:9] == b"{":
        return _load_safetensors(path, struct.unpack("<Q", head[:8])[0], size)
    if head.startswith(_ZIP_MAGIC):
        _check_archive(path)
        return _from_content(path, _torch_load(path, mmap=True))
    if head.startswith(_PICKLE_MAGIC):
        return _from_content(path, _torch_load(path, mmap=False))
    raise UnreadableInput(
        f"is no checkpoint (it starts with {head[:8]!r})",
        where=path,
        hint="checkpoints are .safetensors files, or .pt/.pth files written by torch.save",
    )


def _load_safetensors(path: Path, header: int, size: int) -> Checkpoint:
    if header > _LARGEST_HEADER or header + 8 > size:
        raise UnreadableInput(f"is truncated or no safetensors file ({size} bytes)", where=path)
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            return Checkpoint(path, _unwrapped(tensors), metadata=file.metadata() or {})
    except SafetensorError as error:
        raise UnreadableInput(f"is damaged ({error})", where=path, hint="copy it again from where it came") from error


def _check_archive(path: Path) -> None:
    """Refuse a zip archive that ``torch.save`` did not write."""
    try:
        names = [name.rpartition("/")[2] for name in zipfile.ZipFile(path).namelist()]
    except (zipfile.BadZipFile, OSError) as error:
        raise UnreadableInput("is truncated or damaged", where=path, hint="copy it again from where it came") from error
    if "constants.pkl" in names:
        hint = f"save its weights: torch.save(torch.jit.load({path.name!r}).state_dict(), 'weights.pt')"
        raise UnsafeCheckpoint("is a TorchScript program, and checkpoints are not run", where=path, hint=hint)
    if "data.pkl" not in names:
        raise UnreadableInput("is a zip archive that torch.save did not write", where=path)


def _torch_load(path: Path, mmap: bool) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, AttributeError, OSError) as error:
        wanted = _unsafe_globals(path, str(error))
        if wanted:
            raise UnsafeCheckpoint(
                f"wants to load {', '.join(wanted)}, which could run code",
                where=path,
                hint=f"if you trust its origin, convert it once: {_conversion(path)}",
            ) from error
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UnreadableInput(f"is no checkpoint that torch can read ({reason})", where=path) from error


def _unsafe_globals(path: Path, message: str) -> Sequence[str]:
    try:
        found: Sequence[str] = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except (ValueError, RuntimeError, OSError, pickle.UnpicklingError):
        found = [name for name in pickle_globals(path) if not name.startswith(("torch.", "collections."))]
    named = re.findall(r"GLOBAL (\w[\w.]*\.\w+)", message)
    return list(dict.fromkeys([*found, *named]))


def _conversion(path: Path) -> str:
    """A command for the user to run, where they trust a file that this project does not."""
    target = path.with_name(f"{path.stem}_weights.pt").name
    load = f"m = torch.load({path.name!r}, weights_only=False)"
    pick = "m.state_dict() if hasattr(m, 'state_dict') else m.get('model', m.get('state_dict'))"
    return f'python -c "import torch; {load}; torch.save({pick}, {target!r})"'


def _from_content(path: Path, content: Any) -> Checkpoint:
    if not isinstance(content, Mapping):
        raise UnreadableInput(f"holds a {type(content).__name__}, not a state dict", where=path)
    weights = next((content[key] for key in WEIGHT_KEYS if isinstance(content.get(key), Mapping)), content)
    tensors = {str(name): value for name, value in weights.items() if isinstance(value, Tensor)}
    if not tensors:
        keys = ", ".join(repr(key) for key in list(content)[:6]) or "nothing"
        raise UnreadableInput(
            f"holds no state dict (it holds {keys})", where=path, hint=f"keep it under {', '.join(WEIGHT_KEYS)}"
        )
    return Checkpoint(path, _unwrapped(tensors), _feedback(content.get(FEEDBACK_KEY)))


def _feedback(value: Any) -> dict[str, Tensor]:
    if isinstance(value, Mapping):
        named = {str(name): matrix for name, matrix in value.items()}
    elif isinstance(value, list | tuple):
        named = {f"B_{layer}": matrix for layer, matrix in enumerate(value)}
    else:
        return {}
    return {name: matrix for name, matrix in named.items() if isinstance(matrix, Tensor)}


def _unwrapped(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    for prefix in WRAPPER_PREFIXES:
        if tensors and all(name.startswith(prefix) for name in tensors):
            return _unwrapped({name.removeprefix(prefix): tensor for name, tensor in tensors.items()})
    return tensors


def network_for(
    checkpoint: Checkpoint, manifest: Manifest | None = None, model: str | None = None, as_is: bool = False
) -> nn.Module:
    """Build the network of a checkpoint and load its weights.

    Args:
        checkpoint: the tensors.
        manifest: the run's manifest, if it has one: names a built-in network.
        model: a SPEC of `fa_core.models.named`; it goes before the manifest. Only ever what the user typed.
        as_is: keep half-precision weights in half precision instead of float32.

    Raises:
        UsageError: ``model`` cannot be imported, or gives no module.
        UnknownNetwork: tensors of no known network.
        UnreadableInput: tensors that do not fit the network.
    """
    if model is not None:
        # a buffer that is not saved may be drawn: the same one each time
        with Draws().passing():
            network = network_of(model)
    elif manifest is not None:
        network = _manifest_network(manifest, checkpoint)
    else:
        network = _recognised_network(checkpoint)
    tensors = own_names(network, checkpoint.tensors)
    load_tensors(network, tensors, checkpoint.path)
    kinds = {tensor.dtype for tensor in checkpoint.tensors.values() if tensor.is_floating_point()}
    if kinds == {torch.float64} or (as_is and len(kinds) == 1 and kinds <= {*HALF}):
        network.to(kinds.pop())
        network.load_state_dict(dict(tensors), strict=False)
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
        planned = _planned(arch_of(manifest.arch, checkpoint.tensors), manifest.arch_args)
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
        if folder := hub_folder(checkpoint.path):
            return network_of(f"hf:{folder}")
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
