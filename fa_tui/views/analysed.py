"""Texts and tables of the analysis screen. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fa_core.analysis.method_groups import published_groups
from fa_core.analysis.seeds import SeedGroup
from fa_core.analysis.threshold_sweep import Sensitivity, VerdictCurve
from fa_core.analysis.utility import Strategy, Utility
from fa_core.facts.controls import CONTROLS
from fa_core.judgement.verdict import CONTROL
from fa_core.numbers import short
from fa_core.option_values import listed
from fa_core.reporting.blocks import Block, Bullets, Grid, Paragraph
from fa_core.reporting.sections.analyses import interval_words, plateau_words
from fa_tui.session import Session
from fa_tui.settings import GROUPS
from fa_tui.views.words import runs_words

if TYPE_CHECKING:
    from fa_core.table import AuditTable


_NAMED = 6
"""Methods named in a sentence."""


class Analysed:
    """The runs in scope, as the analyses take them.

    Args:
        session: all runs.

    Attributes:
        rows: the scope that was read.
        table: of these runs.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.read()

    def judge(self) -> None:
        """Take up another scope, if there is one."""
        if self.rows != self._session.scope:
            self.read()

    def read(self) -> None:
        """Choose among the session's runs again: some came, went or changed."""
        session = self._session
        self.rows = session.scope
        self.table: AuditTable = session.table
        if self.rows is not None:
            self.table = session.table.select(self.rows)
        self._published = published_groups(session.table) | published_groups(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def counts(self) -> dict[str, tuple[int, int]]:
        """Method → how many of its runs are analysed, and how many there are."""
        # from the tables: rows of a big one are made when they are looked at
        analysed = Counter(self.table.method.tolist())
        every = Counter(self._session.table.method.tolist())
        return {method: (analysed[method], count) for method, count in every.items()}

    def measured(self) -> dict[str, int]:
        """Method → how many of its runs are measured; controls and methods with none left out."""
        counts = Counter(self.table.method[self.table.coverage != 0].tolist())
        return {method: count for method, count in counts.items() if method not in CONTROLS}

    def groups(self) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        """The methods chosen as healthy and as degenerate, of which runs are analysed; None for the
        defaults."""
        if self._session.groups is None:
            return None, None
        return self._of_group("healthy"), self._of_group("degenerate")

    def group_of(self, method: str, *, chosen: bool = True) -> str:
        """The group of a method: as the user chose, else as published for just these runs, else
        neither."""
        published = self._published.get(method, "neither")
        groups = self._session.groups
        if chosen and groups:
            return groups.get(method) or published
        return published

    def _of_group(self, group: str) -> tuple[str, ...]:
        found = []
        for name in dict.fromkeys(self.table.method.tolist()):
            if name not in CONTROLS and self.group_of(name) == group:
                found.append(name)
        return tuple(found)

    def left_out_words(self, *, groups: bool) -> Iterator[str]:
        """What an analysis would need, or seem to be of, and the filter leaves out.

        Args:
            groups: whether it sets healthy methods against degenerate ones.
        """
        if self.rows is None:
            return
        chosen = {}
        if groups:
            chosen = self._session.groups or self._published
        for words in left_out_words(self.counts(), chosen, " (f: all runs)"):
            yield f"- {words}"


def left_out_words(
    counts: Mapping[str, tuple[int, int]], groups: Mapping[str, str], all_runs: str = ""
) -> Iterator[str]:
    """What an analysis would need, or seem to be of, and a filter leaves out.

    Args:
        counts: method → how many of its runs are analysed, and how many there are.
        groups: method → its group, if the analysis sets one group against the other.
        all_runs: how to have them all.

    >>> list(left_out_words({"bp": (0, 3)}, {"bp": "healthy"}))
    ['The filter leaves out every healthy run.']
    >>> list(left_out_words({"dfa": (1, 3)}, {}))
    ['Only some runs of a method pass the filter: dfa 1 of 3.']
    """
    for group in GROUPS[:2]:
        runs = [analysed for name, (analysed, _) in counts.items() if groups.get(name) == group]
        if runs and not any(runs):
            yield f"The filter leaves out every {group} run{all_runs}."
    partly = []
    for name, (analysed, every) in counts.items():
        if 0 < analysed < every:
            partly.append(f"{name} {analysed} of {every}")
    if partly:
        yield f"Only some runs of a method pass the filter: {listed(partly, _NAMED)}."


_LISTED = 60
"""Runs or seeds of a list: not ten thousand."""
_LABELS = {
    "headline_acc": "accuracy",
    "margin_pp": "margin pp",
    "h_L": "‖h_L‖",
    "g_L": "‖g_L‖",
    "stability": "drift",
}


def parts(blocks: Iterable[Block]) -> tuple[Grid, list[str]]:
    """The first table among some blocks, and the text around it."""
    grid, said = Grid(headings=("",), rows=()), []
    for block in blocks:
        if isinstance(block, Grid):
            if not grid.rows:
                grid = block
        elif isinstance(block, Bullets):
            said += [f"- {item}" for item in block.items]
        elif isinstance(block, Paragraph):
            said.append(block.text)
    return grid, said


def reordered(grid: Grid, first: Sequence[str], *, lines_up: bool = True) -> Grid:
    """The table with some columns, if it has them, moved to the front; all set left where they line
    up so."""
    front = [grid.headings.index(name) for name in first if name in grid.headings]
    order = list(dict.fromkeys([*front, *range(len(grid.headings))]))
    words = len(order)
    if not lines_up:
        words = 1 + max(map(order.index, range(grid.words)))
    lines = []
    for line in (grid.headings, *grid.rows):
        lines.append(tuple(map(line.__getitem__, order)))
    headings, *rows = lines
    return replace(grid, headings=headings, rows=tuple(rows), words=words)


def with_methods(grid: Grid, analysis: Utility, measured: Mapping[str, int], room: int) -> Grid:
    """The table of strategies with a column per method: how many of its runs each walks back; as it
    is if too wide.

    Args:
        grid: a line per strategy.
        analysis: the strategies.
        measured: method → its measured runs.
        room: cells there are, two of them before each further column.
    """
    if len(measured) > room:
        return grid
    headings = (*grid.headings, *measured)
    rows = []
    for row, strategy in zip(grid.rows, analysis.strategies, strict=True):
        counts = strategy.by_method
        more = [f"{counts.get(method, 0)}/{runs}" for method, runs in measured.items()]
        rows.append((*row, *more))
    width = 0
    for column in zip(headings, *rows, strict=True):
        width += max(map(len, column)) + 2
    if width <= room:
        return replace(grid, headings=headings, rows=tuple(rows))
    return grid


def curve_words(
    curve: VerdictCurve, one: Sensitivity, *, controls: bool = False
) -> list[tuple[str, str]]:
    """What the chart's curves and its cursor are, and that they count controls, where there are
    some."""
    fired, walked = curve.at(one.threshold)
    place = f"at {short(one.threshold)}"
    if one.plateau:
        unchanged = interval_words(*curve.unchanged(one.threshold))
        place += f", no letter changes in {plateau_words(one)}, no verdict in {unchanged}"
    counted = " with controls" if controls else ""
    return [
        (f" {curve.letter}", "accent"),
        (f" fires on {fired}   ", ""),
        ("w", "accent"),
        (f" walks back {walked}{counted}   ", ""),
        (place, "dim"),
    ]


def strategy_words(strategy: Strategy, full: Strategy, analysis: Utility) -> Iterator[str]:
    """Which runs a reporting habit withdraws, and which it misses."""
    names = strategy.walked_back
    yield f"# {strategy.name}: {strategy.looks_at}"
    yield f"  walks back {len(names)}: {listed(names, _LISTED) or 'none'}"
    if strategy.name != full.name:
        seen = set(names)
        missed = [name for name in full.walked_back if name not in seen]
        yield f"  misses: {listed(missed, _LISTED) or 'none'}"
    yield f"  has all it needs on {strategy.judged} of {analysis.runs} runs"
    counts = ", ".join(f"{method} {count}" for method, count in strategy.by_method.items() if count)
    if counts:
        yield f"  by method: {counts}"


def group_words(group: SeedGroup) -> Iterator[str]:
    """One method over its seeds: its verdicts, and every number's range."""
    seeds = ["no seed" if seed is None else seed for seed in group.seeds]
    yield f"# {group.method}: seeds {listed(seeds, _LISTED)}"
    verdicts = group.verdicts
    if group.verdict == CONTROL:
        verdicts = {CONTROL: len(group.seeds)}
    for text, count in verdicts.items():
        yield f"  {count} × {text}"
    if group.disagree:
        letters = [f"({letter})" for letter in group.disagree]
        yield f"  seeds disagree on {', '.join(letters)}"
    for name, stat in group.stats.items():
        if stat.min is None or stat.max is None:
            continue
        ends = short(stat.min)
        if short(stat.max) != ends:
            ends += f" to {short(stat.max)}"
        label = _LABELS.get(name, name)
        yield f"  {label:<12}{ends} over {runs_words(stat.n)}"
    for note in group.notes:
        yield f"  {note}"
