"""Atomic writes: to a temporary file in the same folder, then renamed into place."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

from fa_core.errors import FaError, UsageError
from fa_core.files.opening import READ, flags_of, kind_of
from fa_core.sanitize import in_json


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path`, atomically.

    Args:
        path: the file.
        content: its bytes.

    Raises:
        UsageError: the path is a link or no regular file (see `place_of`).
        FaError: the folder is not writable, or the disk is full; the old file is kept.
    """
    try:
        path = place_of(path)
        with folder_of(path, made=True) as folder:
            temporary = f".{path.name}.{os.urandom(8).hex()}.tmp"
            try:
                _fill(temporary, [content], folder)
                os.replace(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
    except OSError as error:
        raise FaError(
            f"cannot write ({error.strerror})",
            where=path,
            hint="what was there before is untouched",
        ) from error


_FOLDER = flags_of("O_DIRECTORY", "O_NOFOLLOW", "O_PATH", "O_CLOEXEC")
_READ = READ | flags_of("O_NOFOLLOW")


@contextlib.contextmanager
def folder_of(path: Path, *, made: bool = False) -> Iterator[int]:
    """The open folder of a real path.

    It is opened part by part without links, since another user may have exchanged a folder on the
    way for one after `place_of` looked. `made`: folders that are not there are made.

    Raises:
        OSError: it does not exist, or a part of its path is a link now.
    """
    folder = os.open(path.anchor, _FOLDER)
    try:
        for part in path.parts[1:-1]:
            if made:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
                    if not os.access(part, os.W_OK | os.X_OK, dir_fd=folder):
                        os.rmdir(part, dir_fd=folder)
                        raise PermissionError(errno.EACCES, "the umask forbids it")
            outer, folder = folder, os.open(part, _FOLDER, dir_fd=folder)
            os.close(outer)
        yield folder
    finally:
        os.close(folder)


_PART = 1 << 20
_HOLE = bytes(_PART)


def _fill(name: str, parts: Iterable[bytes], folder: int, mode: int = 0o666) -> None:
    """Write a new file to disk, a part of zeros as a hole; without room for it, remove the file."""
    with open(name, "xb", opener=partial(os.open, mode=mode, dir_fd=folder)) as file:
        try:
            for part in parts:
                if part == _HOLE:
                    file.seek(_PART, os.SEEK_CUR)
                else:
                    file.write(part)
            file.truncate()
            os.fsync(file.fileno())
        except OSError:
            os.unlink(name, dir_fd=folder)
            raise


def keep_old(path: Path) -> Path | None:
    """Copy a file to a backup, ``audit.json.~1~`` or the next number.

    Numbered like ``cp --backup=numbered``; scans of folders ignore backups.

    Returns:
        The copy, with the mode of the file; None if there is no file.

    Raises:
        FaError: the folder cannot be written to, or the disk is full.
    """
    path = place_of(path)
    try:
        with folder_of(path) as folder:
            descriptor = os.open(path.name, _READ, dir_fd=folder)
            with open(descriptor, "rb") as file:  # noqa: PTH123
                parts, mode = iter(partial(file.read, _PART), b""), os.fstat(descriptor).st_mode
                for number in count(1):
                    kept = path.with_name(f"{path.name}.~{number}~")
                    with contextlib.suppress(FileExistsError):
                        _fill(kept.name, parts, folder, mode)
                        break
                return kept
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FaError(f"its old version cannot be kept ({error.strerror})", where=path) from error


def place_of(path: Path) -> Path:
    """The path of a file to write, without links among its folders.

    Devices and FIFOs are refused, which a rename would replace by a regular file. So are links that
    another user may have placed to make this user overwrite a file, and a link to the file, whoever
    owns it: an unpacked folder may hold links to any file.

    Raises:
        UsageError: the path is a folder, a device, a FIFO, a socket or a link, or contains a link
            of another user.
    """
    with contextlib.suppress(OSError):  # other errors appear when the file is written
        # not of the real path: a link in /proc names no file there
        if kind := kind_of(path.stat()):
            raise UsageError(
                f"is {kind}, no file that can be replaced", where=path, hint="name a regular file"
            )
    if str(path).startswith(_OPEN_FILES):
        path = followed(path)
    place = followed(path.parent) / path.name
    refuse_link(place)
    return place


def prepared(path: Path) -> Path:
    """The path of a file to write later (`place_of`), in a folder that is made and takes files, by
    a umask that leaves them to their owner.

    Raises:
        UsageError: as `place_of`, or nothing can be written there.
    """
    try:
        place = place_of(path)
        with folder_of(place, made=True), contextlib.suppress(FileNotFoundError):
            place.lstat()
        # a random name, so that no link can wait there
        with tempfile.TemporaryFile(dir=place.parent) as file:
            if ~os.fstat(file.fileno()).st_mode & 0o600:
                raise PermissionError(errno.EACCES, "the umask forbids it")
    except OSError as error:
        raise UsageError(f"cannot be written ({error.strerror})", where=path) from error
    return place


_OPEN_FILES = ("/dev/std", "/dev/fd/")
"""Beginnings of the system's own links to open files, as `/dev/stdout`."""


def refuse_link(path: Path) -> None:
    """Refuse to write to a link, or into the folder that it leads to.

    Raises:
        UsageError: it is a link.
    """
    if os.path.islink(path):  # noqa: PTH114 (no errors)
        raise _refusal(path, path.readlink(), "and is not followed")


def _refusal(link: Path, target: Path, why: str) -> UsageError:
    hint = "type where it leads, or remove it"
    return UsageError(f"is a link to {target}, {why}", where=link, hint=hint)


def remove(path: Path) -> None:
    """Remove a file, if there is one.

    Raises:
        UsageError: as `place_of`.
        OSError: the folder cannot be written to.
    """
    path = place_of(path)
    with contextlib.suppress(FileNotFoundError), folder_of(path) as folder:
        os.unlink(path.name, dir_fd=folder)


_MOST_LINKS = 40
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def followed(path: Path) -> Path:
    """A path without links, each of which is looked at before it is followed.

    Raises:
        UsageError: it contains a link of another user.
    """
    place = Path()
    found = 0
    parts = [*reversed(path.absolute().parts)]
    while parts:
        part = parts.pop()
        if part == "..":
            place = place.parent
        else:
            place = place / part
        if found == _MOST_LINKS or not os.path.islink(place):  # noqa: PTH114 (no errors)
            continue
        target = place.readlink()
        # asked once: another user may make it a folder for a while
        if _is_foreign(place):
            raise _refusal(place, target, "which another user may have put there")
        found += 1
        parts += reversed(target.parts)
        place = place.parent
    return place


def _is_foreign(link: Path) -> bool:
    """Whether another user owns a link; root counts in folders where others can create links."""
    owner = link.lstat().st_uid
    by_others = owner != 0 or link.parent.stat().st_mode & _OTHERS_WRITE
    return owner != os.geteuid() and bool(by_others)


def write_json(path: Path, value: object) -> None:
    """Write indented JSON as `write_bytes` does, NaN and ±inf as in Python's ``json``."""
    write_bytes(path, json_bytes(value, indent=2))


def json_bytes(value: object, indent: int | None = None) -> bytes:
    """JSON with a line end; characters that are not printable are escaped."""
    return (in_json(json.dumps(value, indent=indent, ensure_ascii=False)) + "\n").encode()
