"""What makes a measurement repeatable: hashes of what went in, settings, versions. No torch."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import msgspec

import fa_core
from fa_core.engine.jobs import MeasureOptions
from fa_core.errors import UnreadableInput
from fa_core.runs import CREDIT, MANIFEST, WEIGHTS, is_run

PACKAGES = ("torch", "numpy")


def file_hash(path: Path) -> str:
    """``sha256:…`` of a file's bytes.

    Raises:
        UnreadableInput: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise UnreadableInput(f"cannot be read ({error.strerror})", where=path) from error
    return f"sha256:{digest.hexdigest()}"


def run_of(checkpoint: Path) -> Path | None:
    """The run folder a checkpoint stands for: itself, or the one whose weights it is; None for a bare file."""
    if checkpoint.is_dir():
        return checkpoint
    return checkpoint.parent if checkpoint.name == WEIGHTS and is_run(checkpoint.parent) else None


def input_hashes(checkpoint: Path) -> dict[str, str]:
    """Hashes of the files a measurement reads: ``weights``, and of a run also ``manifest`` and ``credit``.

    Raises:
        UnreadableInput: no weights, or a file that cannot be read.
    """
    run = run_of(checkpoint)
    if run is None:
        return {"weights": file_hash(checkpoint)}
    hashes = {"weights": file_hash(run / WEIGHTS)}
    for name, file in (("manifest", run / MANIFEST), ("credit", run / CREDIT)):
        if file.exists():
            hashes[name] = file_hash(file)
    return hashes


def versions() -> dict[str, str]:
    """The versions of Python, of this program, and of the packages that decide numbers."""
    installed = {package: _version(package) for package in PACKAGES}
    known = {name: found for name, found in installed.items() if found}
    return {"python": platform.python_version(), "fa-tui": fa_core.__version__, **known}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def settings(options: MeasureOptions) -> dict[str, Any]:
    """The options as provenance keeps them."""
    kept: dict[str, Any] = msgspec.to_builtins(options)
    return kept
