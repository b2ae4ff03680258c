"""Which folders lie on a disk of another machine, where changes made elsewhere raise no event here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

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
