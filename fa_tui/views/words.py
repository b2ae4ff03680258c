"""Names of runs, the line about what is open, and the count of walk-backs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from fa_core.formats.rows import AuditRow, axes_of_methods
from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS, Diagnostic, letters_of
from fa_core.report.names import is_file_name, run_place, unique_names
from fa_core.report.numbers import count_text, short
from fa_core.report.thresholds import DiagnosticThresholds
from fa_core.report.verdict import cell_text
from fa_core.sanitize import sanitize
from fa_tui.session import Flip, RunFilter, Session
from fa_tui.views.grid import some_axes
from fa_tui.views.text import width_of

Pieces = list[tuple[str, str]]

FIRST_VIEW = "source:audit_table,sample_runs/main -is:control"
"""A filter: of the sample runs the published table and its methods trained again, which have
checkpoints and traces."""
SAMPLES = "sample runs"
"""What is open where no path is given."""

_OPENS_YOURS = " · o opens yours"


def title_pieces(session: Session, shows: str, width: int, opened: str) -> Pieces:
    """The line about what is open.

    Args:
        session: the runs.
        shows: how the page shows them; ``""``: as usual.
        width: cells.
        opened: the opened paths.
    """
    name = (f" {opened}:" if opened else "", "strong")
    pieces = [name, *scope_pieces(session), *_title_facts(session)]
    pieces.append((f"  {shows}" if shows else "", "accent"))
    taken = sum(width_of(text) for text, _ in pieces)
    if opened == SAMPLES and taken + width_of(_OPENS_YOURS) <= width:
        pieces.append((_OPENS_YOURS, "dim"))
    return pieces


def scope_pieces(session: Session) -> Pieces:
    """How many runs are looked at, and the filter that chose them."""
    total = runs_words(len(session))
    if session.filter is None:
        return [(f" {total}", "dim")]
    name = f" {filter_name(session.filter)},"
    return [(name, "dim"), (f" {len(session.in_scope)} of {total}", "dim")]


def filter_name(shown: RunFilter) -> str:
    """A filter as it is named."""
    if shown.text == FIRST_VIEW:
        return "published table and main"
    return f"filter {shown.text}"


def _title_facts(session: Session) -> Iterator[tuple[str, str]]:
    if session.marked:
        yield f"  {len(session.marked)} marked", "accent"
    if session.problems:
        yield f"  {count_text(len(session.problems), 'problem')} (P)", "warn"
    if session.seen.uneven:
        yield "  mixed settings", "warn"
    if session.gone:
        yield f"  {len(session.gone)} gone", "warn"
    if session.baseline is not None:
        yield "  baseline assumed", "warn"


def runs_words(count: int) -> str:
    """``1 run``, ``3 runs``."""
    return count_text(count, "run")


def walk_back_words(session: Session) -> str:
    """Counts over the runs in scope: ``9 of 15 need walk-back, 1 undecided, 2 not measured, 3
    controls``, which are counted apart."""
    counts, counted = session.counts(), len(session.seen.counted)
    text = f"{counts.walked} of {counts.measured} need walk-back"
    if counts.doubtful:
        text += f", {counts.doubtful} undecided"
    unmeasured = counted - counts.measured - counts.training
    if unmeasured > 0:
        text += f", {unmeasured} not measured"
    if counts.training:
        text += f", {counts.training} training"
    controls = len(session.in_scope) - counted
    if controls:
        text += f", {count_text(controls, 'control')}"
    return text


def flipped_words(session: Session) -> str:
    """The flips of the last step as a message, with the thresholds that moved; ``""`` if no letters
    changed."""
    text = flip_text(session, session.flips)
    if not text or session.since is None:
        return ""
    if session.since.thresholds == session.thresholds:
        return f"flipped: {text}"
    return f"flipped at {moved_words(session.thresholds, session.since.thresholds)}: {text}"


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

    Runs whose judgement changed come first. The others are marked by what they still are; a
    control makes no claim.
    """
    if len(flips) > limit:
        return _counted_flips(session, flips, limit)
    turned = []
    still = []
    for flip in flips:
        text = f"{run_name(session, flip.row)} {change_words(flip)}"
        control = session.rows[flip.row].is_control
        before, after = (
            cell_text(letters_of(flags), LETTERS, letters_of(undecided), control=control)[0]
            for flags, undecided in (flip.before, flip.after)
        )
        if before == after:
            still.append(f"{text} (still {after})")
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
    return f"{name} {change_words(flip)}, {session.judged(flip.row).words}"


_COMPARED_AT_MOST = 100
"""More runs that share a name are called by their keys: comparing all would take too long."""


def run_name(session: Session, index: int) -> str:
    """A run's name among those in scope, with its source if other runs share the name."""
    row = session.rows[index]
    alike = session.alike(index)
    if len(alike) > _COMPARED_AT_MOST:
        return sanitize(f"{session.label(index)} {row.key}")
    names = disambiguate([session.rows[other] for other in alike], session.runs.differing_axes)
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
    """Letters that fire now, are undecided now, and do neither any more: ``+a ~c −b``."""
    return _turned(flip.before, flip.after)


@cache
def _turned(before: tuple[int, int], after: tuple[int, int]) -> str:
    """Cached by masks: many flips share few pairs."""
    (fired, was_open), (fires, is_open) = before, after
    changes = {
        "+": fires & ~fired,
        "~": is_open & ~was_open,
        "−": (fired | was_open) & ~(fires | is_open),
    }
    return " ".join(
        f"{sign}{letter}" for sign, mask in changes.items() for letter in letters_of(mask)
    )


_KEYS = {
    "give a frozen run, or its accuracy": "w gives one",
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
    """A name per row, without the seed: ``dfa``, ``dfa λ=0.01``, ``bp (main/bp_s42)``."""
    found = []
    for row, (method, rest) in zip(rows, disambiguate(rows), strict=True):
        if row.seed is not None:
            rest = rest.removeprefix(f" s{row.seed}")
        found.append(method + rest)
    return found


def disambiguate(
    rows: Sequence[AuditRow], axes: Mapping[str, Collection[str]] | None = None
) -> Pieces:
    """A name per row in two parts, the first of which may be cut: ``("dfa", " s42 λ=0.1")``.

    Names that would repeat get the run's place, or a number.

    Args:
        rows: all of them, or those that share a name.
        axes: method → axes in its runs' names; by default those that differ among the rows.
    """
    if axes is None:
        axes = axes_of_methods(rows)
    names = []
    for row in rows:
        seed = "" if row.seed is None else f" s{row.seed}"
        names.append(f"{row.method}{seed} {some_axes(row, axes[row.method])}".rstrip())
    places = [run_place(row.source) for row in rows]
    files = [place if is_file_name(place) else str(Path(place).parent) for place in places]
    names = unique_names(names, files, places, form="{} ({})")
    return [
        (sanitize(row.method), sanitize(name.removeprefix(row.method)))
        for row, name in zip(rows, names, strict=True)
    ]


def place_label(row: AuditRow) -> str:
    """A run's origin: the name of its file, or the last two parts of its folder's path."""
    place = Path(run_place(row.source))
    if is_file_name(place.name):
        return place.name
    return "/".join(place.parts[-2:])


def with_seed(label: str, row: AuditRow) -> str:
    """A run as text, e.g. ``dfa λ=0.01 seed 42``."""
    if row.seed is None:
        return label
    return f"{label} seed {row.seed}"
