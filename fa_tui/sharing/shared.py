"""What a screen has to give away: texts to copy, runs and a table to export. No terminal code."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from fa_core.report import DiagnosticThresholds
from fa_core.reporting.blocks import Block, Grid
from fa_core.rows import AuditRow

if TYPE_CHECKING:
    from fa_core.formats import Trace

_NOTE = 40


class Piece(NamedTuple):
    """A text that can be copied.

    Attributes:
        key: asks for it.
        what: it is.
        note: more about it.
        text: makes it; called in a thread.
    """

    key: str
    what: str
    note: str
    text: Callable[[], str]


class Table(NamedTuple):
    """The table of a screen.

    Attributes:
        name: of the command that prints it, e.g. ``sweep``.
        blocks: tables and remarks.
        line: which line of the first table the cursor is on, if it is on one.
        record: the same with every digit, as JSON holds it; makes it when asked.
    """

    name: str
    blocks: Sequence[Block]
    line: int | None = None
    record: Callable[[], Any] | None = None

    @property
    def grid(self) -> Grid:
        """The first table of it."""
        return next((block for block in self.blocks if isinstance(block, Grid)), Grid(headings=("",), rows=()))


class Shared(NamedTuple):
    """What copy and export act on.

    Attributes:
        pieces: what can be copied.
        rows: the runs that are exported; None where the screen is about none.
        names: what to call them, e.g. ``67 runs``.
        thresholds: what judges them.
        traces: of these runs; reads them when asked.
        table: what else can be exported.
    """

    pieces: Sequence[Piece]
    rows: Sequence[AuditRow] | None = None
    names: str = ""
    thresholds: DiagnosticThresholds = DiagnosticThresholds()
    traces: Callable[[], Sequence[Trace]] = tuple
    table: Table | None = None


@runtime_checkable
class Sharing(Protocol):
    """A screen that something can be copied or exported from."""

    def shared(self) -> Shared:
        """What is on it now."""


def runs_words(count: int) -> str:
    """``1 run``, ``3 runs``."""
    return f"{count} {'run' if count == 1 else 'runs'}"


def cell_piece(text: str) -> Iterator[Piece]:
    """The cell under the cursor, if there is one."""
    if text:
        yield Piece("c", "cell", shortened(text), lambda: text)


def command_piece(line: str) -> Piece:
    """The command line that prints what is on screen."""
    return Piece("l", "command line to print it", _command_note(line), lambda: line)


def opening_piece(line: str) -> Piece:
    """The command line that opens the explorer on what is on screen."""
    return Piece("o", "command line to open it", _command_note(line), lambda: line)


def run_pieces(rows: Sequence[AuditRow], names: str, thresholds: DiagnosticThresholds) -> Iterator[Piece]:
    """Some runs as a table, a report and a figure; nothing of none."""
    if not rows:
        return
    what = "rows" if len(rows) > 1 else "row"
    yield Piece("r", what, f"{names}, as a Markdown table", lambda: _run_table(rows, thresholds))
    yield Piece("m", "report in Markdown", names, lambda: _report(rows, thresholds))
    yield Piece("f", "figure as SVG", names, lambda: _figure(rows, thresholds))


def table_pieces(table: Table) -> Iterator[Piece]:
    """A screen's table: its line under the cursor, all of it, all digits of it."""
    grid = table.grid
    if table.line is not None and table.line < len(grid.rows):
        line = Grid(headings=grid.headings, rows=(grid.rows[table.line],), words=grid.words)
        yield Piece("n", "line", f"{grid.rows[table.line][0]}, as a Markdown table", lambda: _markdown([line]))
    yield Piece("t", "table", f"{table.name}, in Markdown", lambda: _markdown(table.blocks))
    if table.record is not None:
        yield Piece("j", "JSON", f"{table.name}, with every digit", lambda: table_json(table))


def table_csv(table: Table) -> str:
    """The first of a screen's tables as CSV, cells as they are shown."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.grid.headings, *table.grid.rows])
    return text.getvalue()


def table_json(table: Table) -> str:
    """A screen's table as the command of its name prints it with ``--format json``."""
    assert table.record is not None
    return json.dumps(table.record(), indent=1, ensure_ascii=False) + "\n"


def shortened(text: str, begins: str = "") -> str:
    """The end of a text behind its beginning, in the room that a note has."""
    return text if len(text) <= _NOTE else f"{begins}...{text[3 + len(begins) - _NOTE :]}"


def _command_note(line: str) -> str:
    """A command line of which the command is seen whatever it is given."""
    return shortened(line, " ".join(line.split(" ", 2)[:2]) + " ")


def traces_of(rows: Sequence[AuditRow], traces: Sequence[Trace]) -> list[Trace]:
    """The traces of some runs: those beside their audits, or of their name where they lie elsewhere.

    Args:
        rows: the runs.
        traces: of these runs and others.
    """
    names = {(row.method, row.seed, row.key) for row in rows}
    return [trace for trace in traces if (trace.method, trace.seed, trace.key) in names]


def _markdown(blocks: Sequence[Block]) -> str:
    from fa_core.reporting import to_markdown

    return to_markdown(blocks)


def _run_table(rows: Sequence[AuditRow], thresholds: DiagnosticThresholds) -> str:
    from fa_tui.shell.verdict_rows import judged, markdown

    return "\n".join(markdown(judged(rows, thresholds))) + "\n"


def _report(rows: Sequence[AuditRow], thresholds: DiagnosticThresholds) -> str:
    from fa_core.reporting import reporting_form, to_markdown
    from fa_core.table import AuditTable

    return to_markdown(reporting_form(AuditTable.from_rows(rows), thresholds))


def _figure(rows: Sequence[AuditRow], thresholds: DiagnosticThresholds) -> str:
    from fa_core.reporting import audit_figure
    from fa_core.table import AuditTable

    return audit_figure(AuditTable.from_rows(rows), thresholds)
