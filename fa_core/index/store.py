"""The files of the index: each written whole, checked when read, and the least used ones removed."""

from __future__ import annotations

import contextlib
import os
import tempfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import fa_core

try:
    from _blake2 import blake2b  # from hashlib it comes with OpenSSL, 4 MB
except ImportError:
    from hashlib import blake2b

VARIABLE = "FA_TUI_INDEX"
LIMIT = 512 << 20
"""Bytes that all files may have together."""

_SUFFIX = ".index"
_LINE = b"fa-index 1 %s %08x %016x\n"
_LINE_LENGTH = len(_LINE % (b"0" * 32, 0, 0))
_ABANDONED_SECONDS = 3600.0
_READERS = ("formats/*.py", "index/*.py", "report.py", "reliability.py", "rows.py", "runs.py", "report_columns.py")
"""The code that decides what a file means."""


class Contents(NamedTuple):
    """What there is of the index."""

    folder: Path
    files: int
    bytes: int


def index_folder() -> Path | None:
    """Where the index is; None if it is switched off."""
    said = os.environ.get(VARIABLE, "")
    if said.lower() in ("off", "0", "no", "false"):
        return None
    if said:
        return Path(said).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("fa-tui") / "index"


def name_of(*parts: str) -> str:
    """A file name that stands for some text."""
    text = "\0".join(parts).encode(errors="surrogatepass")
    return blake2b(text, digest_size=16).hexdigest()


def read(name: str) -> memoryview | None:
    """A file's content; None if it is not there, not whole, or was written by other code."""
    folder = index_folder()
    if folder is None:
        return None
    path = folder / (name + _SUFFIX)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    content = memoryview(data)[_LINE_LENGTH:]
    if data[:_LINE_LENGTH] != _first_line(content):
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # the least used goes first
    return content


def write(name: str, content: bytes) -> bool:
    """Put a file's content in its place; whether that was possible. Never raises for want of room or leave."""
    folder = index_folder()
    if folder is None or len(content) > LIMIT // 2:
        return False
    temporary = ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(_first_line(memoryview(content)))
            file.write(content)
        Path(temporary).replace(folder / (name + _SUFFIX))
    except OSError:
        if temporary:
            with contextlib.suppress(OSError):
                Path(temporary).unlink(missing_ok=True)
        return False
    _prune(folder)
    return True


def contents() -> Contents | None:
    """What there is; None if the index is switched off."""
    folder = index_folder()
    if folder is None:
        return None
    sizes = [status.st_size for _, status in _files(folder)]
    return Contents(folder, len(sizes), sum(sizes))


def _prune(folder: Path) -> None:
    """Remove the least recently used files beyond `LIMIT`, and what writers that died have left."""
    files = sorted(_files(folder), key=lambda found: found[1].st_mtime, reverse=True)
    total = 0
    for path, status in files:
        total += status.st_size
        left = path.suffix == ".tmp" and files[0][1].st_mtime - status.st_mtime > _ABANDONED_SECONDS
        if total > LIMIT or left:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.suffix in (_SUFFIX, ".tmp"):
                with contextlib.suppress(OSError):
                    yield path, path.stat()


def _first_line(content: memoryview) -> bytes:
    return _LINE % (_code().encode(), zlib.crc32(content), len(content))


@lru_cache(maxsize=1)
def _code() -> str:
    """Which code this is: what one version made of a file need not be what another makes of it."""
    home = Path(fa_core.__file__).parent
    files = [
        path for name in _READERS for path in ([home / name] if name.endswith(".py") else (home / name).glob("*.py"))
    ]
    stamps = [fa_core.__version__]
    with contextlib.suppress(OSError):
        for path in sorted(files):
            status = path.stat()
            stamps.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
    return name_of(*stamps)
