"""The judgement of a run, the published verdict text, and the letters of a recorded one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS

TRUSTWORTHY = "trustworthy"
NOT_MEASURED = "not measured"
WALK_BACK = "needs walk-back: "
WALKS_BACK = "walk-back"
"""Judgement of a run on which a diagnostic fires."""
FIRES, PASSES = "fires", "passes"
UNDECIDED = "undecided"
CONTROL = "control"
"""In place of a control's judgement: it makes no claim."""
MIXED = "MIXED"
"""Judgement of runs that disagree."""


def verdict_text(flags: Iterable[str], coverage: Collection[str]) -> str:
    """The published verdict text.

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


def judgement_of(
    flags: Collection[str] | int,
    coverage: Collection[str] | int,
    undecided: Collection[str] | int,
    *,
    control: bool = False,
) -> str:
    """A run's judgement, as every surface shows and counts it.

    Args:
        flags: letters that fire, or their mask.
        coverage: those that were measured.
        undecided: those that neither fire nor pass.
        control: whether it is a control's, which makes no claim.

    >>> (judgement_of("a", "ab", ""), judgement_of("", "ab", "a"), judgement_of("", "ab", ""),
    ...     judgement_of("a", "ab", "", control=True))
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


def common_judgement(judgements: Iterable[str]) -> str:
    """The judgement of several runs: their common one, `MIXED` where some need walk-back and
    others are trustworthy, else undecided.

    >>> [common_judgement([WALKS_BACK, other]) for other in (WALKS_BACK, TRUSTWORTHY, UNDECIDED)]
    ['walk-back', 'MIXED', 'undecided']
    """
    found = set(judgements) - {NOT_MEASURED}
    if {WALKS_BACK, TRUSTWORTHY} <= found:
        return MIXED
    if len(found) > 1:
        return UNDECIDED
    return next(iter(found), NOT_MEASURED)


def cell_legend(*, controls: bool = False) -> list[str]:
    """The signs of `cell_text` with their meanings; at most 78 characters, with blanks between.

    Args:
        controls: whether to include controls.
    """
    marks = [f"✗ {WALKS_BACK}", f"✓ {TRUSTWORTHY}"]
    if controls:
        marks.append(f"▫ {CONTROL}")
    marks[-1] += ":"
    return [*marks, "a fires", "- passes", "~ undecided", "· unmeasured"]


@lru_cache(maxsize=512)
def cell_text(
    flags: Collection[str],
    coverage: Collection[str],
    undecided: Collection[str] = "",
    *,
    control: bool = False,
    ascii_only: bool = False,
) -> str:
    """A judgement in five characters: a mark, then a sign per diagnostic (`cell_legend`).

    Args:
        flags, coverage, undecided, control: as in `judgement_of`.
        ascii_only: for terminals without Unicode.

    >>> (cell_text("abd", "abcd"), cell_text("", "abc", "b"), cell_text("a", "ab", "b"),
    ...     cell_text("", ""), cell_text("d", "abd", control=True))
    ('✗ab-d', '~-~-·', '✗a~··', '?····', '▫--·d')
    """
    fires, passes, missing, own = "!+.o" if ascii_only else "✗✓·▫"
    marks = {WALKS_BACK: fires, TRUSTWORTHY: passes, CONTROL: own, UNDECIDED: "~"}
    signs = dict.fromkeys(LETTERS, missing) | dict.fromkeys(coverage, "-")
    signs |= {letter: letter for letter in flags} | dict.fromkeys(undecided, "~")
    mark = marks.get(judgement_of(flags, coverage, undecided, control=control), "?")
    return mark + "".join(signs.values())


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
