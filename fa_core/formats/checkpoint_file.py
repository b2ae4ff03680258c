"""Format 6: a checkpoint, recognised by its first bytes and named by its file. Never loaded here: no torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from fa_core.errors import UnreadableInput
from fa_core.formats.json_document import Finding, python_loads
from fa_core.rows import row_of_file
from fa_core.runs import canonical_method

NAME = "checkpoint"
SUFFIXES = (".safetensors", ".pt", ".pth")
"""Names that promise a checkpoint: only used to complain about files that break the promise."""

_FIRST = 4096
_SMALLEST_PICKLE = 32
"""Bytes; the name of the function that rebuilds a tensor takes more."""
_HEADER_LIMIT = 100 << 20
_LEGACY_MAGIC = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19"
_COPY_AGAIN = "copy or download the file again"


def kind_of(head: bytes, path: str) -> str:
    """What the first bytes of a file say: ``"safetensors"``, ``"zip"``, ``"pickle"`` or ``""`` (no checkpoint).

    A bare pickle counts under a name that promises a checkpoint: pickles hold anything (data sets, too).
    """
    if len(head) >= 10 and head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= _HEADER_LIMIT:
        return "safetensors"
    if head.startswith(b"PK\x03\x04"):
        return "zip" if b"data.pkl" in head or promises_checkpoint(path) else ""
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "pickle" if _LEGACY_MAGIC in head[:32] or promises_checkpoint(path) else ""
    return ""


def read(path: str, kind: str, file: BinaryIO, size: int) -> Iterator[Finding]:
    """The checkpoint as a row without measurements; its safetensors metadata may name method and seed.

    Args:
        path: the file.
        kind: from `kind_of`.
        file: the file, opened for reading.
        size: its size in bytes.

    Raises:
        UnreadableInput: truncated, or not what its first bytes say.
    """
    row = row_of_file(path)
    method, seed = row.method, row.seed
    if kind == "safetensors":
        metadata = _safetensors_metadata(path, file, size)
        stated_method, stated_seed = metadata.get("method"), metadata.get("seed")
        if isinstance(stated_method, str) and stated_method.strip():
            method = canonical_method(stated_method)
        if isinstance(stated_seed, str) and stated_seed.isascii() and stated_seed.isdigit():
            seed = int(stated_seed[:18])
    elif kind == "zip" and not _is_whole_zip(file):
        raise UnreadableInput("truncated checkpoint (a zip archive without its end)", where=path, hint=_COPY_AGAIN)
    elif kind == "pickle" and size < _SMALLEST_PICKLE:
        raise UnreadableInput(f"damaged checkpoint: no tensor fits into {size} bytes", where=path, hint=_COPY_AGAIN)
    yield msgspec.structs.replace(row, method=method, seed=seed, checkpoint=path)


def damage(path: Path) -> UnreadableInput | None:
    """Why a file is no whole checkpoint, as far as its first bytes and its size show; None = they show no damage."""
    try:
        with path.open("rb") as file:
            head = file.read(_FIRST)
            kind = kind_of(head, str(path))
            if not kind:
                return not_a_checkpoint(str(path), head)
            list(read(str(path), kind, file, os.fstat(file.fileno()).st_size))
    except OSError as error:
        return UnreadableInput(f"cannot be read ({error.strerror})", where=path)
    except UnreadableInput as error:
        return error
    return None


def not_a_checkpoint(path: str, head: bytes) -> UnreadableInput:
    """What to say about a file that only promises to be a checkpoint."""
    what = "not a checkpoint" if head else "empty file"
    return UnreadableInput(what, where=path, hint="expected safetensors or a state dict saved by torch")


def _is_whole_zip(file: BinaryIO) -> bool:
    # imported for those who have one: it costs the start a millisecond
    import zipfile

    return zipfile.is_zipfile(file)


def _safetensors_metadata(path: str, file: BinaryIO, size: int) -> dict[str, Any]:
    """The ``__metadata__`` of a safetensors file whose header and length agree."""
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if 8 + length > size:
        raise UnreadableInput(
            f"truncated safetensors: its header needs {8 + length} bytes, the file has {size}",
            where=path,
            hint=_COPY_AGAIN,
        )
    try:
        header = python_loads(file.read(length))
        if not isinstance(header, dict):
            raise ValueError("not an object")
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        needed = 8 + length + max(ends, default=0)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise UnreadableInput(f"malformed safetensors header: {error}", where=path, hint=_COPY_AGAIN) from error
    if needed > size:
        raise UnreadableInput(
            f"truncated safetensors: its tensors need {needed} bytes, the file has {size}", where=path, hint=_COPY_AGAIN
        )
    metadata = header.get("__metadata__")
    return metadata if isinstance(metadata, dict) else {}


def promises_checkpoint(path: str) -> bool:
    """Whether a file's name promises a checkpoint."""
    return path.lower().endswith(SUFFIXES)
