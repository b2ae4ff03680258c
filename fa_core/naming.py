"""What to say about a name nobody knows: the nearest known one, then all of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from fa_core.errors import UsageError


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for an unknown name.

    >>> str(unknown_name("method", "dfaa", ["bp", "dfa"]))
    "unknown method 'dfaa'; did you mean dfa? known: bp, dfa"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f"did you mean {near[0]}? " if near else ""
    return UsageError(f"unknown {kind} {name!r}", hint=f"{guess}known: {', '.join(names)}")
