"""What runs are called, the explorer's top line and its count of walk-backs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path, PurePath

import msgspec

from fa_core.errors import printable
from fa_core.facts.runs import run_place
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import DIAGNOSTICS, Diagnostic, letters_of
from fa_core.numbers import count_text, short
from fa_core.rows import AuditRow, differing_axes
from fa_tui.session import Flip, Session
from fa_tui.settings import FILE as SETTINGS
from fa_tui.views.grid import axes_text, homes_of
from fa_tui.views.text import width_of

Pieces = list[tuple[str, str]]

_NAME = " fa-tui "
_LEAST_TITLE = 16
_LEFT_OUT = ("the epoch is skipped", "the line is skipped")
"""Ends of what is said of a file whose rest was read, though it need not hold a run: a trace has
epochs."""


class Overview(msgspec.Struct, frozen=True):
    """What the top line shows.

    Attributes:
        axes: the matrix', where they are not methods × seeds.
        quantity: the number that is shown instead of letters, or ``""``.
        order: what the long view is sorted by, or ``""``.
    """

    axes: str = ""
    quantity: str = ""
    order: str = ""


def title_pieces(
    view: Overview, session: Session, width: int, opened: Callable[[int], str]
) -> Pieces:
    """The top line; what is open gives way first, then the keys, then the program's name.

    Args:
        view: what it shows.
        session: the runs.
        width: cells.
        opened: what is open, in so many cells.
    """
    count = f" {runs_words(len(session))}"
    scope = f" {len(session.in_scope)} of{count}: {session.scope_text}"
    facts = (
        (session.filter is None, count, "", "dim"),
        (session.scope is not None, scope, "/ f", "dim"),
        (session.wide, f" all{count}", "f", "warn"),
        (session.marked, f"  {len(session.marked)} marked", "", "accent"),
        (session.problems, f"  {problem_words(session)}", "P", "warn"),
        (session.uneven, "  mixed settings", "" if session.problems else "P", "warn"),
        (session.gone, f"  {len(session.gone)} gone", "", "warn"),
        (session.baseline is not None, "  baseline assumed", "w", "warn"),
        (view.axes, f"  {view.axes}", "x X", "accent"),
        (view.quantity, f"  showing {view.quantity}", "v", "accent"),
        (view.order, f"  by {view.order}", "s S", "accent"),
    )
    keyed, bare = [], []
    for holds, text, key, tone in facts:
        if holds:
            bare.append((text, tone))
            keyed.append((f"{text} ({key})" if key else text, tone))
    for name, pieces in ((_NAME, keyed), (_NAME, bare), ("", bare)):
        room = width - len(name) - 3 - sum(width_of(text) for text, _ in pieces)
        if room >= _LEAST_TITLE:
            break
    return [(name, "accent"), (f" {opened(max(_LEAST_TITLE, room))} ", "strong"), *pieces]


def scope_pieces(session: Session) -> Pieces:
    """How many runs another screen is of, and why not of all."""
    total = runs_words(len(session))
    if session.scope is None:
        widened = "   all, not only those that pass the filter (f)" if session.wide else ""
        return [(f" {total}", "dim"), (widened, "warn")]
    return [(f" of {len(session.scope)} of {total}: {session.scope_text} (f)", "warn")]


def runs_words(count: int) -> str:
    """``1 run``, ``3 runs``."""
    return count_text(count, "run")


def problem_words(session: Session) -> str:
    """How many paths could not be opened, were read in part or are settings: ``3 not opened, 1 in
    part``."""
    read = {row.source for row in session.rows}
    in_settings = 0
    in_part, not_opened = set(), set()
    for problem in session.problems:
        if PurePath(problem.path).name == SETTINGS:
            in_settings += 1
        elif problem.path in read or problem.message.endswith(_LEFT_OUT):
            in_part.add(problem.path)
        else:
            not_opened.add(problem.path)
    counts = {
        "not opened": len(not_opened - in_part),
        "in part": len(in_part),
        "in settings": in_settings,
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def walk_back_words(session: Session) -> str:
    """``9 of 15 need walk-back, 1 undecided, 2 not measured, 3 controls not counted``: of the runs
    in scope."""
    measured, counted = session.measured(), len(session.counted)
    text = f"{session.walk_backs()} of {measured} need walk-back"
    doubtful = session.doubtful()
    if doubtful:
        text += f", {doubtful} undecided"
    training = session.training()
    if counted > measured + training:
        text += f", {counted - measured - training} not measured"
    if training:
        text += f", {training} training"
    controls = len(session.in_scope) - counted
    if controls:
        text += f", {count_text(controls, 'control')} not counted"
    return text


def flipped_words(
    session: Session, flips: Sequence[Flip], before: DiagnosticThresholds | None = None
) -> str:
    """What flipped, and at which threshold; ``""`` where no letter fires that did not, or the other
    way round.

    Args:
        session: after the change.
        flips: the runs.
        before: the thresholds before it, where it was they that changed.
    """
    text = flip_text(session, flips)
    if not text:
        return ""
    moved = ""
    if before is not None:
        moved = moved_words(session.thresholds, before)
    if moved:
        return f"flipped at {moved}: {text}"
    return f"flipped: {text}"


def moved_words(now: DiagnosticThresholds, before: DiagnosticThresholds) -> str:
    """Which thresholds moved, and where to: ``a > 6.1``."""
    moved = [one for one in DIAGNOSTICS.values() if one.limit(before) != one.limit(now)]
    return ", ".join(limit_words(one, now) for one in moved)


def limit_words(one: Diagnostic, thresholds: DiagnosticThresholds) -> str:
    """When a diagnostic fires: ``a > 50``."""
    sign = ">" if one.fires_above else "<"
    return f"{one.letter} {sign} {short(one.limit(thresholds))}"


def flip_text(session: Session, flips: Sequence[Flip], limit: int = 3) -> str:
    """What flipped, as text: ``ep s123 +a, ep s456 +a``; many of them by method: ``dfa +a on 12, fa
    +a −b on 3``.

    Runs whose verdict itself turned come first; of the others it is said that they are still walked
    back.
    """
    flips = [flip for flip in flips if flip.before != flip.after]
    if len(flips) > limit:
        return _counted_flips(session, flips, limit)
    turned, still = [], []
    for flip in flips:
        text = f"{run_name(session, flip.row)} {change_words(flip)}"
        if flip.before and flip.after:
            still.append(f"{text} (still ✗)")
        else:
            turned.append(text)
    return ", ".join(turned + still)


def _counted_flips(session: Session, flips: Sequence[Flip], limit: int) -> str:
    """The most common changes of a method, each with the number of its runs."""
    changes = [f"{session.rows[flip.row].method} {change_words(flip)}" for flip in flips]
    rest = len(flips)
    parts = []
    for change, count in Counter(changes).most_common(limit):
        parts.append(f"{change} on {count}")
        rest -= count
    if rest:
        parts.append(f"{rest} more")
    return ", ".join(parts)


def flip_words(session: Session, flip: Flip) -> str:
    """One run that flipped: ``ep s123 +a, needs walk-back: residual stream exploded``."""
    return f"{run_name(session, flip.row)} {change_words(flip)}, {session.verdict(flip.row)}"


_TOLD_APART = 100
"""Of more runs that share a name each is called by its key: to compare them all would take too
long."""


def run_name(session: Session, index: int) -> str:
    """What a run is called among those in scope: followed by its source where others share its
    name."""
    alike = session.alike(index)
    if len(alike) > _TOLD_APART:
        return printable(f"{session.label(index)} {session.rows[index].key}")
    axes = session.differing_axes.get(session.rows[index].method, ())
    names = _told_apart([session.rows[row] for row in alike], axes)
    return "".join(names[alike.index(index)])


def queued_words(session: Session, rows: Sequence[int]) -> str:
    """``dfa s42``, ``3 runs (2 of them outside the filter)``."""
    scope = session.scope
    hidden = 0
    if scope is not None:
        hidden = len({*rows} - {*scope})
    if len(rows) == 1:
        name, which = run_name(session, rows[0]), ""
    else:
        name, which = runs_words(len(rows)), f"{hidden} of them "
    if hidden:
        return f"{name} ({which}outside the filter)"
    return name


def change_words(flip: Flip) -> str:
    """Which letters fire now, and which no longer: ``+a −b``."""
    return _turned(flip.before, flip.after)


@cache
def _turned(before: int, after: int) -> str:
    """The same of two masks: few are among very many flips."""
    gained = [f"+{letter}" for letter in letters_of(after & ~before)]
    lost = [f"−{letter}" for letter in letters_of(before & ~after)]
    return " ".join(gained + lost)


_KEYS = {
    "with --healthy and --degenerate": "with the key M",
    "with --frozen-baseline": "with the key w",
}
"""What the commands call by an option is a key in the explorer."""


def with_keys(text: str) -> str:
    """What a command says, as the explorer says it.

    >>> with_keys("give one with --frozen-baseline")
    'give one with the key w'
    """
    for option, key in _KEYS.items():
        text = text.replace(option, key)
    return text


def labels(rows: Sequence[AuditRow]) -> list[str]:
    """A name per row, without the seed: ``dfa``, ``dfa λ=0.01``, ``bp (main/bp_s42)``.

    The axes that differ among the rows of its method; the run's place and its key only where runs
    of one seed would share the name without them.
    """
    axes = _axes_of_methods(rows)
    names = [(row.method, _axes_behind(row, axes[row.method])) for row in rows]
    return list(map("".join, _extended(names, rows, (_places, _run_keys))))


def told_apart(rows: Sequence[AuditRow], *, by_place: bool = True) -> list[tuple[str, str]]:
    """A name per row in two parts, of which the first may be cut short: ``("dfa", " s42 λ=0.1")``.

    The axes that differ among the rows of its method; the place and a number only `by_place`, and
    only where names would repeat without them.
    """
    axes = _axes_of_methods(rows)
    found: list[tuple[str, str]] = [("", "")] * len(rows)
    places_of: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        places_of.setdefault(row.method, []).append(place)
    for method, places in places_of.items():
        own = [rows[place] for place in places]
        names = _told_apart(own, axes[method], by_place)
        for place, name in zip(places, names, strict=True):
            found[place] = name
    return found


def _told_apart(
    rows: Sequence[AuditRow], axes: Collection[str], by_place: bool = True
) -> list[tuple[str, str]]:
    """`told_apart` of rows of one method.

    Args:
        rows: all of them, or those that share a name.
        axes: which differ among all runs of the method.
        by_place: see there.
    """
    names = []
    for row in rows:
        rest = _axes_behind(row, axes)
        if row.seed is not None:
            rest = f" s{row.seed}{rest}"
        names.append((row.method, rest))
    return _extended(names, rows, (_source, _numbers) if by_place else ())


def _axes_of_methods(rows: Iterable[AuditRow]) -> dict[str, list[str]]:
    return differing_axes((row.method, row) for row in rows)


def _axes_behind(row: AuditRow, axes: Iterable[str]) -> str:
    """The row's values on some axes, as the end of its name; a name cut short keeps its end."""
    return "".join(f" {axes_text({name: row.axes[name]})}" for name in axes if name in row.axes)


def place_label(row: AuditRow) -> str:
    """Where a run comes from: the name of a file, the last two parts of a folder's path."""
    place = Path(run_place(row.source))
    if place.suffix:
        return place.name
    return "/".join(place.parts[-2:])


def among(rows: Iterable[AuditRow], row: AuditRow) -> str:
    """What `told_apart` calls one of the rows."""
    own = [each for each in rows if each.method == row.method]
    alike = [each for each in own if each.seed == row.seed]
    names = _told_apart(alike, _axes_of_methods(own)[row.method])
    for each, name in zip(alike, names, strict=True):
        if each is row:
            return "".join(name)
    raise ValueError(f"no row {row.key}")


def with_seed(label: str, row: AuditRow) -> str:
    """A run as text, e.g. ``dfa λ=0.01 seed 42``."""
    if row.seed is None:
        return label
    return f"{label} seed {row.seed}"


_Words = Callable[[Sequence[AuditRow]], Sequence[str]]
"""Of some rows that share a name and a seed, what may tell them apart."""


def _extended(names: Pieces, rows: Sequence[AuditRow], ways: Iterable[_Words]) -> Pieces:
    """Names with words behind them, of one way after another, where rows of one seed would share
    them without."""
    found = list(names)
    alike: list[Sequence[int]] = [range(len(rows))]
    for words_of in ways:
        shared: dict[tuple[tuple[str, str], int | None], list[int]] = {}
        for place in chain.from_iterable(alike):
            shared.setdefault((found[place], rows[place].seed), []).append(place)
        alike = [places for places in shared.values() if len(places) > 1]
        for places in alike:
            words = words_of([rows[place] for place in places])
            for place, word in zip(places, words, strict=True):
                method, rest = found[place]
                found[place] = (method, f"{rest} {word}".rstrip())
    return [(printable(method), printable(rest)) for method, rest in found]


def _source(rows: Sequence[AuditRow]) -> list[str]:
    """Of each row its file, or the heading that its folder has in the matrix, or its whole place if
    that says more."""
    homes = []
    sources = [row.source for row in rows]
    for row, home in zip(rows, homes_of(sources), strict=True):
        is_file = Path(row.source).suffix
        homes.append(f"({place_label(row)})" if is_file else f"({home})")
    told = max(homes, _places(rows), key=_distinct)
    if _distinct(told) > 1:
        return told
    return [""] * len(rows)


def _distinct(texts: Iterable[str]) -> int:
    return len(set(texts))


def _numbers(rows: Sequence[AuditRow]) -> list[str]:
    return ["", *(f"#{number}" for number in range(2, len(rows) + 1))]


def _run_keys(rows: Sequence[AuditRow]) -> list[str]:
    return [row.key for row in rows]


def _places(rows: Sequence[AuditRow]) -> list[str]:
    return [f"({'/'.join(Path(run_place(row.source)).parts[-2:])})" for row in rows]
