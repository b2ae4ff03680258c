"""Files that are either whole or not there: written beside their place, then renamed into it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from fa_core.errors import FaError


def write_bytes(path: Path, content: bytes) -> None:
    """Put `content` at `path`; a reader sees the old file or the new one, never a part.

    Raises:
        FaError: the folder cannot be written to, or the disk is full; the old file is untouched.
    """
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(_usual_mode())
        Path(temporary).replace(path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise FaError(
            f"cannot write ({error.strerror})", where=path, hint="what was there before is untouched"
        ) from error
    except BaseException:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """`write_bytes` of indented JSON; NaN and ±inf are written as Python's ``json`` writes them."""
    write_bytes(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def _usual_mode() -> int:
    """What a file made by ``open`` would get: mkstemp keeps its files to the owner."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
