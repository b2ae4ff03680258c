"""Filters as people type them: ``method:dfa flag:b growth>100 -seed:42``.

Terms are separated by blanks; a run is shown if every term holds. A term is
    word            the method, the name in the file or the source contains it
    name:text       method, source, key, seed, verdict, flag, covers, is, or an axis such as lam
    number<value    growth, g_L, stability, margin, acc, h_L, frozen, gamma, seed or an axis; < <= > >= =
and ``-`` before it turns it around. ``flag:ab`` = a and b fire; ``covers:d`` = d was measured;
``is:marked``, ``is:measured``, ``is:trustworthy``, ``is:walkback``, ``is:differs``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

from fa_core.errors import UsageError
from fa_core.report import LETTERS
from fa_tui.session import Session, mask_of
from fa_tui.views.quantities import BY_NAME

Test = Callable[[Session, int], bool]

_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}
_NUMERIC = re.compile(r"^(?P<name>[^<>=:]+)(?P<sign><=|>=|<|>|=)(?P<value>.+)$")
_STATES: dict[str, Test] = {
    "marked": lambda session, row: row in session.marked,
    "measured": lambda session, row: bool(session.coverage[row]),
    "trustworthy": lambda session, row: bool(session.coverage[row]) and not session.flags[row],
    "walkback": lambda session, row: bool(session.flags[row]),
    "differs": lambda session, row: session.recorded_differs(row),
}


class Filter:
    """A filter that was understood.

    Attributes:
        text: as it was typed.
        live: whether it depends on thresholds or marks, so that it must be applied again when these change.

    Raises:
        UsageError: a term that means nothing; says which names there are.
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        terms = self.text.split()
        self._tests = [_term(term) for term in terms]
        self.live = any(term.lstrip("-").startswith(("flag:", "is:", "verdict:")) for term in terms)

    def rows(self, session: Session) -> list[int] | None:
        """The rows that pass, in order; None where nothing is filtered."""
        if not self._tests:
            return None
        tests = self._tests
        return [row for row in range(len(session)) if all(test(session, row) for test in tests)]


def _term(term: str) -> Test:
    if term.startswith("-") and len(term) > 1:
        inner = _term(term[1:])
        return lambda session, row: not inner(session, row)
    if term[-1] in "<>=":
        raise UsageError(f"{term} needs a number", hint=f"write {term}100")
    numeric = _NUMERIC.match(term)
    if numeric:
        return _numeric(numeric["name"], numeric["sign"], numeric["value"])
    name, colon, text = term.partition(":")
    return _named(name, text) if colon else _word(term)


def _word(word: str) -> Test:
    sought = word.lower()

    def test(session: Session, index: int) -> bool:
        row = session.rows[index]
        return sought in row.method or sought in row.key.lower() or sought in row.source.lower()

    return test


def _numeric(name: str, sign: str, text: str) -> Test:
    try:
        bound = float(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a number", hint=f"write {name}{sign}100") from None
    compare, quantity = _COMPARE[sign], BY_NAME.get(name)

    def test(session: Session, index: int) -> bool:
        row = session.rows[index]
        value = quantity.of(row.report) if quantity else row.seed if name == "seed" else row.axes.get(name)
        return isinstance(value, (int, float)) and bool(compare(value, bound))

    return test


def _named(name: str, text: str) -> Test:
    sought = text.lower()
    if name == "flag" or name == "covers":
        if not set(sought) <= set(LETTERS):
            raise UsageError(f"{name}:{text}: the diagnostics are a, b, c and d")
        mask = mask_of(set(sought))
        if name == "flag":
            return lambda session, row: session.flags[row] & mask == mask
        return lambda session, row: session.coverage[row] & mask == mask
    if name == "is":
        if sought not in _STATES:
            raise UsageError(f"is:{text} means nothing", hint=f"there are {', '.join(_STATES)}")
        return _STATES[sought]
    if name == "verdict":
        return lambda session, row: sought in session.verdict(row)
    if name == "seed":
        return lambda session, row: str(session.rows[row].seed) == sought
    if name in ("method", "source", "key"):
        return lambda session, row: sought in getattr(session.rows[row], name).lower()
    if name in BY_NAME:
        raise UsageError(f"{name} is a number", hint=f"write {name}>1")
    return lambda session, row: str(session.rows[row].axes.get(name, "")).lower() == sought
