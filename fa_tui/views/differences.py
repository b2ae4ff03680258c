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

NOTHING = "–"
"""The cell of an audit that lacks the run."""


def difference_grid(runs: Sequence[RunDifference]) -> Grid:
    """A line per run: its name, its cell in both audits, and the numbers that changed."""
    names = disambiguate([run.row for run in runs])
    rows = []
    for run, name in zip(runs, names, strict=True):
        changes = run.numbers if run.state == CHANGED else ()
        numbers = ", ".join(map(change_text, changes))
        rows.append(("".join(name), _cell(run.before), _cell(run.after), numbers))
    marked = frozenset(place for place, run in enumerate(runs) if run.verdict_changed)
    return Grid(("run", "A", "B", "numbers, A → B"), tuple(rows), words=4, marked=marked)


def _cell(row: AuditRow | None) -> str:
    return NOTHING if row is None else row.report.cell()


def change_text(change: NumberChange) -> str:
    """``(a) growth 2043 → 31.2``, with more digits where four are equal."""
    quantity = change.quantity
    was, now = quantity.text(change.before), quantity.text(change.after)
    if was == now:
        was, now = brief(change.before, 9), brief(change.after, 9)
    return f"{quantity.heading} {was} → {now}"


def difference_summary(runs: Sequence[RunDifference]) -> str:
    """``15 runs in both: 3 changed (verdict of 1), 12 the same (2 but for rounding); 1 only in
    A``."""
    states = Counter(run.state for run in runs)
    both = len(runs) - states[CAME] - states[WENT]
    verdicts = sum(run.verdict_changed for run in runs)
    same = f"{both - states[CHANGED]} the same"
    if states[ROUNDING]:
        same += f" ({states[ROUNDING]} but for rounding)"
    changed = f"{states[CHANGED]} changed"
    if verdicts:
        changed += f" ({count_text(verdicts, 'verdict')})"
    text = f"{runs_words(both)} in both: {changed}, {same}"
    for state, where in ((WENT, "A"), (CAME, "B")):
        if states[state]:
            text += f"; {states[state]} only in {where}"
    return text
