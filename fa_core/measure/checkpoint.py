"""Which classes and functions a pickle would import: read from its opcodes, nothing is run.

Tensors from a checkpoint file, without ever running code that the file names.

``.safetensors`` files cannot hold code. ``.pt`` and ``.pth`` files are pickles: they are read with
``weights_only=True``, always; one that needs more is refused, and the message says what it wanted.
Files are recognised by their first bytes, so that a large file of another kind is never read.
"""

from __future__ import annotations

import pickle
import pickletools
import re
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fa_core.errors import UnreadableInput, UnsafeCheckpoint

PICKLES_PER_FILE = 4
"""What torch's old format puts in a row: magic number, protocol, system, then the content."""


def pickle_globals(path: Path) -> list[str]:
    """``module.name`` of every global in a pickle file that is no zip archive.

    Names that the pickle builds while it runs are not found; those that stand in it are.
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
"""Where it keeps its feedback matrices, beside the state dict."""

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
            ``state_dict`` or ``model_state_dict``, feedback under ``Bs`` beside it.

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
    """A command for the person to run, where they trust a file that this project does not."""
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
