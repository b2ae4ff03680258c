"""Copies and exports of a screen: texts, runs, tables, command lines. No terminal code."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from fa_core.formats.rows import AuditRow
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.numbers import MISSING, brief, exact
from fa_core.report.thresholds import DiagnosticThresholds
from fa_core.reporting.blocks import Block, Grid, to_markdown
from fa_tui.views.comparison import ComparedLine
from fa_tui.views.epochs import traces_of as traces_of
from fa_tui.views.words import runs_words as runs_words

if TYPE_CHECKING:
    from fa_core.formats import Trace
    from fa_tui.widgets.chart import Chart


_NOTE = 40


class Piece(NamedTuple):
    """A text that can be copied.

    Attributes:
        key: its key.
        what: its name.
        note: details.
        text: returns it; called in a thread.
    """

    key: str
    what: str
    note: str
    text: Callable[[], str]


class Table(NamedTuple):
    """The table of a screen.

    Attributes:
        name: the command that prints it, e.g. ``sweep``.
        blocks: tables and remarks.
        line: the cursor's line in the first table, if any.
        record: returns the JSON record with every digit.
    """

    name: str
    blocks: Sequence[Block]
    line: int | None = None
    record: Callable[[], object] | None = None

    @property
    def grid(self) -> Grid:
        """The first table."""
        for block in self.blocks:
            if isinstance(block, Grid):
                return block
        return Grid(headings=("",), rows=())


class Shared(NamedTuple):
    """The content for copy and export.

    Attributes:
        pieces: the copies on offer.
        rows: the runs to export; None for a screen without runs.
        names: text for them, e.g. ``67 runs``.
        thresholds: judge them.
        traces: returns their traces.
        table: the table to export.
        charts: visible charts with titles.
    """

    pieces: Sequence[Piece]
    rows: Sequence[AuditRow] | None = None
    names: str = ""
    thresholds: DiagnosticThresholds = DiagnosticThresholds()
    traces: Callable[[], Sequence[Trace]] = tuple
    table: Table | None = None
    charts: Sequence[tuple[str, Chart]] = ()


def cell_piece(text: str) -> Iterator[Piece]:
    """The cell under the cursor, if any."""
    if text:
        yield Piece("c", "cell", shortened(text), partial(str, text))


def command_piece(line: str, key: str = "l", what: str = "command line to print it") -> Piece:
    """A command line, with its beginning in the note."""
    program, command, *_ = f"{line} ".split(" ")
    return Piece(key, what, shortened(line, f"{program} {command} "), partial(str, line))


def opening_piece(line: str) -> Piece:
    """The command line that reopens the current view."""
    return command_piece(line, "o", "command line to open it")


def run_pieces(
    rows: Sequence[AuditRow], names: str, thresholds: DiagnosticThresholds
) -> Iterator[Piece]:
    """Copies of runs as table, report and figure; empty without runs."""
    if not rows:
        return
    if len(rows) > 1:
        what = "rows"
    else:
        what = "row"
    note = f"{names}, as a Markdown table"
    yield Piece("r", what, note, partial(_run_table, rows, thresholds))
    yield Piece("m", "report in Markdown", names, partial(_report, rows, thresholds))
    yield Piece("f", "figure as SVG", names, partial(_figure, rows, thresholds))


def table_pieces(table: Table) -> Iterator[Piece]:
    """Copies of a screen's table: the cursor's line, the table, all digits."""
    grid = table.grid
    if table.line is not None and table.line < len(grid.rows):
        row = grid.rows[table.line]
        line = Grid(headings=grid.headings, rows=(row,), words=grid.words)
        note = f"{row[0]}, as a Markdown table"
        yield Piece("n", "line", note, partial(to_markdown, [line]))
    note = f"{table.name}, in Markdown"
    yield Piece("t", "table", note, partial(to_markdown, table.blocks))
    if table.record is not None:
        note = f"{table.name}, with every digit"
        yield Piece("j", "JSON", note, partial(table_json, table))


def table_csv(table: Table) -> str:
    """The first table as CSV of the shown cells."""
    from fa_core.reporting.records import csv_text

    return csv_text([table.grid.headings, *table.grid.rows])


def table_json(table: Table) -> str:
    """A screen's table as printed by its command with ``--format json``."""
    assert table.record is not None
    return json.dumps(table.record(), indent=1, ensure_ascii=False) + "\n"


def shortened(text: str, begins: str = "") -> str:
    """A text shortened in the middle to fit a note."""
    if len(text) <= _NOTE:
        return text
    return f"{begins}...{text[3 + len(begins) - _NOTE :]}"


def _run_table(rows: Sequence[AuditRow], thresholds: DiagnosticThresholds) -> str:
    from fa_tui.commands.verdict_table import markdown
    from fa_tui.option_groups import Criteria

    return "\n".join(markdown(rows, Criteria(thresholds))) + "\n"


def _report(rows: Sequence[AuditRow], thresholds: DiagnosticThresholds) -> str:
    from fa_core.formats.table import AuditTable
    from fa_core.reporting.form import reporting_form

    return to_markdown(reporting_form(AuditTable.from_rows(rows), thresholds))


def _figure(rows: Sequence[AuditRow], thresholds: DiagnosticThresholds) -> str:
    from fa_core.formats.table import AuditTable
    from fa_core.reporting.figures import methods_figure
    from fa_core.reporting.panels import rendered

    return rendered(methods_figure(AuditTable.from_rows(rows), thresholds)).decode()


def compared_grid(
    names: Sequence[str], lines: Sequence[ComparedLine], verdicts: Sequence[str]
) -> Grid:
    """A comparison as a table: a line per layer and number, a column per run, and the ratio of
    largest to smallest.

    Args:
        names: of the runs.
        lines: of the comparison.
        verdicts: of the runs.
    """
    rows = [_compared_cells(line, verdicts) for line in lines if line.kind != "heading"]
    return Grid(headings=("", *names, "max/min"), rows=tuple(rows))


def _compared_cells(line: ComparedLine, verdicts: Sequence[str]) -> tuple[str, ...]:
    if line.spread is None:
        return ("verdict", *verdicts, "")
    cells = [line.name]
    for place, value in enumerate(line.spread.values):
        if value is None:
            cells.append(MISSING)
        elif place in line.assumed:
            cells.append(f"{brief(value, 6)} (assumed)")
        else:
            cells.append(brief(value, 6))
    ratio = line.spread.ratio
    cells.append("" if ratio is None else brief(ratio, 4))
    return tuple(cells)


def command_line(
    paths: Sequence[Path],
    thresholds: DiagnosticThresholds,
    baseline: FrozenBaseline | None,
    command: str = "show",
    options: Sequence[str] = (),
    usual: DiagnosticThresholds | None = None,
) -> str:
    """A command line without default options, quoted for a shell.

    Args:
        paths: the opened paths.
        thresholds: of the sliders.
        baseline: assumed frozen-baseline accuracies.
        command: its name.
        options: further options.
        usual: the command's default thresholds, if not the protocol's.

    >>> command_line([Path("my runs")], DiagnosticThresholds(h_norm_explosion_ratio=12.0),
    ...     FrozenBaseline(0.349))
    "fa-tui show 'my runs' --h-norm-explosion-ratio 12 --frozen-baseline 0.349"
    """
    words = ["fa-tui", command, *map(_path, paths), *options]
    protocol = msgspec.structs.asdict(DiagnosticThresholds())
    taken = msgspec.structs.asdict(usual) if usual else protocol
    for name, value in msgspec.structs.asdict(thresholds).items():
        if not value == protocol[name] == taken[name]:
            words += [f"--{name.replace('_', '-')}", exact(value)]
    if baseline is not None:
        words += ["--frozen-baseline", baseline_text(baseline)]
    return shlex.join(words)


def baseline_text(baseline: FrozenBaseline | None) -> str:
    """A baseline as the value of `--frozen-baseline`, ``""`` for none.

    >>> baseline_text(FrozenBaseline(0.349, {"ep": 0.31}))
    '0.349,ep=0.31'
    """
    if baseline is None:
        return ""
    texts = []
    if baseline.default is not None:
        texts.append(repr(baseline.default))
    for method, acc in baseline.by_method.items():
        texts.append(f"{method}={acc!r}")
    return ",".join(texts)


def _path(path: Path) -> str:
    """A path that does not look like an option."""
    if str(path).startswith("-"):
        return f"./{path}"
    return str(path)
