"""What a demonstration returns: the wrong number, the right one, and why they differ."""

from __future__ import annotations

from typing import Any

import msgspec


class Demonstration(msgspec.Struct, frozen=True, kw_only=True):
    """One pitfall, run here and now.

    Attributes:
        number: 1 to 7.
        name: what `fa-tui pitfalls NAME` is called with.
        title: the pitfall in one line.
        wrong: what was computed → the misleading value (None stands for N/A).
        right: what should have been computed → the value.
        why: what happens inside.
        instead: what to write.
        versions: libraries it was run with.
        ran_on: the data: a constructed tensor, or a run.
    """

    number: int
    name: str
    title: str
    wrong: dict[str, Any]
    right: dict[str, Any]
    why: str
    instead: str
    versions: dict[str, str]
    ran_on: str = "a constructed tensor"

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers, unrounded."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def versions() -> dict[str, str]:
    """The libraries a demonstration ran with."""
    import platform

    import torch

    return {"python": platform.python_version(), "torch": str(torch.__version__)}
