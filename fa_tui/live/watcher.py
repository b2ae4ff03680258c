"""Which folders lie on a disk of another machine, where changes made elsewhere raise no event here.

Threads that watch folders and single files: by the system's events, or by looking where there are none.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fa_tui.live.changes import Follower, Reading

_NETWORK = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "beegfs", "gpfs", "glusterfs", "9p", "virtiofs",
     "orangefs", "panfs", "wekafs", "ncpfs", "davfs")
)  # fmt: skip
_MOUNTS = Path("/proc/self/mounts")


def is_on_network(path: str) -> bool:
    """Whether a path lies on a network disk, as far as the system tells (Linux); elsewhere False."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return False
    return is_network_kind(kind_of(path, lines))


def kind_of(path: str, mounts: Iterable[str]) -> str:
    """The file system a path lies on.

    Args:
        path: absolute.
        mounts: lines of ``/proc/mounts``; of several mounts on one place the last counts.

    >>> kind_of("/data/runs", ["/dev/sda1 / ext4 rw 0 0", "nas:/x /data nfs4 rw 0 0", "/dev/sdb /dat ext4 rw 0 0"])
    'nfs4'
    """
    best = ("", "")
    for place, kind in _mounts(mounts):
        inside = path == place or path.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best[0]):
            best = (place, kind)
    return best[1]


def is_network_kind(kind: str) -> bool:
    """Whether a file system's name is that of a network disk; user-space ones (sshfs, rclone, s3fs) are.

    >>> is_network_kind("fuse.sshfs"), is_network_kind("ext4")
    (True, False)
    """
    return kind in _NETWORK or kind.startswith("fuse.")


def _mounts(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        fields = line.split(" ")
        if len(fields) >= 3:
            # blanks in a path are written as \\040
            yield os.fsdecode(os.fsencode(fields[1]).decode("unicode_escape").encode("latin-1")), fields[2]


_TICK_MILLISECONDS = 400
"""How often to look whether a waiting file is whole and the folders are still there."""

_PAUSE_SECONDS = 0.002

_BEFORE_SCAN_SECONDS = 2.0
"""How much earlier than the first scan a file may be stamped and still have been written after it."""


class Root(NamedTuple):
    """A folder that is watched.

    Attributes:
        real: its resolved path; events name what is in it by this.
        named: as it was opened.
        files: None: all of it; else only these names, each with the path it was opened by.
    """

    real: str
    named: str
    files: Mapping[str, str] | None = None

    def name_of(self, path: str) -> str | None:
        """What a path in this folder is called, or None if it is none of ours."""
        if not path.startswith(self.real + os.sep):
            return None
        inside = path[len(self.real) + 1 :]
        if self.files is not None:
            return self.files.get(inside)
        if any(part.startswith(".") for part in Path(inside).parts):
            return None
        # not Path: it would turn "./x" into "x", which scan calls "./x"
        return f"{self.named.rstrip(os.sep)}{os.sep}{inside}"

    def paths(self) -> Iterator[Path]:
        """Every file in it, by resolved path."""
        if self.files is not None:
            yield from (Path(self.real, name) for name in self.files)
            return
        for folder, folders, names in os.walk(self.real):
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from (Path(folder, name) for name in names)

    def identity(self) -> tuple[int, int] | None:
        """Which folder is there; None if none is. Made anew under its name, it is another one."""
        try:
            status = Path(self.real).stat()
        except OSError:
            return None
        return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


def roots_of(paths: Iterable[Path]) -> list[list[Root]]:
    """What to watch: the folders (with all that is in them), and the folders that single files are in.

    A file is not watched itself: written anew and renamed into its place, it is another file.
    """
    folders: list[Root] = []
    files: dict[str, dict[str, str]] = {}
    for path in paths:
        real = path.resolve()
        if real.is_dir():
            folders.append(Root(str(real), str(path)))
        else:
            files.setdefault(str(real.parent), {})[real.name] = str(path)
    singles = [Root(folder, folder, names) for folder, names in files.items()]
    return [group for group in (folders, singles) if group]


class Watcher(threading.Thread):
    """Follows folders until it is stopped.

    Args:
        roots: one group of `roots_of`.
        known: sources read already.
        on_change: called in this thread with what is new.
        on_note: called in this thread with one line that a person should know.
        polling: look now and then, also where the system would tell.
        poll_seconds: how often to look.
        since: when the first scan began (`time.time`): what is younger is read again.
        ignore: files that are shown without being read.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        known: Iterable[str],
        on_change: Callable[[list[Reading]], None],
        *,
        on_note: Callable[[str], None] = lambda text: None,
        polling: bool = False,
        poll_seconds: float = 2.0,
        since: float | None = None,
        ignore: Iterable[Path] = (),
    ) -> None:
        super().__init__(name="watcher", daemon=True)
        self._ended = threading.Event()
        self._roots = roots
        self._follower = Follower(known, pause=lambda: self._ended.wait(_PAUSE_SECONDS))
        self._on_change, self._on_note = on_change, on_note
        self._polls = polling or any(is_on_network(root.real) for root in roots)
        self._poll_seconds, self._since = poll_seconds, since
        self._ignored = {str(path.resolve()) for path in ignore}

    def stop(self) -> None:
        """End soon, and call nobody any more."""
        self._ended.set()

    def run(self) -> None:
        missed = self._note_young
        while not self._ended.is_set():
            if all(root.identity() for root in self._roots):
                self._watch(missed)
            # some folder is gone, or cannot be watched; it may come back with other files in it
            missed = self._note_all
            self._follower.note_known()
            self._tell()
            self._ended.wait(_TICK_MILLISECONDS / 1000)

    def _watch(self, missed: Callable[[], None]) -> None:
        """Follow until stopped, or until a folder is gone.

        Args:
            missed: notes what may have changed before there was anybody to watch.
        """
        from watchfiles import Change, watch

        watched = [root.identity() for root in self._roots]
        try:
            for number, changes in enumerate(
                watch(
                    *(root.real for root in self._roots),
                    watch_filter=None,
                    step=100,
                    stop_event=self._ended,
                    rust_timeout=_TICK_MILLISECONDS,
                    yield_on_timeout=True,
                    force_polling=self._polls or None,
                    poll_delay_ms=round(self._poll_seconds * 1000),
                    recursive=self._roots[0].files is None,
                    ignore_permission_denied=True,
                )
            ):
                if number == 0:
                    missed()
                for change, path in sorted(changes, key=lambda each: each[1]):
                    # a folder's own stamp says nothing that its files do not say
                    if change is not Change.modified or not Path(path).is_dir():
                        self._note(path)
                self._tell()
                lost = {path for change, path in changes if change is Change.deleted}
                if not lost.isdisjoint(root.real for root in self._roots):
                    return
                if watched != [root.identity() for root in self._roots]:
                    return
        except (OSError, RuntimeError) as error:
            if not self._polls:
                self._polls = True
                self._on_note(f"looking for changes every {self._poll_seconds:g} s: the system tells none ({error})")

    def _note(self, path: str) -> None:
        if path in self._ignored:
            return
        for root in self._roots:
            name = root.name_of(path)
            if name is not None:
                self._follower.note(name)

    def _tell(self) -> None:
        readings = self._follower.take()
        if readings and not self._ended.is_set():
            self._on_change(readings)

    def _note_young(self) -> None:
        """What was written while the first scan was reading, and since."""
        if self._since is None:
            return
        for root in self._roots:
            for path in root.paths():
                if _is_younger(path, self._since - _BEFORE_SCAN_SECONDS):
                    self._note(str(path))

    def _note_all(self) -> None:
        for root in self._roots:
            for path in root.paths():
                self._note(str(path))


def _is_younger(path: Path, since: float) -> bool:
    try:
        return path.stat().st_mtime >= since
    except OSError:
        return False
