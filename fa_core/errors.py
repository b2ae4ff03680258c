"""Errors with a message for the user, a class per kind.

Every message is one sanitized line: what happened, where (file, key or line), and a hint.
    ``exit_code`` is the command line's exit code.

`is_device_lost` recognises CUDA errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fa_core.sanitize import sanitize

EXTRAS: Mapping[str, str] = {
    "scikit-learn": "scikit-learn>=1.4",
    "pandas": "pandas>=2.0",
    "transformers": "transformers>=4.46",
    "timm": "timm>=1.0.9",
    "torchvision": "torchvision>=0.21",
    "ray": "ray>=2.49",
}
"""Optional package → its requirement, as in the extras of pyproject.toml."""


LONGEST = 2000
"""Maximum characters of each part of a message: names in them may come from a file."""


INTERNAL_ERROR = 70
"""Exit code of an internal error."""


class FaError(Exception):
    """A failure with a message for the user.

    Args:
        what: what happened.
        where: the file, file + JSON path, module or option it happened in (``""`` if nowhere).
        hint: what to do about it (``""`` for none).
    """

    exit_code = 3

    def __init__(self, what: str, *, where: str | Path = "", hint: str = "") -> None:
        self.what, self.where, self.hint = map(_cut, (what, str(where), hint))
        text = ": ".join(filter(None, (self.where, self.what)))
        text = "; ".join(filter(None, (text, self.hint)))
        super().__init__(sanitize(" ".join(text.split())))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


class UsageError(FaError):
    """An invalid option or argument (exit code 2)."""

    exit_code = 2


def missing_package(package: str, needed_for: str) -> UsageError:
    """The error for an optional package that is not installed.

    Args:
        package: one of `EXTRAS`.
        needed_for: the feature that needs it.

    >>> str(missing_package("ray", "--engine ray"))
    "--engine ray needs ray, which is not installed; pip install 'ray>=2.49'"
    """
    return UsageError(
        f"{needed_for} needs {package}, which is not installed", hint=install_command(package)
    )


def install_command(package: str) -> str:
    """The command that installs an optional package.

    >>> install_command("ray")
    "pip install 'ray>=2.49'"
    """
    return f"pip install '{EXTRAS[package]}'"


class UnreadableInput(FaError):
    """A path that cannot be read, or of unknown content (exit code 3)."""


class UnsafeCheckpoint(UnreadableInput):
    """A pickle that would run code, which is refused."""


class UnknownNetwork(UnreadableInput):
    """A checkpoint whose tensors match no known network."""


class InvalidReport(UnreadableInput):
    """A report with contradictory numbers (unequal numbers of layers, an accuracy of 31)."""


class TapError(FaError):
    """A model whose residual stream h_0..h_L cannot be found or used."""


class MeasureError(FaError):
    """A measurement that failed (unsuitable data, a lost device)."""


def first_line(error: BaseException) -> str:
    r"""The first line of any error's message, or the name of its class where it has none.

    >>> first_line(ValueError("no such unit\nmore")), first_line(AssertionError())
    ('no such unit', 'AssertionError')
    """
    message = str(error).strip() or type(error).__name__
    if "INTERNAL ASSERT" in message:
        # torch asks there to report a bug of its own
        return "PyTorch does not support what it does"
    return message.splitlines()[0]


def is_device_lost(error: BaseException | None) -> bool:
    """Whether a CUDA error caused this, after which all calls of the process fail.

    >>> (is_device_lost(RuntimeError("CUDA error: device-side assert triggered")),
    ...     is_device_lost(ValueError("no")))
    (True, False)
    """
    while error is not None:
        if "CUDA error" in str(error) and "ALLOC_FAILED" not in str(error):
            return True
        error = error.__cause__
    return False
