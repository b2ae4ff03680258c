"""Format 6, checkpoints: recognised by their first bytes, named after file or folder. No torch.

A model-hub folder is one run: the index of its shards, or its only file. A folder of torch's
distributed checkpoints is one run as well, by its ``.metadata``; it has to be converted first.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from fa_core.errors import FaError, UnreadableInput
from fa_core.files.decode import loads, reading
from fa_core.files.opening import (
    LONGEST_NAME,
    exists,
    is_folder,
    open_file,
    read_file,
    real_path,
    size_of,
)
from fa_core.formats.json_document import Document, Finding
from fa_core.formats.rows import AuditRow, Place, row_of_file
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import CREDIT, DISTRIBUTED, HUB_FILES, MANIFEST, WEIGHTS, is_run
from fa_core.report.names import LONGEST_SEED, canonical_method
from fa_core.sanitize import sanitize

NAME = "checkpoint"
SUFFIXES = (".safetensors", ".pt", ".pth", ".pt2")
"""Suffixes of checkpoints; files of these names that are no checkpoint are reported."""

HEAD = 4096
"""First bytes that say what a file is."""

HEADER_LIMIT = 1 << 25
"""Maximum bytes of a safetensors header or an index: about 300,000 tensors."""

_LEGACY_MAGIC = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19"
COPY_AGAIN = "copy or download the file again, or save its weights again"
ARRAYS = "turn its NumPy arrays into tensors (torch.from_numpy)"

_FOREIGN = (
    (rb"version https://git-lfs", "is a Git LFS pointer, not the file", "fetch it: git lfs pull"),
    (rb"/annex/objects/", "is a git-annex pointer, not the file", "fetch it: git annex get"),
    (rb"\s*<", "is a web page, not the file", "download it again, logged in where that is needed"),
    (rb"GGUF", "is a GGUF file", "take the safetensors that it was made of"),
    (rb"\x89HDF|\x93NUMPY", "holds arrays of HDF5 or NumPy", ARRAYS),
    (
        rb"SQLite format 3\0",
        "a SQLite database, as MLflow and Trackio keep: not read",
        "export each run as CSV or JSON lines, a row an epoch (docs/logs.md)",
    ),
    (
        rb":W&B",
        "a run of Weights & Biases: not read",
        "export its run: wandb.Api().run('ENTITY/PROJECT/ID').history().to_csv('log.csv')",
    ),
    (rb"\x08.{1,9}\x12.pytorch", "is an ONNX graph", "save the state_dict() it was exported from"),
    (rb"\x1f\x8b|\xfd7zXZ|BZh|\x28\xb5\x2f\xfd|.{257}ustar", "is an archive", "unpack it"),
)
"""Start of a file that may stand in place of weights or a log, what it is, and what helps."""

_INDEX = ".index.json"
_NO_RUN = re.compile(
    r"(?P<trainer>(?:optimizer|scheduler|scaler|sampler|rng_state|random_states|training_args)"
    r"[_\d]*\.(?:pth?|bin|pkl))"
    r"|.*(?P<shard>-\d{5}-of-\d{5})\.(?:safetensors|bin)"
    r"|.*\.(?P<part>distcp)"
)


def kind_of(head: bytes, path: str) -> str:
    """Kind of a checkpoint by first bytes and name: safetensors, zip, pickle, distributed, or
    ``""`` for none.

    A bare pickle, which may hold anything, counts only with a suffix of checkpoints.
    """
    if distributed(path):
        if head[:1] == b"\x80":
            return "distributed"
        return ""
    if (
        len(head) >= 10
        and head[8:9] == b"{"
        and 2 <= int.from_bytes(head[:8], "little") <= HEADER_LIMIT
    ):
        return "safetensors"
    if head.startswith(b"PK\x03\x04") and (b"data.pkl" in head or promises_checkpoint(path)):
        return "zip"
    if re.match(rb"\x80[\x02-\x05]", head) and (
        _LEGACY_MAGIC in head[:32] or promises_checkpoint(path)
    ):
        return "pickle"
    return ""


def read(place: Place, kind: str, file: BinaryIO, size: int) -> Iterator[Finding]:
    """The checkpoint as an unmeasured row; its safetensors metadata may name method and seed.

    Args:
        place: the file.
        kind: from `kind_of`.
        file: open for reading.
        size: in bytes.

    Raises:
        UnreadableInput: truncated, or not of this kind.
    """
    import zipfile  # imported for the first checkpoint: it takes a millisecond

    path = place.path
    row = replace(row_of_file(path, place.root), checkpoint=path)
    if kind == "safetensors":
        metadata = safetensors_metadata(path, file, size)
        stated = metadata.get("method", "")
        number = metadata.get("seed", "")
        if stated.strip():
            row = replace(row, method=canonical_method(stated))
        if number.isdecimal() and len(number) <= LONGEST_SEED:
            row = replace(row, seed=int(number))
    elif kind == "zip" and not zipfile.is_zipfile(file):
        raise UnreadableInput(
            "truncated checkpoint (a zip archive without its end)", where=path, hint=COPY_AGAIN
        )
    if refusal := distributed(path):
        row = replace(row, report=DiagnosticReport(notes=f"{refusal.what}; {refusal.hint}"))
    yield row


def sniff_index(document: Document) -> bool:
    """Whether a document is an index of tensors in shards."""
    return document.path.endswith(_INDEX) and "weight_map" in document.members


def read_index(document: Document) -> Iterator[Finding]:
    """The checkpoint as an unmeasured row."""
    yield replace(row_of_file(document.path, document.root), checkpoint=document.path)


def no_run(path: str) -> str:
    """Why a file is not a run of its own, whatever it holds; ``""`` if it may be one."""
    match = _NO_RUN.fullmatch(os.path.basename(path))  # noqa: PTH119
    if match is None:
        return ""
    if match["trainer"]:
        return "holds the state of a trainer, not weights"
    if match["part"]:
        return "is a part of a distributed checkpoint"
    index = path.replace(match["shard"], "") + _INDEX
    if exists(index):
        return f"is a part of the checkpoint {index}"
    return ""


MOST_SHARDS = 256
"""Files of an index: those of the largest model that is public are 191."""


def shards(path: Path) -> dict[str, Path]:
    """Tensor name → its file, from an index.

    Raises:
        UnreadableInput: not an index, or one with files of another folder.
    """
    return {name: path.with_name(file) for name, file in _named_in(path).items()}


def _named_in(index: Path) -> dict[str, str]:
    with reading(index, "is no index of shards", COPY_AGAIN):
        place = real_path(index)
        found = _decoded(place, place.stat().st_mtime_ns)
        if not found:
            raise ValueError("it names no files of its folder, or far too many")
        return found


@lru_cache(8)
def _decoded(index: Path, written: int) -> dict[str, str]:
    """Tensor name → file's name, once for all links to an index; empty where it names files of
    other folders, or too many."""
    named: dict[str, str] = loads(read_file(index, HEADER_LIMIT))["weight_map"]
    files = set(named.values())
    foreign = any(file in ("", "..") or Path(file).name != file for file in files)
    return {} if foreign or len(files) > MOST_SHARDS else named


def files_of(path: Path) -> list[Path]:
    """All files of a checkpoint: itself, and the shards of an index; a damaged one alone."""
    if path.name.endswith(_INDEX):
        with suppress(UnreadableInput):
            return [path, *map(path.with_name, dict.fromkeys(_named_in(path).values()))]
    return [path]


def distributed(path: str) -> UnreadableInput | None:
    """The error for torch's distributed checkpoints, with the way to convert them; None for other
    files."""
    folder, name = os.path.split(path)
    if name != DISTRIBUTED:
        return None
    import shlex

    words = shlex.join([folder or ".", f"{folder}.pt" if folder else "weights.pt"])
    command = f"python -m torch.distributed.checkpoint.format_utils dcp_to_torch {words}"
    return UnreadableInput(
        "is a distributed checkpoint in parts",
        where=folder or ".",
        hint=f"convert it, which runs what it names: {command}",
    )


def not_a_checkpoint(path: str, head: bytes) -> UnreadableInput:
    """The error for a file with a checkpoint's suffix but other contents."""
    if head:
        what = f"is no checkpoint (it starts with “{sanitize(head[:8].decode('latin-1'))}”)"
    else:
        what = "is empty"
    hint = "expected safetensors or a state dict saved by torch"
    return foreign(path, head) or UnreadableInput(what, where=path, hint=hint)


def foreign(path: str, head: bytes) -> UnreadableInput | None:
    """The error for a file of a known kind that is not read here."""
    for start, what, hint in _FOREIGN:
        if re.match(start, head, re.S):
            return UnreadableInput(what, where=path, hint=hint)
    return None


def safetensors_metadata(path: str, file: BinaryIO, size: int) -> dict[str, str]:
    """The ``__metadata__`` of a safetensors file.

    Raises:
        UnreadableInput: a header that cannot be read, has a key twice or metadata that are no
            texts, or ends beyond the file.
    """
    file.seek(0)
    with reading(path, "truncated or malformed safetensors header", COPY_AGAIN):
        end = 8 + int.from_bytes(file.read(8), "little")
        header = loads(file.read(end - 8))
        offsets = [one["data_offsets"] for name, one in header.items() if name != "__metadata__"]
        end += max((last for _, last in offsets), default=0)
        metadata = msgspec.convert(header.get("__metadata__") or {}, dict[str, str])
    if end > size:
        raise UnreadableInput(
            f"truncated safetensors: its tensors end at {end} of {size} bytes",
            where=path,
            hint=COPY_AGAIN,
        )
    return metadata


def promises_checkpoint(path: str) -> bool:
    """Whether a file has a checkpoint's suffix."""
    return path.lower().endswith(SUFFIXES)


STAMP = "files"
"""Key of provenance for the `stamp` of a measurement's files."""

HASHED = 1 << 26
"""Bytes of checkpoints read at most to detect changes by the explorer."""


_ENDS = 8
"""Parts of a recorded path that are looked for, at most."""


def with_places(rows: Sequence[AuditRow]) -> list[AuditRow]:
    """The rows of one file, with the places of their checkpoints: beside the file, as in a moved or
    copied folder, else as recorded. A place beside it that several recorded paths lead to is that
    of none."""
    folder = real_path(rows[0].source).parent
    names = {row.checkpoint for row in rows} - {None, rows[0].source}
    found = {name: _beside(folder, str(name)) for name in names}
    times = Counter(found.values())
    placed = []
    for row in rows:
        place = found.get(row.checkpoint, "")
        if times[place] == 1:
            row = replace(row, checkpoint=place)
        placed.append(row)
    return placed


def _beside(folder: Path, name: str) -> str:
    """The longest end of a path that is in a folder, or the folder of its name; else the path."""
    path = os.path.normpath(f"/{name[:LONGEST_NAME]}")
    parts = Path(path).parts[1:][-_ENDS:]
    home = str(folder)
    # as texts: thousands of times
    places = ["/".join([home, *parts[start:]]) for start in range(len(parts))]
    if folder.name in parts[-1:]:
        places.append(home)
    for place in places:
        if exists(place):
            return str(real_path(place))
    return name


def run_of(checkpoint: Path) -> Path | None:
    """The run folder of a checkpoint: itself, or the folder of its weights file; None for a bare
    file."""
    if is_folder(checkpoint):
        return checkpoint
    if checkpoint.name in {WEIGHTS, *HUB_FILES} and is_run(checkpoint.parent):
        return checkpoint.parent
    return None


def _inputs(checkpoint: Path) -> dict[str, list[Path]]:
    """A measurement's files: ``weights``, for a run also ``manifest`` and ``credit``."""
    run = run_of(checkpoint)
    if run == checkpoint:
        checkpoint /= WEIGHTS
    found = {"weights": files_of(checkpoint)}
    for name, file in (("manifest", MANIFEST), ("credit", CREDIT)):
        if run and exists(run / file):
            found[name] = [run / file]
    return found


def input_hashes(checkpoint: Path) -> dict[str, str]:
    """``sha256:…`` of the bytes of a measurement's files.

    Raises:
        UnreadableInput: no weights, or a file that cannot be read.
    """
    import hashlib  # not at the explorer's start

    hashes = {}
    for name, files in _inputs(checkpoint).items():
        digest = hashlib.sha256()
        # shards that are links to one file are that file
        for each in dict.fromkeys(map(real_path, files)):
            with reading(each), open_file(each) as file:
                left = size_of(file)  # one that grows would never end
                while block := file.read(min(left, 1 << 20)):
                    left -= len(block)
                    digest.update(block)
        hashes[name] = f"sha256:{digest.hexdigest()}"
    return hashes


@lru_cache(1 << 10)
def hashes_now(checkpoint: Path, _of: str) -> dict[str, str]:
    """`input_hashes` of files of this stamp; empty where a file is gone or cannot be read, which
    matches no record."""
    with suppress(FaError):
        return input_hashes(checkpoint)
    return {}


def stamp(checkpoint: Path, width: int = 2) -> list[list[int]]:
    """Size and modification time (ns) of a measurement's files, the weights first; with a `width`
    of 3 the time of their last change (ctime), too, which no program can set. Zeros for a shard
    that is gone; empty where the weights are, or their index."""
    found = []
    for file in chain.from_iterable(_inputs(checkpoint).values()):
        found.append([0] * width)
        with suppress(OSError):
            one = file.stat()
            found[-1] = [one.st_size, one.st_mtime_ns, one.st_ctime_ns][:width]
    return found if any(found[0]) else []


def _meant(checkpoint: Path) -> tuple[object, ...]:
    """What all spellings of a checkpoint, and all links to it, have in common."""
    # the shards of an index are beside the link to it
    folder = checkpoint.name.endswith(_INDEX) and real_path(checkpoint.parent)
    return real_path(run_of(checkpoint) or checkpoint), folder


def marked_changed(rows: Iterable[AuditRow], most: float = math.inf) -> Iterator[AuditRow]:
    """The rows, with what of their files changed since they were measured (`ReportFacts.changed`).

    Another size is a change, and so is a manifest or a saved credit that is gone, or new, beside
    the weights; weights that are gone are none. A copy is none: files with another time alone, or
    of which the record has no size, are hashed.

    Args:
        rows: as read.
        most: bytes that are hashed at most, of all runs; others are `AuditRow.touched`.
    """
    # records may name one checkpoint many times, in many spellings
    places: dict[tuple[object, ...], Path] = {}
    stamps, inputs = cache(stamp), cache(_inputs)
    for row in rows:
        facts = row.report.provenance
        then, before = facts.get(STAMP, []), facts.get("hashes", {})
        now = []
        if before and row.checkpoint:
            path = Path(row.checkpoint)
            path = places.setdefault(_meant(path), path)
            now = stamps(path)
        changed, how = list[str](), "changed since"
        # not of a shard that is gone; older records have the stamp of the weights alone, or none
        pairs = zip_longest(now, then, fillvalue=list[int]())
        differ = [(own, old) for own, old in pairs if any(own) and own != old]
        if now and (kinds := before.keys() ^ inputs(path)):
            changed = sorted(kinds)
        elif any(old and own[0] != old[0] for own, old in differ):
            changed = ["files"]
        elif differ:
            size = sum(size for size, _ in now)
            if size > most:
                row = replace(row, touched="its audit has another time of its files, or none")
            else:
                most -= size
                own = hashes_now(path, str(stamp(path, 3)))
                changed = [name for name in before if own.get(name) != before[name]]
                how = "changed since" if own else "cannot be read"
        if changed:
            row = row.marked(f"its {' and '.join(changed)} {how}")
        yield row
