"""What can go wrong for a person, one class per kind.

Every message is one line: what happened, where (file, key or line), and what to do about it. Names
in it may come from a file, so what is not printable is spelled out: no file sends commands to the
user's terminal. ``exit_code`` is what the command line returns for that kind.

What an exception says about the device it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

EXTRAS: Mapping[str, str] = {
    "scikit-learn": "scikit-learn>=1.4",
    "pyarrow": "pyarrow>=15",
    "pandas": "pandas>=2.0",
    "lightning": "lightning>=2.4",
    "transformers": "transformers>=4.46",
    "accelerate": "accelerate>=1.1",
    "timm": "timm>=1.0.9",
    "torchvision": "torchvision>=0.21",
    "textual-serve": "textual-serve>=1.1.3,<1.2",
    "ray": "ray>=2.49",
    "tensorboard": "tensorboard>=2.12",
    "wandb": "wandb>=0.17",
    "trackio": "trackio>=0.2",
}
"""Optional package → its requirement, as pyproject.toml has it among the extras."""


LONGEST = 1000
"""Characters of a message, without its place and what to do: it may hold names from a file."""


def printable(text: str) -> str:
    r"""The text with control characters, and half a surrogate of an odd file name, as escapes.

    >>> printable("dfa\x1b[2J"), printable("Γ ≈ 1")
    ('dfa\\x1b[2J', 'Γ ≈ 1')
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


INTERNAL_ERROR = 70
"""Exit code of a defect in this program."""


class FaError(Exception):
    """A failure with a message for the user.

    Args:
        what: what happened, in plain words.
        where: the file, file + JSON path, module or option it happened in (``""`` if nowhere).
        hint: what to do about it (``""`` if nothing can be done).
    """

    exit_code = 3

    def __init__(self, what: str, *, where: str | Path = "", hint: str = "") -> None:
        if len(what) <= LONGEST:
            self.what = what
        else:
            self.what = f"{what[:LONGEST]}…"
        self.where = str(where)
        self.hint = hint
        if self.where:
            text = f"{self.where}: {self.what}"
        else:
            text = self.what
        super().__init__(printable(" ".join((f"{text}; {hint}" if hint else text).split())))


class UsageError(FaError):
    """An option or argument that cannot be meant (exit code 2)."""

    exit_code = 2


def missing_package(package: str, needed_for: str, alternative: str = "") -> UsageError:
    """The error for an optional package that is not installed.

    Args:
        package: one of `EXTRAS`.
        needed_for: what cannot be done without it.
        alternative: what else would help.

    >>> str(missing_package("pyarrow", "writing Parquet", "or write .csv"))
    "writing Parquet needs pyarrow, which is not installed; pip install 'pyarrow>=15', or write
    .csv"
    """
    hint = ", ".join(filter(None, [install_command(package), alternative]))
    return UsageError(f"{needed_for} needs {package}, which is not installed", hint=hint)


def install_command(package: str) -> str:
    """The command that installs an optional package: the package itself, never this project from an
    index.

    >>> install_command("ray")
    "pip install 'ray>=2.49'"
    """
    return f"pip install '{EXTRAS[package]}'"


class UnreadableInput(FaError):
    """A path that cannot be read, or holds nothing this project knows (exit code 3)."""


class UnsafeCheckpoint(UnreadableInput):
    """A pickle that would run code. It is refused, never run."""


class UnknownNetwork(UnreadableInput):
    """A checkpoint whose tensors match no known network."""


class InvalidReport(UnreadableInput):
    """A report whose numbers contradict each other (layers of unequal number, an accuracy of
    31)."""


class TapError(FaError):
    """A model whose residual stream h_0..h_L cannot be found or used."""


class MeasureError(FaError):
    """A measurement that could not be made (data that does not fit the network, a lost device)."""


def is_device_lost(error: BaseException | None) -> bool:
    """Whether a CUDA error caused this: every later call of this process would fail with it too.

    >>> (is_device_lost(RuntimeError("CUDA error: device-side assert triggered")),
    ...     is_device_lost(ValueError("no")))
    (True, False)
    """
    while error is not None:
        if "CUDA error" in str(error) and "ALLOC_FAILED" not in str(error):
            return True
        error = error.__cause__
    return False
