"""stdout and stderr as the shell left them: closed, full, gone, or without Unicode."""

from __future__ import annotations

import codecs
import errno
import io
import os
import sys
from pathlib import Path

from fa_core.errors import FaError

_STAND_INS = str.maketrans("✗✓·‖–—‘’“”→≠≤≥×…−", "xv.|--''\"\">!<>x.-")
_NO_ROOM = frozenset({errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT})


def prepare(*, silent: bool) -> None:
    """Make both streams fit to print on.

    Args:
        silent: whether the command is of use without its output, so that a closed stdout is fine.

    Raises:
        FaError: stdout is closed.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 (open until the end)
    if sys.stdout is None:
        if not silent:
            raise FaError("stdout is closed: there is nowhere to print to")
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (open until the end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error("stand-in", _stand_in)
        sys.stdout.reconfigure(errors="backslashreplace" if speaks_unicode() else "stand-in")


def speaks_unicode() -> bool:
    """Whether stdout can print every character."""
    return "utf" in (getattr(sys.stdout, "encoding", None) or "utf").lower()


def is_full(error: OSError) -> bool:
    """Whether an error is that of a stream without room (an error about a file has the file's name)."""
    return error.errno in _NO_ROOM and error.filename is None


def silence() -> None:
    """What is still unprinted goes nowhere: Python would complain about it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_STAND_INS)
    return text.encode("ascii", "replace").decode(), error.end
