"""Files of torch: what `torch.load` takes by default; what it refuses is read as data."""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import torch

from fa_core.files.inert import REGISTERED, TAKEN, opened
from fa_core.files.limits import limited
from fa_core.files.opening import name_of, size_of


def content_of(
    path: Path, file: BinaryIO, entries: Sequence[zipfile.ZipInfo] | None
) -> tuple[object, str]:
    """The content of a file of torch; and what it holds besides plain tensors, numbers and texts,
    for which it is to be refused.

    It is read as data first, within limits (`fa_core.files.inert`). If `torch.load` takes by
    default (``weights_only=True``) all that it names, and it holds nothing else, torch itself reads
    it: what is measured is what a user loads. What torch refuses stays as it was read: a program
    may have it take more (``add_safe_globals``), so what torch itself would change in a tensor or
    a mapping is refused there, too. The tensors of an archive stay in the file.

    Args:
        path: the file.
        file: the same, open.
        entries: of a zip archive (`zip_entries`); None = a bare pickle or torch's old format.

    Raises:
        UnreadableInput: torch takes far more time or memory than the file accounts for.
        ValueError: damaged, or more than it holds; and whatever torch raises.
    """
    archive = opened(file)
    content = archive.pickled() if entries is None else archive.zipped(entries)
    if not archive.is_of_torch:
        return content, ""
    if made := archive.others or min(archive.names & REGISTERED, default=""):
        return content, made
    if not archive.names <= TAKEN:
        return content, ""
    if archive.keys:
        return content, archive.keys
    file.seek(0)
    mapped = entries is not None
    source = name_of(file) if mapped else file
    try:
        with limited(path, size_of(file), "to load", ""), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unusual protocol
            return torch.load(source, "cpu", weights_only=True, mmap=mapped), ""
    except pickle.UnpicklingError:
        return content, ""  # an operation that it does not take
