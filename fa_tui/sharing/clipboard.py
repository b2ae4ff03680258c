"""Copies of text to a reachable clipboard, else into a file.

Over SSH only the terminal can reach the user's clipboard (OSC 52). tmux swallows the sequence, but
forwards text itself. No terminal confirms it.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fa_core.files.atomic import write_bytes
from fa_tui.settings import state_folder

LONGEST = 74_994
"""Maximum bytes of base64 in a sequence; terminals silently drop longer ones."""

_FILE = "copied.txt"
_SECONDS = 5.0
_LOCAL = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
)
_TMUX = (
    (("tmux", "load-buffer", "-w", "-"), "tmux's buffer and the clipboard"),
    (("tmux", "load-buffer", "-"), "tmux's buffer (prefix ] pastes it)"),
)
_WITHOUT = ("dumb", "linux", "vt", "screen")
"""Terminals without clipboard; `screen` swallows the sequence."""


class Copied(NamedTuple):
    """Destination of a text, for messages, and whether it is a clipboard."""

    where: str
    in_clipboard: bool = True


def copy(text: str, send: Callable[[str], None]) -> Copied:
    """Copy a text.

    Args:
        text: the text.
        send: sends an escape sequence.

    Raises:
        FaError: no clipboard, and the file cannot be written.
    """
    env, data = os.environ, text.encode()
    in_browser = env.get("TEXTUAL_DRIVER", "").endswith("WebDriver")
    for program, where in () if in_browser else _programs(env):
        if _run(program, data):
            return Copied(where)
    sequence = base64.b64encode(data).decode()
    if (in_browser or _takes_sequence(env)) and len(sequence) <= LONGEST:
        send(f"\x1b]52;c;{sequence}\a")
        return Copied("the clipboard, if the terminal allows it")
    path = state_folder() / _FILE
    write_bytes(path, data)
    if len(sequence) > LONGEST:
        why = "too long for the terminal's clipboard"
    else:
        why = "this terminal has no clipboard"
    return Copied(f"{path} ({why})", in_clipboard=False)


def _programs(env: Mapping[str, str]) -> list[tuple[tuple[str, ...], str]]:
    """Installed programs that set a clipboard, with the clipboard's name."""
    here = [program for variable, program in _LOCAL if env.get(variable)]
    if sys.platform == "darwin":
        local = [("pbcopy",)]
    else:
        local = here
    remote = any(env.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"))
    if remote:
        installed = []
    else:
        installed = [(program, "the clipboard") for program in local if shutil.which(program[0])]
    return [*(_TMUX if env.get("TMUX") else ()), *installed]


def _takes_sequence(env: Mapping[str, str]) -> bool:
    multiplexed = env.get("TMUX") or env.get("STY")
    unable = (
        env.get("TERM", "dumb").startswith(_WITHOUT) or env.get("TERM_PROGRAM") == "Apple_Terminal"
    )
    return not multiplexed and not unable


def _run(program: Sequence[str], data: bytes) -> bool:
    try:
        unread = subprocess.DEVNULL
        done = subprocess.run(
            program, input=data, stdout=unread, stderr=unread, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
