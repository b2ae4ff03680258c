"""Verdicts as files record them, in the fixed text or in short, compared with the recomputed one."""

from __future__ import annotations

import re

from fa_core.report import LETTERS, NOT_MEASURED, PHRASES, TRUSTWORTHY

_SHORT = re.compile(r"^(?:needs )?walk-?back:? *(?P<letters>\([a-d]\)(?:[ ,;+/]*\([a-d]\))*)$", re.IGNORECASE)


def recorded_flags(text: str) -> frozenset[str] | None:
    """The diagnostics that a recorded verdict says fired; None if it says something else.

    >>> recorded_flags("trustworthy")
    frozenset()
    >>> sorted(recorded_flags("walk-back: (a), (d)"))
    ['a', 'd']
    >>> sorted(recorded_flags("needs walk-back: residual stream exploded; BP grad at numerical floor"))
    ['a', 'b']
    >>> recorded_flags("looks fine") is None
    True
    """
    text = text.strip()
    if text in (TRUSTWORTHY, NOT_MEASURED):
        return frozenset()
    short = _SHORT.match(text)
    if short:
        return frozenset(re.findall(r"[a-d]", short["letters"].lower()))
    head, _, phrases = text.partition(": ")
    named = phrases.split("; ")
    if head == "needs walk-back" and set(named) <= set(PHRASES.values()):
        return frozenset(letter for letter in LETTERS if PHRASES[letter] in named)
    return None


def same_verdict(recorded: str, recomputed: str) -> bool:
    """Whether a recorded verdict says what the recomputed text says.

    >>> same_verdict("walk-back: (a)", "needs walk-back: residual stream exploded")
    True
    >>> same_verdict("trustworthy", "not measured")
    False
    """
    if recorded == recomputed:
        return True
    flags = recorded_flags(recorded)
    return bool(flags) and flags == recorded_flags(recomputed)
