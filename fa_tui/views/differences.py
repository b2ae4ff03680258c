"""Two audits as text: a line per run that changed, came or went. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fa_core.analysis.difference import (
    CAME,
    CHANGED,
    ROUNDING,
    WENT,
    NumberChange,
    RunDifference,
)
from fa_core.formats.rows import AuditRow
from fa_core.report.numbers import brief, count_text
from fa_core.reporting.blocks import Grid
from fa_tui.views.words import disambiguate, runs_words

NOTHING = "none"
"""The cell of an audit that lacks the run."""


def verdict_of(row: AuditRow | None) -> str:
    """The cell of a run in one of the audits."""
    return NOTHING if row is None else row.report.cell()


def difference_grid(runs: Sequence[RunDifference]) -> Grid:
    """A line per run: its name, its cell in both audits, and what changed.

    What is said of every changed run stands in `difference_summary` alone.
    """
    rows = []
    changed = [run for run in runs if run.state == CHANGED]
    of_all = set(changed[0].notes) if len(changed) > 1 else set()
    of_all.intersection_update(*(run.notes for run in changed))
    for run, name in zip(runs, disambiguate([run.row for run in runs]), strict=True):
        words = [text for text in changes(run) if text not in of_all]
        rows.append((name, verdict_of(run.before), verdict_of(run.after), ", ".join(words)))
    marked = frozenset(place for place, run in enumerate(runs) if run.verdict_changed)
    return Grid(("run", "A", "B", "what changed, A → B"), tuple(rows), words=4, marked=marked)


def changes(run: RunDifference) -> list[str]:
    """What changed of a run: why its verdict did, then its numbers."""
    return run.notes + [change_text(one) for one in run.numbers if run.state == CHANGED]


def change_text(change: NumberChange) -> str:
    """``(a) growth 2043 → 31.2``, with as many digits as show a difference."""
    quantity = change.quantity
    was, now = quantity.text(change.before), quantity.text(change.after)
    for digits in range(3, 18):
        if was != now:
            break
        was, now = brief(change.before, digits), brief(change.after, digits)
    return f"{quantity.heading} {was} → {now}"


def difference_summary(runs: Sequence[RunDifference]) -> list[str]:
    """``15 runs in both: 3 changed (1 verdict)``, ``1 where B lacks d``, ``12 the same (2 but for
    rounding)``, ``1 only in A``."""
    states = Counter(run.state for run in runs)
    both = len(runs) - states[CAME] - states[WENT]
    verdicts = sum(run.verdict_changed for run in runs)
    same = f"{both - states[CHANGED]} the same"
    if states[ROUNDING]:
        same += f" ({states[ROUNDING]} but for rounding)"
    changed = f"{states[CHANGED]} changed"
    if verdicts:
        changed += f" ({count_text(verdicts, 'verdict')})"
    noted = Counter(note for run in runs for note in run.notes)
    notes = [f"{count} {note}" for note, count in noted.items()]
    one = {"A": states[WENT], "B": states[CAME]}
    only = [f"{count} only in {side}" for side, count in one.items() if count]
    return [f"{runs_words(both)} in both: {changed}", *notes, same, *only]
