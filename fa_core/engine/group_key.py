"""Which jobs are worth measuring together, told from their files without torch and without reading tensors."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import msgspec

from fa_core.engine.jobs import Job
from fa_core.engine.provenance import run_of
from fa_core.errors import FaError
from fa_core.runs import WEIGHTS, is_run, read_manifest

_HEADER_LIMIT = 100 << 20


def likeness(job: Job) -> str | None:
    """Equal for jobs whose networks look alike and are measured alike; None = nothing tells: measured alone.

    A built-in network is what its manifest says; any other is the names, shapes and dtypes in its weights file.
    It is a guess that costs one small read: the worker compares the networks themselves.
    """
    path = Path(job.checkpoint)
    try:
        run = run_of(path)
        manifest = read_manifest(run) if run is not None and is_run(run) else None
        if manifest is not None and job.options.model is None:
            network: Any = [manifest.arch, manifest.arch_args]
        else:
            network = _tensors(path if run is None else run / WEIGHTS)
    except (FaError, OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None
    if network is None:
        return None
    data = manifest and [manifest.data, manifest.eval_batches, manifest.eval_batch_size, manifest.eval_seed]
    parts = [network, data, msgspec.to_builtins(job.options)]
    return hashlib.sha1(json.dumps(parts, sort_keys=True, default=str).encode(), usedforsecurity=False).hexdigest()


def _tensors(path: Path) -> Any:
    """What a weights file says of its tensors: a safetensors header, or the checksum of a zip archive's pickle."""
    if not path.is_file():  # a pipe would never end
        return None
    with path.open("rb") as file:
        head = file.read(9)
        length = int.from_bytes(head[:8], "little")
        if head[8:] == b"{" and length <= _HEADER_LIMIT:
            header = json.loads(head[8:] + file.read(length - 1))
            return {name: [entry["dtype"], entry["shape"]] for name, entry in header.items() if name != "__metadata__"}
    if not head.startswith(b"PK\x03\x04"):
        return None
    with zipfile.ZipFile(path) as archive:
        return [
            [entry.CRC, entry.file_size] for entry in archive.infolist() if entry.filename.endswith("/data.pkl")
        ] or None
