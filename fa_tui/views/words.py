"""Names of runs, the line about what is open, and the count of walk-backs. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path, PurePath

import msgspec

from fa_core.facts.run_names import run_place
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import DIAGNOSTICS, Diagnostic, letters_of
from fa_core.numbers import count_text, short
from fa_core.rows import AuditRow, differing_axes, value_on_axis
from fa_core.sanitize import sanitize
from fa_tui.session import Flip, Session
from fa_tui.settings import FILE as SETTINGS
from fa_tui.views.grid import axes_text, homes_of
from fa_tui.views.text import width_of

Pieces = list[tuple[str, str]]

PUBLISHED = "source:audit_table"
"""A filter: the published table among the sample runs."""
SAMPLES = "sample runs"
"""What is open where no path is given."""

_OPENS_YOURS = " · `fa-tui PATH` opens yours"
_LEAST_TITLE = 16
_LEFT_OUT = ("the epoch is skipped", "the line is skipped")
"""Ends of messages about files whose other lines were read; such a file may hold no run (a trace
holds epochs)."""


class Overview(msgspec.Struct, frozen=True):
    """The view's settings in the top line; ``""`` leaves one out.

    Attributes:
        axes: of the matrix, unless they are methods × seeds.
        quantity: the number shown instead of letters.
        order: the sort order of the long view.
    """

    axes: str = ""
    quantity: str = ""
    order: str = ""


def title_pieces(
    view: Overview, session: Session, width: int, opened: Callable[[int], str]
) -> Pieces:
    """The line about what is open. The opened paths are shortened before anything else is cut.

    Args:
        view: the view's settings.
        session: the runs.
        width: cells.
        opened: cells → the opened paths in at most so many cells.
    """
    facts = [*_counted_runs(session), *_title_facts(view, session)]
    taken = sum(width_of(text) for text, _ in facts)
    paths = opened(max(_LEAST_TITLE, width - 2 - taken))
    name = f" {paths}:" if paths else ""
    hint = ""
    if paths == SAMPLES and width_of(name + _OPENS_YOURS) + taken <= width:
        hint = _OPENS_YOURS
    return [(name, "strong"), *facts, (hint, "dim")]


def _counted_runs(session: Session) -> Iterator[tuple[str, str]]:
    """How many runs are looked at, and the filter that chose them."""
    total = runs_words(len(session))
    if session.filter is None:
        yield f" {total}", "dim"
    elif session.wide:
        yield f" all {total}, filter {session.filter.text} is off", "warn"
    else:
        name = f"filter {session.filter.text}"
        if session.filter.text == PUBLISHED:
            name = "the published table"
        yield f" {name}, {len(session.in_scope)} of {total}", "dim"


def _title_facts(view: Overview, session: Session) -> Iterator[tuple[str, str]]:
    if session.marked:
        yield f"  {len(session.marked)} marked", "accent"
    if session.problems:
        yield f"  {problem_words(session)}", "warn"
    if session.uneven:
        yield "  mixed settings", "warn"
    if session.gone:
        yield f"  {len(session.gone)} gone", "warn"
    if session.baseline is not None:
        yield "  baseline assumed", "warn"
    if view.axes:
        yield f"  {view.axes}", "accent"
    if view.quantity:
        yield f"  showing {view.quantity}", "accent"
    if view.order:
        yield f"  by {view.order}", "accent"


def scope_pieces(session: Session) -> Pieces:
    """How many runs an analysis screen covers, and why not all."""
    total = runs_words(len(session))
    if session.filter is None:
        return [(f" {total}", "dim")]
    text = session.filter.text
    if session.wide:
        return [(f" all {total}, filter {text} is off", "warn")]
    return [(f" {len(session.in_scope)} of {total}, filter {text}", "warn")]


def runs_words(count: int) -> str:
    """``1 run``, ``3 runs``."""
    return count_text(count, "run")


def problem_words(session: Session) -> str:
    """Counts of paths not opened, read in part, or settings: ``3 not opened, 1 in part``."""
    read = {row.source for row in session.rows}
    in_settings = 0
    in_part = set()
    others = set()
    for problem in session.problems:
        if PurePath(problem.path).name == SETTINGS:
            in_settings += 1
        elif problem.path in read or problem.message.endswith(_LEFT_OUT):
            in_part.add(problem.path)
        else:
            others.add(problem.path)
    counts = {
        "not opened": len(others - in_part),
        "in part": len(in_part),
        "in settings": in_settings,
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def walk_back_words(session: Session) -> str:
    """Counts over the runs in scope: ``9 of 15 need walk-back, 1 undecided, 2 not measured, 3
    controls not counted``."""
    measured = session.measured()
    counted = len(session.counted)
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
    """The flips as a message, with the thresholds that moved; ``""`` if no letters changed.

    Args:
        session: after the change.
        flips: the runs.
        before: the previous thresholds, if the change was theirs.
    """
    text = flip_text(session, flips)
    if not text:
        return ""
    if before is None or before == session.thresholds:
        return f"flipped: {text}"
    return f"flipped at {moved_words(session.thresholds, before)}: {text}"


def moved_words(now: DiagnosticThresholds, before: DiagnosticThresholds) -> str:
    """The thresholds that moved, with their new values: ``a > 6.1``."""
    moved = []
    for diagnostic in DIAGNOSTICS.values():
        if diagnostic.limit(before) != diagnostic.limit(now):
            moved.append(limit_words(diagnostic, now))
    return ", ".join(moved)


def limit_words(one: Diagnostic, thresholds: DiagnosticThresholds) -> str:
    """The rule of a diagnostic: ``a > 50``."""
    return f"{one.letter} {one.sign} {short(one.limit(thresholds))}"


def flip_text(session: Session, flips: Sequence[Flip], limit: int = 3) -> str:
    """Flips as text: ``ep s123 +a, ep s456 +a``; more than `limit` by method: ``dfa +a on 12``.

    Runs whose verdict changed come first. The others are marked as still walked back.
    """
    flips = [flip for flip in flips if flip.before != flip.after]
    if len(flips) > limit:
        return _counted_flips(session, flips, limit)
    turned = []
    still = []
    for flip in flips:
        text = f"{run_name(session, flip.row)} {change_words(flip)}"
        if flip.before and flip.after:
            still.append(f"{text} (still ✗)")
        else:
            turned.append(text)
    return ", ".join(turned + still)


def _counted_flips(session: Session, flips: Sequence[Flip], limit: int) -> str:
    """The most common changes per method, with their numbers of runs."""
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
    name = run_name(session, flip.row)
    verdict = session.verdict(flip.row)
    return f"{name} {change_words(flip)}, {verdict}"


_COMPARED_AT_MOST = 100
"""More runs that share a name are called by their keys: comparing all would take too long."""


def method_text(row: AuditRow) -> str:
    """A run's method; of a control also the rule that trained it, where that is recorded."""
    if "of" in row.axes:
        return f"{row.method} of={row.axes['of']}"
    return row.method


def run_name(session: Session, index: int) -> str:
    """A run's name among those in scope, with its source if other runs share the name."""
    row = session.rows[index]
    alike = session.alike(index)
    if len(alike) > _COMPARED_AT_MOST:
        return sanitize(f"{session.label(index)} {row.key}")
    axes = session.differing_axes.get(row.method, ())
    names = _disambiguate([session.rows[other] for other in alike], axes)
    return "".join(names[alike.index(index)])


def queued_words(session: Session, rows: Sequence[int]) -> str:
    """``dfa s42``, ``3 runs (2 of them outside the filter)``."""
    hidden = 0
    if session.scope is not None:
        hidden = len({*rows}.difference(session.scope))
    name = runs_words(len(rows))
    which = f"{hidden} of them "
    if len(rows) == 1:
        name = run_name(session, rows[0])
        which = ""
    if hidden:
        return f"{name} ({which}outside the filter)"
    return name


def change_words(flip: Flip) -> str:
    """Letters that fire now or no longer: ``+a −b``."""
    return _turned(flip.before, flip.after)


@cache
def _turned(before: int, after: int) -> str:
    """Cached by masks: many flips share few pairs."""
    gained = letters_of(after & ~before)
    lost = letters_of(before & ~after)
    signed = [f"+{letter}" for letter in gained]
    signed += [f"−{letter}" for letter in lost]
    return " ".join(signed)


_KEYS = {
    "with --healthy and --degenerate": "with the key M",
    "give a frozen run, or its accuracy": "give one with the key w",
    "as the frozen baseline": "with the key w",
    "with --frozen-baseline": "with the key w",
}
"""Command options → keys of the explorer."""


def with_keys(text: str) -> str:
    """A command's message with the explorer's keys instead of options.

    >>> with_keys("give a baseline with --frozen-baseline")
    'give a baseline with the key w'
    """
    for option, key in _KEYS.items():
        text = text.replace(option, key)
    return text


def labels(rows: Sequence[AuditRow]) -> list[str]:
    """A name per row, without the seed: ``dfa``, ``dfa λ=0.01``, ``bp (main/bp_s42)``.

    A name holds the axes that differ among the method's rows. Runs of one seed that would share a
    name get their place, then their key.
    """
    axes = _axes_of_methods(rows)
    names = []
    for row in rows:
        names.append((row.method, _axes_behind(row, axes[row.method])))
    extended = _extended(names, rows, (_places, _run_keys))
    return list(map("".join, extended))


def disambiguate(rows: Sequence[AuditRow]) -> Pieces:
    """A name per row in two parts, the first of which may be cut: ``("dfa", " s42 λ=0.1")``.

    A name holds the axes that differ among the method's rows. Names that would repeat get the run's
    place and a number.
    """
    axes = _axes_of_methods(rows)
    names = [("", "")] * len(rows)
    places_of: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        places_of[row.method].append(place)
    for method, places in places_of.items():
        own = [rows[place] for place in places]
        own_names = _disambiguate(own, axes[method])
        for place, name in zip(places, own_names, strict=True):
            names[place] = name
    return names


def _disambiguate(rows: Sequence[AuditRow], axes: Collection[str]) -> Pieces:
    """`disambiguate` for rows of one method.

    Args:
        rows: all of them, or those that share a name.
        axes: that differ among all runs of the method.
    """
    names = []
    for row in rows:
        rest = _axes_behind(row, axes)
        if row.seed is not None:
            rest = f" s{row.seed}{rest}"
        names.append((row.method, rest))
    return _extended(names, rows, (_source, _numbers))


def _axes_of_methods(rows: Iterable[AuditRow]) -> dict[str, list[str]]:
    return differing_axes((row.method, row) for row in rows)


def _axes_behind(row: AuditRow, axes: Iterable[str]) -> str:
    """The row's values on some axes, as the end of its name."""
    text = ""
    for name in axes:
        value = value_on_axis(row, name)
        if value is not None:
            text += f" {axes_text({name: value})}"
    return text


def place_label(row: AuditRow) -> str:
    """A run's origin: the name of its file, or the last two parts of its folder's path."""
    place = Path(run_place(row.source))
    if place.suffix:
        return place.name
    return "/".join(place.parts[-2:])


def among(rows: Iterable[AuditRow], row: AuditRow) -> str:
    """The name `disambiguate` gives one of the rows."""
    own = [other for other in rows if other.method == row.method]
    alike = [other for other in own if other.seed == row.seed]
    names = _disambiguate(alike, _axes_of_methods(own)[row.method])
    for other, name in zip(alike, names, strict=True):
        if other is row:
            return "".join(name)
    raise ValueError(f"no row {row.key}")


def with_seed(label: str, row: AuditRow) -> str:
    """A run as text, e.g. ``dfa λ=0.01 seed 42``."""
    if row.seed is None:
        return label
    return f"{label} seed {row.seed}"


_Words = Callable[[Sequence[AuditRow]], Sequence[str]]
"""Rows that share a name and a seed → texts that may distinguish them."""


def _extended(names: Pieces, rows: Sequence[AuditRow], ways: Iterable[_Words]) -> Pieces:
    """Names extended, one way after another, where rows of one seed would share them."""
    found = list(names)
    for words_of in ways:
        shared: dict[object, list[int]] = defaultdict(list)
        for place, row in enumerate(rows):
            shared[found[place], row.seed].append(place)
        for places in shared.values():
            if len(places) == 1:
                continue
            words = words_of([rows[place] for place in places])
            for place, word in zip(places, words, strict=True):
                method, rest = found[place]
                found[place] = (method, f"{rest} {word}".rstrip())
    return [(sanitize(method), sanitize(rest)) for method, rest in found]


def _source(rows: Sequence[AuditRow]) -> list[str]:
    """Each row's file, or its folder's heading in the matrix; its whole place if that distinguishes
    more rows."""
    homes = []
    sources = [row.source for row in rows]
    for row, home in zip(rows, homes_of(sources), strict=True):
        if Path(row.source).suffix:
            home = place_label(row)
        homes.append(f"({home})")
    texts = max(homes, _places(rows), key=_distinct)
    if _distinct(texts) > 1:
        return texts
    return [""] * len(rows)


def _distinct(texts: Iterable[str]) -> int:
    return len(set(texts))


def _numbers(rows: Sequence[AuditRow]) -> list[str]:
    numbers = [f"#{number}" for number in range(1, len(rows) + 1)]
    numbers[0] = ""
    return numbers


def _run_keys(rows: Sequence[AuditRow]) -> list[str]:
    return [row.key for row in rows]


def _places(rows: Sequence[AuditRow]) -> list[str]:
    places = []
    for row in rows:
        end = Path(run_place(row.source)).parts[-2:]
        places.append(f"({'/'.join(end)})")
    return places
