"""Names that people type: diagnostics by letter, hints for unknown names, lists in sentences."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from itertools import islice

from fa_core.diagnostics import LETTERS
from fa_core.errors import UsageError


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for an unknown name.

    >>> str(unknown_name("method", "dfaa", ["bp", "dfa"]))
    "unknown method 'dfaa'; did you mean dfa? known: bp, dfa"
    """
    return UsageError(f"unknown {kind} {name!r}", hint=nearest(name, known))


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint for an unknown name: the nearest known one, if one is near, and all of them in their order.

    >>> nearest("resmpl", ["vit_mini", "resmlp"])
    'did you mean resmlp? known: vit_mini, resmlp'
    """
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return (f"did you mean {close[0]}? " if close else "") + f"known: {', '.join(names)}"


def diagnostic_letters(text: str, option: str) -> frozenset[str]:
    """The diagnostics in ``"ab"``, ``"a,b"`` or ``"A, B"``.

    Args:
        text: what the user wrote.
        option: where they wrote it, for the message.

    Raises:
        UsageError: something other than a, b, c, d in it.

    >>> sorted(diagnostic_letters("a, B", "--stop-on"))
    ['a', 'b']
    """
    letters = frozenset(text.replace(",", "").replace(" ", "").lower())
    if not letters <= set(LETTERS):
        raise UsageError(f"{option} {text!r} is not a list of diagnostics", hint="write letters of a, b, c, d: a,b")
    return letters


def listed(names: Collection[object], most: int = 8) -> str:
    """Names with commas, at most so many, and how many more there are.

    >>> listed(["a", "b"]), listed("abcdef", most=4)
    ('a, b', 'a, b, c, d and 2 more')
    """
    rest = len(names) - most
    return ", ".join(str(name) for name in islice(names, most)) + (f" and {rest} more" if rest > 0 else "")
