"""Output on stdout and stderr, which may be closed, full, gone, or without Unicode.

Results are JSON with every digit, or tables for reading.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import math
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fa_core.errors import FaError
from fa_core.sanitize import in_json, one_line
from fa_tui.terminal.abilities import detect
from fa_tui.views.glyphs import ASCII

if TYPE_CHECKING:
    from fa_core.reporting.blocks import Block
    from fa_tui.options import Form


NO_ROOM = frozenset({errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT})


def prepare(*, silent: bool) -> None:
    """Prepare both streams for printing.

    Args:
        silent: whether the command is useful without output, so that stdout may be closed.

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
        if sys.stdout.isatty() and not detect().unicode:
            sys.stdout.reconfigure(encoding="ascii")
        sys.stdout.reconfigure(errors="backslashreplace" if speaks_unicode() else "stand-in")


def speaks_unicode() -> bool:
    """Whether stdout can print every character."""
    return "utf" in (sys.stdout.encoding or "utf").lower()


def silence() -> None:
    """Discard unprinted output, about which Python would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return ASCII.say(error.object[error.start : error.end]), error.end


def say(text: str) -> None:
    """Print a line on stdout; names in it may come from files (`one_line`)."""
    print(one_line(text))


def complain(text: str) -> None:
    """Print a line on stderr, after the program's name."""
    print(f"fa-tui: {one_line(text)}", file=sys.stderr)


PIPE_WIDTH = 10_000
"""Width of a pipe: lines are never wrapped."""


def print_json(value: object) -> None:
    """JSON as Python writes it: NaN and Infinity where a measured number is one, unless
    ``--strict-json`` is given."""
    shown = finite(value) if strict_json else value
    print(in_json(json.dumps(shown, indent=1, ensure_ascii=not speaks_unicode())))


strict_json = False
"""Whether ``--strict-json`` was given."""


def finite(value: object) -> object:
    """A value with null for NaN and infinities, which JSON has no words for.

    The object that holds them names them in ``not_finite``.

    >>> finite({"g": [1.0, math.inf], "c": 0.5})
    {'g': [1.0, None], 'c': 0.5, 'not_finite': {'g[1]': 'inf'}}
    """
    if isinstance(value, dict):
        lost: dict[str, str] = {}
        plain = {name: _finite_in(member, str(name), lost) for name, member in value.items()}
        if lost:
            plain["not_finite"] = lost
        return plain
    return _finite_in(value, "", {})


def _finite_in(value: object, place: str, lost: dict[str, str]) -> object:
    """A member without NaN and infinities; `lost` gets their places and names."""
    if isinstance(value, float) and not math.isfinite(value):
        lost[place] = str(value)
        return None
    if isinstance(value, dict):
        return finite(value)
    if isinstance(value, (list, tuple)):
        return [_finite_in(member, f"{place}[{at}]", lost) for at, member in enumerate(value)]
    return value


def print_result(form: Form, record: object, blocks: Iterable[Block | str]) -> None:
    """Print a result as JSON with every digit, or as blocks and lines for reading."""
    if form == "json":
        print_json(record)
    else:
        print_blocks(blocks)


def print_blocks(blocks: Iterable[Block | str]) -> None:
    """Print blocks and lines; a table too wide for a terminal continues below, in a pipe never."""
    # 20 ms that the explorer does without
    from rich.console import Console

    from fa_tui.views.printed import lines_of

    width = None if sys.stdout.isatty() else PIPE_WIDTH
    console = Console(width=width, highlight=False, markup=False)
    with suppress(SystemExit):  # Rich's, where no one reads any more: the exit code is ours
        for text, bold in lines_of(blocks, console.width):
            console.print(one_line(text), style="bold" if bold else None, soft_wrap=True)
