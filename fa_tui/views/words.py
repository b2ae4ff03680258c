"""Names of runs, signs of numbers, the line about what is open, the count of walk-backs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fa_core.formats.rows import AuditRow, axes_of_methods, values_on_axes
from fa_core.report.diagnostics import (
    ASSUMED,
    BOUND,
    LETTERS,
    PROXY,
    Diagnostic,
    cell_text,
    letters_of,
)
from fa_core.report.judged_run import JudgedRun
from fa_core.report.names import is_file_name, run_place, unique_names
from fa_core.report.numbers import count_text, exact, listed, with_axes
from fa_core.report.quantities import Quantity
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.sanitize import sanitize
from fa_tui.session import Flip, Session
from fa_tui.views.looks import Seeded
from fa_tui.views.text import width_of

if TYPE_CHECKING:
    from fa_tui.views.filters import Filter

Pieces = list[tuple[str, str]]

MARKS = {BOUND: "≥", PROXY: "≈", ASSUMED: "?"}
"""Signs before a number that is not exact, by its kind."""

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
    pieces = [name, *scope_pieces(session), *title_facts(session)]
    pieces.append((f"  {shows}" if shows else "", "accent"))
    taken = sum(width_of(text) for text, _ in pieces)
    if opened == SAMPLES and taken + width_of(_OPENS_YOURS) <= width:
        pieces.append((_OPENS_YOURS, "dim"))
    return pieces


def scope_pieces(session: Session) -> Pieces:
    """How many runs are looked at, and the filter that chose them."""
    total = runs_words(len(session.runs.shown))
    if session.filter is None:
        return [(f" {total}", "dim")]
    name = f" {filter_name(session.filter)},"
    return [(name, "dim"), (f" {len(session.in_scope)} of {total}", "dim")]


def filter_name(shown: Filter) -> str:
    """A filter as it is named."""
    if shown.text == FIRST_VIEW:
        return "published table and main"
    return f"filter {shown.text}"


def title_facts(session: Session) -> Iterator[tuple[str, str]]:
    """What a title says of the runs beside their number."""
    if session.marked:
        yield f"  {len(session.marked)} marked", "accent"
    if session.wrong:
        yield f"  {count_text(len(session.wrong), 'problem')} (P)", "warn"
    if session.seen.uneven:
        yield "  mixed settings", "warn"
    if session.gone:
        yield f"  {len(session.gone)} gone", "warn"
    if session.baseline:
        yield "  baseline assumed", "warn"


def runs_words(count: int) -> str:
    """``1 run``, ``3 runs``."""
    return count_text(count, "run")


def walk_back_words(session: Session) -> str:
    """Counts over the runs in scope: ``9 of 15 need walk-back; 1 undecided, 2 not measured, 3
    controls``, which are counted apart."""
    counts = session.counts()
    controls = session.seen.controls - counts.trained_controls
    text = f"{counts.walked} of {counts.measured} need walk-back"
    if counts.doubtful:
        # with a comma it would be left out beside flips
        text += f"; {counts.doubtful} undecided"
    unmeasured = len(session.in_scope) - controls - counts.measured - counts.training
    if unmeasured > 0:
        text += f", {unmeasured} not measured"
    if counts.training:
        text += f", {counts.training} training"
    if controls:
        text += f", {count_text(controls, 'control')}"
    return text


def limit_words(one: Diagnostic, thresholds: DiagnosticThresholds) -> str:
    """The rule of a diagnostic: ``a > 50``."""
    return f"{one.letter} {one.sign} {exact(one.limit(thresholds))}"


def flip_text(session: Session, limit: int = 3) -> str:
    """The flips as text, the changed verdicts first: ``+a → ✗ ep s123, −d (still ✗) dfa s42``;
    more than `limit` of a kind by method: ``dfa +a on 12``."""
    turned, still = parted(session)
    kinds = (
        _listed(session, turned, " → {}", limit),
        _listed(session, still, " (still {})", limit),
    )
    return ", ".join(filter(None, kinds))


def parted(session: Session) -> tuple[list[Flip], list[Flip]]:
    """The flips that changed a run's verdict, and the others; a control makes no claim."""
    turned, still = list[Flip](), list[Flip]()
    for flip in session.flips:
        claim = session.rows[flip.row].no_claim
        kept = _sign(flip.before, claim) == _sign(flip.after, claim)
        (still if kept else turned).append(flip)
    return turned, still


@cache
def _sign(masks: tuple[int, int], no_claim: str) -> str:
    """A verdict's sign, cached as `_turned`."""
    return cell_text(letters_of(masks[0]), LETTERS, letters_of(masks[1]), no_claim)[0]


def _listed(session: Session, flips: Sequence[Flip], form: str, limit: int) -> str:
    """Flips of a kind with their signs, or the most common ones per method."""
    if len(flips) <= limit:
        names = []
        for flip in flips:
            sign = _sign(flip.after, session.rows[flip.row].no_claim)
            names.append(_named(session, flip, form.format(sign)))
        return ", ".join(names)
    changes = [f"{session.rows[flip.row].method} {_turned(*flip[1:])}" for flip in flips]
    rest = len(flips)
    parts = []
    for change, count in Counter(changes).most_common(limit):
        parts.append(f"{change} on {count}")
        rest -= count
    if rest:
        parts.append(f"{rest} more")
    stays = " (verdicts stay)" if "still" in form else ""
    return ", ".join(parts) + stays


def _named(session: Session, flip: Flip, verdict: str) -> str:
    """A flip with its verdict, then the run, whose name may be cut."""
    return f"{_turned(*flip[1:])}{verdict} {run_name(session, flip.row)}"


def flip_words(session: Session, flip: Flip) -> str:
    """One run that flipped: ``+a ep s123, needs walk-back: residual stream exploded``."""
    return f"{_named(session, flip, '')}, {session.judged(flip.row).words}"


_COMPARED_AT_MOST = 100
"""More runs that share a name are called by their keys: comparing all would take too long."""


def run_name(session: Session, index: int) -> str:
    """A run's name: what parts it from the runs in scope of its method and seed."""
    row = session.rows[index]
    alike = session.alike(index)
    if len(alike) > _COMPARED_AT_MOST:
        return sanitize(f"{session.label(index)} {row.key}")
    names = disambiguate([session.rows[other] for other in alike])
    return names[alike.index(index)]


@cache
def _turned(before: tuple[int, int], after: tuple[int, int]) -> str:
    """Letters that fire now, are undecided now, and do neither any more: ``+a → ~c −b``; cached, as
    many flips share few masks."""
    (fired, was_open), (fires, is_open) = before, after
    changes = {
        "+": fires & ~fired,
        "~": is_open & ~was_open,
        "−": (fired | was_open) & ~(fires | is_open),
    }
    return " ".join(
        f"{sign}{letter}" for sign, mask in changes.items() for letter in letters_of(mask)
    )


def labels(rows: Sequence[AuditRow]) -> list[str]:
    """A name per row, without the seed: ``dfa``, ``dfa λ=0.01``, ``bp (main/bp_s42)``."""
    found = []
    for row, name in zip(rows, disambiguate(rows), strict=True):
        method = sanitize(row.method)
        found.append(method + name.removeprefix(method).removeprefix(f" s{row.seed}"))
    return found


def disambiguate(rows: Sequence[AuditRow]) -> list[str]:
    """A name per row: ``dfa s42 λ=0.1``.

    Of its axes it has those that differ among the rows. Names that would repeat get the run's
    place, or a number.
    """
    axes = axes_of_methods(rows)
    names = []
    for row in rows:
        seed = "" if row.seed is None else f" s{row.seed}"
        names.append(named_with(f"{row.method}{seed}", row, axes[row.method]))
    places = [run_place(row.source) for row in rows]
    files = [place if is_file_name(place) else str(Path(place).parent) for place in places]
    return list(map(sanitize, unique_names(names, files, places, form="{} ({})")))


def with_seed(label: str, row: Seeded) -> str:
    """A run as text, e.g. ``dfa λ=0.01 seed 42``."""
    if row.seed is None:
        return label
    return f"{label} seed {row.seed}"


def names_of(rows: Sequence[AuditRow]) -> list[str]:
    """The label of every row with its seed."""
    return list(map(with_seed, labels(rows), rows))


_NAMED = 6
"""Methods named in a sentence."""


def left_out_words(
    kept: Iterable[str], every: Iterable[str], groups: Mapping[str, str], all_runs: str = ""
) -> Iterator[str]:
    """Warnings about runs that an analysis would need and a filter leaves out.

    Args:
        kept: the method of each analysed run.
        every: the method of each run.
        groups: method → its group, if the analysis compares the groups.
        all_runs: how to widen the filter.

    >>> list(left_out_words([], ["bp"], {"bp": "healthy"}))
    ['The filter leaves out every healthy run.']
    >>> list(left_out_words(["dfa"], ["dfa"] * 3, {}))
    ['Only some runs of a method pass the filter: dfa 1 of 3.']
    """
    partly = []
    in_group: Counter[str] = Counter()
    analysed = Counter(kept)
    for name, count in Counter(every).items():
        if 0 < analysed[name] < count:
            partly.append(f"{name} {analysed[name]} of {count}")
        if name in groups:
            in_group[groups[name]] += analysed[name]
    for group in ("healthy", "degenerate"):
        if group in in_group and not in_group[group]:
            yield f"The filter leaves out every {group} run{all_runs}."
    if partly:
        yield f"Only some runs of a method pass the filter: {listed(partly, _NAMED)}."


def named_with(name: str, row: AuditRow, chosen: Collection[str]) -> str:
    """A name with the row's values on some axes."""
    return with_axes(name, values_on_axes(row, chosen))


def mark_before(quantity: Quantity, run: JudgedRun) -> str:
    """The sign before a report's number; ``""`` where it is exact."""
    if quantity.of(run) is None:
        return ""
    letter = "d" if quantity.name == "frozen" else quantity.letter
    return MARKS.get(run.kinds.get(letter, ""), "")
