"""Safe reading of files named by other files or folders: regular files of known size only.

Such a path may be a FIFO or a device, on which ``open`` blocks forever or which never ends. Links
are followed, since caches of model hubs consist of them; the target must be a regular file. Reads
are limited to the file's size when it was opened.
"""

from __future__ import annotations

import os
import resource
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

from fa_core.errors import UnreadableInput

Name: TypeAlias = "str | os.PathLike[str]"

SMALL = 1 << 26
"""Bytes up to which free memory is not checked."""

TIMES, SLACK = 64, 7 << 26
"""Decoded contents may take this many times the file's bytes, plus some slack."""

COPIES = 4
"""Memory of a decoded file relative to its size."""

LONGEST_NAME = 4096
"""Maximum characters of a path."""


def flags_of(*names: str) -> int:
    """The flags of ``os.open`` that this system has, combined."""
    flags = 0
    for name in names:
        flags |= vars(os).get(name, 0)
    return flags


READ = os.O_RDONLY | flags_of("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY")

_KINDS = {
    stat.S_IFREG: "",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


_OF_THE_SYSTEM = {os.lstat(name).st_dev for name in ("/proc", "/sys") if os.path.ismount(name)}
"""Devices whose files are made as they are read; their sizes say nothing."""


class MissingFile(UnreadableInput):
    """The file does not exist."""


def open_file(path: Name) -> BinaryIO:
    """Open a regular file for reading, without blocking on other kinds of file.

    The kind is checked before opening, which may affect a device, and afterwards, since another
    program may have replaced the file.

    Raises:
        MissingFile: it does not exist.
        UnreadableInput: not a regular file, or it cannot be opened.
    """
    try:
        _check_regular(path, os.stat(path))  # noqa: PTH116 (thousands of times)
        descriptor = os.open(path, READ)
    except (OSError, ValueError) as error:
        raise cannot_open(path, error) from error
    try:
        _check_regular(path, os.fstat(descriptor))
    except UnreadableInput:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_file(path: Name, most: int | None = None) -> bytes:
    """The bytes of a regular file; see `open_file`.

    Args:
        path: the file.
        most: maximum bytes; None = as much as fits into memory.

    Raises:
        UnreadableInput: as `open_file`, or the file is too large.
    """
    with open_file(path) as file:
        return all_of(file, path, most)


def all_of(file: BinaryIO, path: Name, most: int | None = None) -> bytes:
    """All bytes of an open file from its start; see `read_file`."""
    size = size_of(file)
    if most is not None and size > most:
        raise UnreadableInput(
            f"has {size >> 10:,} KiB; such a file has at most {most >> 10:,}", where=os.fspath(path)
        )
    check_room(COPIES * size, None, "free memory, or split the file", path)
    try:
        file.seek(0)
        return file.read(size)
    except OSError as error:
        raise cannot_open(path, error) from error


def name_of(file: BinaryIO) -> str:
    """A name of an open file, for libraries that take only names."""
    return f"/dev/fd/{file.fileno()}"


def size_of(file: BinaryIO) -> int:
    """Bytes of an open file."""
    return os.fstat(file.fileno()).st_size


def check_room(needed: int, size: int | None, hint: str = "", where: Name = "") -> None:
    """Refuse contents that exceed memory, or are far larger than the files that ask for them.

    Args:
        needed: bytes of the contents.
        size: of the files; None = the user asked for them.
        hint: what to do about it.
        where: which file asks.

    Raises:
        UnreadableInput: more than `TIMES` the file plus `SLACK`, or than free memory.
    """
    if size is not None and needed > TIMES * size + SLACK:
        why = f"for {size >> 10:,} KiB in files"
    elif needed > SMALL and needed > free_ram():
        why = f"and {free_ram() >> 20:,} are free"
    else:
        return
    raise UnreadableInput(
        f"needs {needed >> 20:,} MiB of memory, {why}", where=os.fspath(where), hint=hint
    )


def free_ram() -> int:
    """Bytes of RAM available to this process, limited by system and ``ulimit -v``."""
    import psutil  # imported late, for a fast start of the explorer

    free: int = psutil.virtual_memory().available
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return free
    taken: int = psutil.Process().memory_info().vms
    return min(free, max(0, limit - taken))


def is_file(path: Name) -> bool:
    """Whether a regular file exists; False for invalid names."""
    return os.path.isfile(path)  # noqa: PTH113 (Path's own raises for such names)


def is_folder(path: Name) -> bool:
    """Whether a folder exists."""
    return os.path.isdir(path)  # noqa: PTH112


def exists(path: Name) -> bool:
    """Whether a path exists."""
    return os.path.exists(path)  # noqa: PTH110


def typed_path(text: str) -> Path:
    """The path of a typed text, with ``~`` expanded.

    As in a shell, ``~`` of an unknown user is kept, for which `Path.expanduser` raises.
    """
    return Path(os.path.expanduser(text))  # noqa: PTH111


def real_path(path: Name) -> Path:
    """A path without links. What is not there, or is a loop, is made absolute and else kept; a
    relative path is kept while there is no current folder."""
    with suppress(OSError, ValueError):
        path = os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118
        look = flags_of("O_PATH")
        if not look:
            return Path(os.path.realpath(path))
        # Python alone takes a call of the system for each part of each link
        descriptor = os.open(path, look)
        try:
            return Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
        finally:
            os.close(descriptor)
    return Path(path)


def cannot_open(path: Name, error: Exception) -> UnreadableInput:
    """The error for a path that cannot be opened."""
    where = os.fspath(path)
    if isinstance(error, FileNotFoundError):
        nearest = next(filter(is_folder, Path(where).parents), "/")
        hint = f"the nearest folder that exists is {real_path(nearest)}"
        return MissingFile("no such file or folder", where=where, hint=hint)
    if isinstance(error, PermissionError):
        hint = "ask its owner or change its mode"
        return UnreadableInput("no permission to read it", where=where, hint=hint)
    reason = (isinstance(error, OSError) and error.strerror) or error
    return UnreadableInput(f"cannot be read ({reason})", where=where)


def kind_of(status: os.stat_result) -> str:
    """What a path names that is no regular file; ``""`` for a file."""
    if status.st_dev in _OF_THE_SYSTEM:
        return "a view of the system"
    return _KINDS.get(stat.S_IFMT(status.st_mode), "something else")


def _check_regular(path: Name, status: os.stat_result) -> None:
    if kind := kind_of(status):
        hint = "name a file in it" if stat.S_ISDIR(status.st_mode) else "write it to a file first"
        raise UnreadableInput(f"is {kind}, not a file", where=os.fspath(path), hint=hint)
