"""Texts and tables of the analysis screen. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fa_core.analysis.method_groups import published_groups
from fa_core.analysis.seeds import AVERAGED, SeedGroup
from fa_core.analysis.threshold_sweep import Sensitivity, VerdictCurve
from fa_core.analysis.utility import Strategy, Utility
from fa_core.option_values import listed
from fa_core.report.controls import CONTROLS
from fa_core.report.gamma import CREDIT
from fa_core.report.numbers import short
from fa_core.report.verdict import CONTROL
from fa_core.reporting.blocks import Block, Bullets, Grid, Paragraph
from fa_core.reporting.sections.analyses import interval_words, plateau_words
from fa_tui.session import Session
from fa_tui.settings import GROUPS
from fa_tui.views.words import runs_words

if TYPE_CHECKING:
    from fa_core.formats.table import AuditTable


_NAMED = 6
"""Methods named in a sentence."""


class Analysed:
    """The runs in scope, as input of the analyses.

    Args:
        session: all runs.

    Attributes:
        rows: the scope that was read.
        table: its runs.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.read()

    def judge(self) -> None:
        """Read the scope again if it changed."""
        if self.rows != self._session.scope:
            self.read()

    def read(self) -> None:
        """Read the session's runs again, as some came, went or changed."""
        session = self._session
        self.rows = session.scope
        self.table: AuditTable = session.table
        if self.rows is not None:
            self.table = session.table.select(self.rows)
        published = published_groups(session.table)
        self._published = published | published_groups(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def counts(self) -> dict[str, tuple[int, int]]:
        """Method → number of its analysed runs, and of all."""
        # from the tables: a large table makes its rows on demand
        analysed = Counter(self.table.method.tolist())
        every = Counter(self._session.table.method.tolist())
        return {method: (analysed[method], count) for method, count in every.items()}

    def measured(self) -> dict[str, int]:
        """Method → number of its measured runs, without controls and unmeasured methods."""
        measured = self.table.coverage != 0
        counts = Counter(self.table.method[measured].tolist())
        return {method: count for method, count in counts.items() if method not in CONTROLS}

    def groups(self) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        """The analysed methods chosen as healthy and as degenerate; None for the defaults."""
        if self._session.groups is None:
            return None, None
        return self._of_group("healthy"), self._of_group("degenerate")

    def group_of(self, method: str, *, chosen: bool = True) -> str:
        """The group of a method: the user's choice, else the published one for these runs, else
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
        """Warnings about runs that an analysis would need and the filter leaves out.

        Args:
            groups: whether the analysis compares healthy with degenerate methods.
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
    """Warnings about runs that an analysis would need and a filter leaves out.

    Args:
        counts: method → number of its analysed runs, and of all.
        groups: method → its group, if the analysis compares the groups.
        all_runs: how to widen the filter.

    >>> list(left_out_words({"bp": (0, 3)}, {"bp": "healthy"}))
    ['The filter leaves out every healthy run.']
    >>> list(left_out_words({"dfa": (1, 3)}, {}))
    ['Only some runs of a method pass the filter: dfa 1 of 3.']
    """
    partly = []
    in_group: Counter[str] = Counter()
    for name, (analysed, every) in counts.items():
        if 0 < analysed < every:
            partly.append(f"{name} {analysed} of {every}")
        if name in groups:
            in_group[groups[name]] += analysed
    for group in GROUPS[:2]:
        if group in in_group and not in_group[group]:
            yield f"The filter leaves out every {group} run{all_runs}."
    if partly:
        yield f"Only some runs of a method pass the filter: {listed(partly, _NAMED)}."


_LISTED = 60
"""Runs or seeds named in a list."""
_LABELS = {**CREDIT, **{number.stat: number.title for number in AVERAGED}}


def parts(blocks: Iterable[Block]) -> tuple[Grid, list[str]]:
    """The first table among some blocks, and the text around it."""
    grid = Grid(headings=("",), rows=())
    texts = []
    for block in blocks:
        if isinstance(block, Grid):
            if not grid.rows:
                grid = block
        elif isinstance(block, Bullets):
            texts += [f"- {item}" for item in block.items]
        elif isinstance(block, Paragraph):
            texts.append(block.text)
    return grid, texts


def reordered(grid: Grid, first: Sequence[str], *, lines_up: bool = True) -> Grid:
    """The table with some columns, if it has them, moved to the front.

    Args:
        grid: the table.
        first: headings of the columns to move.
        lines_up: whether all columns line up set left.
    """
    front = [name for name in first if name in grid.headings]
    headings = tuple(dict.fromkeys([*front, *grid.headings]))
    order = list(map(grid.headings.index, headings))
    words = len(order)
    if not lines_up:
        words = 1 + max(map(order.index, range(grid.words)))
    rows = []
    for row in grid.rows:
        rows.append(tuple(row[place] for place in order))
    return replace(grid, headings=headings, rows=tuple(rows), words=words)


def with_methods(grid: Grid, analysis: Utility, measured: Mapping[str, int], room: int) -> Grid:
    """The table of strategies with a column of walked-back runs per method, if it fits.

    Args:
        grid: a line per strategy.
        analysis: the strategies.
        measured: method → number of its measured runs.
        room: cells, two of them before each column.
    """
    if len(measured) > room:
        return grid
    headings = (*grid.headings, *measured)
    rows = []
    for row, strategy in zip(grid.rows, analysis.strategies, strict=True):
        cells = list(row)
        for method, runs in measured.items():
            cells.append(f"{strategy.by_method.get(method, 0)}/{runs}")
        rows.append(tuple(cells))
    width = 0
    for column in zip(headings, *rows, strict=True):
        width += max(map(len, column)) + 2
    if width <= room:
        return replace(grid, headings=headings, rows=tuple(rows))
    return grid


def curve_words(curve: VerdictCurve, one: Sensitivity) -> list[tuple[str, str]]:
    """Legend of the chart's curves at the threshold."""
    fired, walked = curve.at(one.threshold)
    place = f"at {short(one.threshold)}"
    if one.plateau:
        unchanged = interval_words(*curve.unchanged(one.threshold))
        place += f", no letter changes in {plateau_words(one)}, no verdict in {unchanged}"
    return [
        (f" {curve.letter}", "accent"),
        (f" fires on {fired}   ", ""),
        ("w", "accent"),
        (f" walks back {walked}   ", ""),
        (place, "dim"),
    ]


def strategy_words(strategy: Strategy, full: Strategy, analysis: Utility) -> Iterator[str]:
    """The runs that a reporting habit withdraws, and those it misses."""
    names = strategy.walked_back
    walked_back = listed(names, _LISTED) or "none"
    yield f"# {strategy.name}: {strategy.looks_at}"
    yield f"  walks back {len(names)}: {walked_back}"
    if strategy.name != full.name:
        seen = set(names)
        missed = [name for name in full.walked_back if name not in seen]
        text = listed(missed, _LISTED) or "none"
        yield f"  misses: {text}"
    yield f"  has all it needs on {strategy.judged} of {analysis.runs} runs"
    counts = []
    for method, count in strategy.by_method.items():
        if count:
            counts.append(f"{method} {count}")
    if counts:
        yield f"  by method: {', '.join(counts)}"


def group_words(group: SeedGroup) -> Iterator[str]:
    """Verdicts and ranges of one method over its seeds."""
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
        label = _LABELS[name]
        yield f"  {label:<12}{ends} over {runs_words(stat.n)}"
    for note in group.notes:
        yield f"  {note}"
