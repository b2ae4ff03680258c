"""The verdict text, a run's standing, and the letters of a recorded verdict."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from fa_core.report.diagnostics import DIAGNOSTICS

TRUSTWORTHY = "trustworthy"
NOT_MEASURED = "not measured"
WALK_BACK = "needs walk-back: "
WALKS_BACK = "walk-back"
"""Standing of a run that needs walk-back."""
FIRES, PASSES = "fires", "passes"
UNDECIDED = "undecided"
CONTROL = "control"
"""Standing of a control, which makes no claim."""


def verdict_text(flags: Iterable[str], coverage: Collection[str]) -> str:
    """The fixed verdict text.

    Args:
        flags: letters that fire.
        coverage: letters that were measured.

    Returns:
        ``"trustworthy"``, ``"not measured"`` (empty coverage), or ``"needs walk-back: "`` and the
        phrases of the fired letters in the order a, b, c, d, joined by ``"; "``.

    Source: docs/protocol.md §3.

    >>> verdict_text({"b", "a"}, "abc")
    'needs walk-back: residual stream exploded; BP grad at numerical floor'
    """
    fired = set(flags)
    if fired:
        return WALK_BACK + "; ".join(d.phrase for d in DIAGNOSTICS.values() if d.letter in fired)
    if coverage:
        return TRUSTWORTHY
    return NOT_MEASURED


def standing(
    flags: Collection[str],
    coverage: Collection[str],
    undecided: Collection[str] = "",
    *,
    control: bool = False,
) -> str:
    """A run's standing in tables, summaries and exit codes.

    Args:
        flags: letters that fire.
        coverage: letters that were measured.
        undecided: letters that neither fire nor pass with confidence.
        control: whether it is a control's.

    >>> (standing("a", "ab"), standing("", "ab", "a"), standing("", "ab"), standing("a", "ab",
    ...     control=True))
    ('walk-back', 'undecided', 'trustworthy', 'control')
    """
    if not coverage:
        return NOT_MEASURED
    if control:
        return CONTROL
    if flags:
        return WALKS_BACK
    if undecided:
        return UNDECIDED
    return TRUSTWORTHY


def short_verdict(flags: Collection[str], coverage: Collection[str]) -> str:
    """The verdict in the form of published lists.

    >>> short_verdict("da", "abcd"), short_verdict("", "ab")
    ('walk-back: (a), (d)', 'trustworthy')
    """
    if not flags:
        return verdict_text(flags, coverage)
    return "walk-back: " + ", ".join(f"({letter})" for letter in sorted(flags))


SUCCESSOR = {"D1": "a", "D2": "b", "D3": "d"}
"""Check of the protocol's successor → letter (docs/protocol.md §3)."""

_WALKED_BACK = re.compile(r"(?:needs )?walk-back:(.*)|FAIL\((.*)\)", re.DOTALL)


@lru_cache(maxsize=256)
def recorded_flags(verdict: str | None) -> frozenset[str] | None:
    """The letters of a recorded verdict; None if unknown.

    Reads this project's text, the short form of published lists and the successor's.

    >>> sorted(recorded_flags("walk-back: (a), (d)") or ())
    ['a', 'd']
    >>> sorted(recorded_flags("needs walk-back: BP grad at numerical floor") or ())
    ['b']
    >>> sorted(recorded_flags("FAIL(D1+D3)") or ())
    ['a', 'd']
    """
    if verdict is None:
        return None
    text = verdict.strip()
    if text in (NOT_MEASURED, TRUSTWORTHY, "PASS"):
        return frozenset()
    found = _WALKED_BACK.fullmatch(text)
    if found is None:
        return None
    letters = dict(SUCCESSOR)
    for letter, diagnostic in DIAGNOSTICS.items():
        letters |= dict.fromkeys((diagnostic.phrase, letter, f"({letter})"), letter)
    parts = re.split("[;,+]", found[1] or found[2])
    named = [letters.get(part.strip(), "") for part in parts]
    if all(named):
        return frozenset(named)
    return None
