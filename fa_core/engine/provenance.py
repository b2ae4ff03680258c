"""What makes a measurement repeatable: hashes of what went in, settings, versions. No torch."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

import fa_core
from fa_core.engine.jobs import MeasureOptions, run_of
from fa_core.errors import UnreadableInput
from fa_core.runs import CREDIT, MANIFEST, WEIGHTS

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
    found = {"python": platform.python_version(), "fa-tui": fa_core.__version__}
    for package in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def settings(options: MeasureOptions) -> dict[str, Any]:
    """The options as provenance keeps them."""
    kept: dict[str, Any] = msgspec.to_builtins(options)
    return kept
