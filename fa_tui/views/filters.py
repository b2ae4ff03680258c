"""Filters as typed: ``method:dfa flag:b growth>100 -seed:42``.

Terms are separated by blanks; a run is shown if every term holds. A term is
    word            the method, the name in the file or the source contains it
    name:text       method, source, key, run (source:key), seed, verdict, flag, covers, undecided,
                    is, or an axis such as lam; ``=`` instead of ``:`` asks for the whole word;
                    ``a,b`` for either
    number<value    growth, g_L, drift, margin, acc, h_L, frozen, gamma, null, seed or an axis;
                    < <= > >= =
and ``-`` before it negates it. ``flag:ab`` = a and b fire; ``covers:d`` = d was measured;
``undecided:c``; ``is:marked``, ``is:measured``, ``is:trustworthy``, ``is:walkback``,
``is:undecided``, ``is:control``, ``is:differs``, ``is:nonfinite``. Names may be typed in another
case, or as the screen spells them.

A filter is part of the view state (`ViewState`), which a command's options set.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from fa_core.errors import UsageError
from fa_core.formats.rows import AuditRow
from fa_core.report.diagnostics import (
    LETTERS,
    NOT_MEASURED,
    TRUSTWORTHY,
    UNDECIDED,
    WALKS_BACK,
    mask_of,
)
from fa_core.report.numbers import is_number
from fa_core.report.quantities import BY_NAME, QUANTITIES
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.session import Session
from fa_tui.views.columns import CELLS, every_column, on_axis, ordered, own, value_of
from fa_tui.views.grid import own_axes

_ON_SCREEN = {"λ": "lam", "Γ": "gamma"}
for _quantity in QUANTITIES:
    # an axis named like a letter has precedence
    for _typed in (_quantity.letter, _quantity.label, _quantity.column):
        _ON_SCREEN[_typed or _quantity.name] = _quantity.name


def meant(typed: str, known: Collection[str]) -> str | None:
    """The known name that a typed one stands for, or None.

    >>> (meant("λ", ["lam", "d"]), meant("GROWTH", ["growth"]), meant("growht", ["growth"]),
    ...     meant("c", ["drift"]))
    ('lam', 'growth', None, 'drift')
    """
    if typed in known:
        return typed
    sought = _ON_SCREEN.get(typed, typed).lower()
    folded = [name for name in known if name.lower() == sought]
    if len(folded) == 1:
        return folded[0]
    return None


Test = Callable[[Session, int], bool]
Value = Callable[[Session, int], object]

_COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
_TERM = re.compile(r"^(?P<name>[^<>=:]*)(?P<sign><=|>=|<|>|=|:)(?P<value>.*)$")
_LIVE = ("flag", "undecided", "is", "verdict")
"""First words of the terms that depend on thresholds or marks."""
_BREAKS = re.compile(r"[\s,]")
"""Characters that end a name in a filter."""
_BLANKS = re.compile(r"\s*(<=|>=|<|>|=)\s*|:\s+")
_LETTERS: dict[str, Callable[[Session], Sequence[int]]] = {
    "flag": operator.attrgetter("flags"),
    "covers": operator.attrgetter("coverage"),
    "undecided": operator.attrgetter("undecided"),
}


def _full_key(row: AuditRow) -> str:
    return f"{row.source}:{row.key}"


_WORDS: dict[str, Callable[[Session, int], str]] = {
    "method": own("method"),
    "source": own("source"),
    "key": own("key"),
    "run": lambda session, row: _full_key(session.rows[row]),
    "verdict": lambda session, row: session.judged(row).words,
}
_JUDGEMENTS = {"trustworthy": TRUSTWORTHY, "walkback": WALKS_BACK, "undecided": UNDECIDED}
"""State → judgement: with controls and what is not measured they part the runs."""
_STATES = ("marked", "measured", *_JUDGEMENTS, "control", "differs", "nonfinite")


def _is_in_state(state: str, session: Session, row: int) -> bool:
    """Whether a term ``is:state`` holds of a run."""
    if state in _JUDGEMENTS:
        return session.judgement(row) == _JUDGEMENTS[state]
    match state:
        case "marked":
            return row in session.marked
        case "measured":
            return session.judgement(row) != NOT_MEASURED
        case "control":
            return session.rows[row].is_control
        case "differs":
            return session.judged(row).recorded_differs
    for quantity in QUANTITIES:
        value = value_of(quantity, session, row)
        if value is not None and not math.isfinite(value):
            return True
    return False


class Filter:
    """A parsed filter.

    Attributes:
        text: as typed, with single blanks.
        live: whether it depends on thresholds or marks and must be applied again as they change.

    Args:
        text: as typed.
        axes: of the runs.

    Raises:
        UsageError: an unknown term; the hint lists the known names.
    """

    def __init__(self, text: str, axes: Collection[str] = ()) -> None:
        self.text = " ".join(text.split())
        self._tests: list[Test] = []
        self.live = False
        for term in split(self.text):
            self._tests.append(_term(term, axes))
            self.live |= term.lstrip("-").startswith(_LIVE)

    def rows(self, session: Session) -> Sequence[int]:
        """The rows that pass, in order."""
        rows: Sequence[int] = range(len(session))
        for test in self._tests:
            rows = [row for row in rows if test(session, row)]
        return rows


def split(text: str) -> list[str]:
    """The terms of a filter; blanks around a comparison do not matter.

    >>> split("method: dfa  growth > 100")
    ['method:dfa', 'growth>100']
    """
    return _BLANKS.sub(lambda sign: sign[1] or ":", text).split()


def picking(rows: Sequence[AuditRow], indices: Iterable[int]) -> str:
    """A filter for exactly these runs; ``""`` if their names are not unique or cannot be typed."""
    wanted = set(indices)
    keys = [row.key for row in rows]
    full_keys = list(map(_full_key, rows))
    for name, spelled in (("key", keys), ("run", full_keys)):
        sought = set(map(spelled.__getitem__, wanted))
        found = sum(map(sought.__contains__, spelled))
        if 0 < found == len(wanted):
            if any(map(_BREAKS.search, sought)):
                return ""
            return f"{name}={','.join(sorted(sought))}"
    return ""


def names(axes: Collection[str]) -> list[str]:
    """Every name that a colon or a comparison may follow."""
    return [*BY_NAME, "seed", *axes, *_WORDS, *_LETTERS, "is"]


def how_to_use(name: str) -> str:
    """An example term with a name.

    >>> how_to_use("growth"), how_to_use("flag"), how_to_use("lam")
    ('growth>1', 'flag:ab', 'lam:0.01')
    """
    examples = {
        "flag": "ab",
        "covers": "d",
        "undecided": "c",
        "is": "walkback",
        "seed": "42,123",
        "lam": "0.01",
    }
    if name in BY_NAME:
        return f"{name}>1"
    return f"{name}:{examples.get(name, '...')}"


def _term(term: str, axes: Collection[str]) -> Test:
    negations = len(term) - len(term[:-1].lstrip("-")) - 1
    test = _plain_term(term[negations:], axes)
    if negations % 2:
        return lambda session, row: not test(session, row)
    return test


def _plain_term(term: str, axes: Collection[str]) -> Test:
    found = _TERM.match(term)
    if not found:
        return partial(_names_hold, term.lower())
    name, sign, value = _known(found["name"], axes, term), found["sign"], found["value"]
    if not value:
        if sign in ":=":
            example = how_to_use(name)
        else:
            example = f"{name}{sign}100"
        raise UsageError(f"{term} is not finished", hint=f"write {example}")
    if name in _LETTERS:
        return _letters(name, value)
    if name == "is":
        if value.lower() not in _STATES:
            raise UsageError(f"is:{value} is unknown", hint=_near(value, _STATES))
        return partial(_is_in_state, value.lower())
    if name in _WORDS:
        return _text(name, sign, value)
    if sign == ":" and name in BY_NAME:
        raise UsageError(f"{name} is a number", hint=f"write {name}>1")
    if sign == ":" or (sign == "=" and not _is_number(value)):
        return _either(name, value)
    return _numeric(name, sign, value)


def _names_hold(text: str, session: Session, row: int) -> bool:
    """Whether the method, the name in the file or the source of a run contains a text."""
    run = session.rows[row]
    return text in "\n".join((run.method, run.key.partition("@")[0], run.source)).lower()


def _near(name: str, known: Collection[str]) -> str:
    """The known name like a typed one, else all: a line has no room for both."""
    like = difflib.get_close_matches(name, known, 1)
    return f"did you mean {like[0]}?" if like else f"there are {', '.join(known)}"


def _known(name: str, axes: Collection[str], term: str) -> str:
    """The known name of a term.

    Raises:
        UsageError: there is none.
    """
    if not name:
        raise UsageError(f"{term}: of what?", hint=f"write growth{term}")
    return _one_of(names(axes), name)


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _value(name: str) -> Value:
    """A run's number, its seed, or its value on one of its own axes."""
    if name in BY_NAME:
        return partial(value_of, BY_NAME[name])
    if name == "seed":
        return own("seed")
    return partial(on_axis, name)


def _numeric(name: str, sign: str, text: str) -> Test:
    if not _is_number(text):
        raise UsageError(f"{text!r} is not a number", hint=f"write {name}{sign}100")
    bound = float(text)
    compare = _COMPARE[sign]
    own_value = _value(name)

    def test(session: Session, row: int) -> bool:
        value = own_value(session, row)
        return isinstance(value, (int, float)) and bool(compare(value, bound))

    return test


def _letters(name: str, text: str) -> Test:
    letters = set(text.lower())
    if not letters <= set(LETTERS):
        raise UsageError(f"{name}:{text}: the diagnostics are a, b, c and d")
    masks = _LETTERS[name]
    wanted = mask_of(letters)

    def test(session: Session, row: int) -> bool:
        return masks(session)[row] & wanted == wanted

    return test


def _text(name: str, sign: str, text: str) -> Test:
    """The test for a text: equal to one of the words (``=``), or containing one."""
    if sign not in ":=":
        raise UsageError(f"{name} is a word", hint=f"write {name}:{text}")
    sought = _words_of(text)
    own_value = _WORDS[name]

    def test(session: Session, row: int) -> bool:
        value = own_value(session, row).lower()
        if sign == "=":
            return value in sought
        if name in ("key", "run"):
            # what follows an @ is a place, and says nothing of the run
            value = value.removesuffix(session.rows[row].key.partition("@")[2].lower())
        return any(word in value for word in sought)

    return test


def _words_of(text: str) -> set[str]:
    """The words between commas, in lower case."""
    return set(text.lower().split(",")) - {""}


def _either(name: str, text: str) -> Test:
    """The test for a seed or an axis: one of the words; numbers by value, so that 0.010 is 0.01."""
    sought = _words_of(text)
    numbers = set(map(float, filter(_is_number, sought)))
    own_value = _value(name)

    def test(session: Session, row: int) -> bool:
        value = own_value(session, row)
        if is_number(value):
            return value in numbers
        return str(value).lower() in sought

    return test


CELL_LETTERS = "letters"
"""The name of a cell's text when it shows no quantity."""


class ViewState(NamedTuple):
    """What the explorer shows first; empty fields are left to the settings.

    Attributes:
        show: `CELL_LETTERS`, or a name in `CELLS`.
        filter: as typed.
        sort: the order of the Table page: ``growth``, ``-growth``.
        long: whether the Table page is shown; a `sort` shows it too.
    """

    show: str = ""
    filter: str = ""
    sort: str = ""
    long: bool = False


def understood(view: ViewState, session: Session) -> ViewState:
    """A view state with canonical names.

    Raises:
        UsageError: an unknown name, with the known ones as a hint; an unreadable filter.
    """
    if view.show:
        view = view._replace(show=_one_of((CELL_LETTERS, *CELLS), view.show, "--show "))
    if view.filter:
        filter_of(view, session)
    if view.sort:
        names = [column.name for column in every_column(session)]
        typed = view.sort.removeprefix("-")
        sort = _one_of(names, typed, "--sort ")
        if view.sort.startswith("-"):
            sort = f"-{sort}"
        view = view._replace(sort=sort, long=True)
    return view


def filter_of(view: ViewState, session: Session) -> Filter:
    """The parsed filter of a view state.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return Filter(view.filter, own_axes(session.rows))
    except UsageError as wrong:
        raise UsageError(wrong.what, where="--filter", hint=wrong.hint) from wrong


def arranged(
    view: ViewState, rows: list[AuditRow], thresholds: DiagnosticThresholds
) -> list[AuditRow]:
    """The rows that pass a view state's filter, in its order.

    Raises:
        UsageError: as `understood`.
    """
    if view == ViewState():
        return rows
    session = Session(rows, thresholds=thresholds)
    view = understood(view, session)
    kept = ordered(session, filter_of(view, session).rows(session), view.sort)
    return [rows[row] for row in kept]


def _one_of(known: Collection[str], typed: str, option: str = "") -> str:
    name = meant(typed, known)
    if name is None:
        raise UsageError(f"{option}{typed} is not known", hint=_near(typed, known))
    return name
