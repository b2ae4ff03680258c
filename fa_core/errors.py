"""What can go wrong for a person, one class per kind.

Every message is one line: what happened, where (file, key or line), and what to do about it. Names in it may
come from a file, so what is not printable is spelled out: no file sends commands to the person's terminal.
``exit_code`` is what the command line returns for that kind.

What an exception says about the device it came from.
"""

from __future__ import annotations

from pathlib import Path


def printable(text: str) -> str:
    r"""The text with control characters, and half a surrogate of an odd file name, as escapes.

    >>> printable("dfa\x1b[2J"), printable("Γ ≈ 1")
    ('dfa\\x1b[2J', 'Γ ≈ 1')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class FaError(Exception):
    """A failure with a message for the person at the keyboard.

    Args:
        what: what happened, in plain words.
        where: the file, file + JSON path, module or option it happened in (``""`` if nowhere).
        hint: what to do about it (``""`` if nothing can be done).
    """

    exit_code = 3

    def __init__(self, what: str, *, where: str | Path = "", hint: str = "") -> None:
        self.what = what
        self.where = str(where)
        self.hint = hint
        text = f"{self.where}: {what}" if self.where else what
        super().__init__(printable(" ".join((f"{text}; {hint}" if hint else text).split())))


class UsageError(FaError):
    """An option or argument that cannot be meant (exit code 2)."""

    exit_code = 2


class UnreadableInput(FaError):
    """A path that cannot be read, or holds nothing this project knows (exit code 3)."""


class UnsafeCheckpoint(UnreadableInput):
    """A pickle that would run code. It is refused, never run."""


class UnknownNetwork(UnreadableInput):
    """A checkpoint whose tensors match no known network."""


class InvalidReport(UnreadableInput):
    """A report whose numbers contradict each other (layers of unequal number, an accuracy of 31)."""


class TapError(FaError):
    """A model whose residual stream h_0..h_L cannot be found or used."""


class MeasureError(FaError):
    """A measurement that could not be made (data that does not fit the network, a lost device)."""


def is_device_lost(error: BaseException | None) -> bool:
    """Whether a CUDA error caused this: every later call of this process would fail with it too.

    >>> is_device_lost(RuntimeError("CUDA error: device-side assert triggered")), is_device_lost(ValueError("no"))
    (True, False)
    """
    while error is not None:
        if "CUDA error" in str(error) and "ALLOC_FAILED" not in str(error):
            return True
        error = error.__cause__
    return False
