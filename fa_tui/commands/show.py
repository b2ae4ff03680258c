"""`fa-tui show`: the verdict table."""

from __future__ import annotations

import csv
import enum
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from fa_core.errors import printable
from fa_core.gain import floor_in_words
from fa_core.report import LETTERS, NOT_MEASURED, TRUSTWORTHY, DiagnosticThresholds
from fa_core.rows import AuditRow
from fa_tui.shell import options
from fa_tui.shell.judging import judging
from fa_tui.shell.streams import speaks_unicode
from fa_tui.views.cells import LEGEND, cell_text
from fa_tui.views.names import labels, with_seed


class Format(str, enum.Enum):
    """How to print rows."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


FormatOption = Annotated[Format, typer.Option("--format", help="How to print the rows.")]
FilterOption = Annotated[
    str, typer.Option("--filter", help="Only some runs, as / in the explorer: 'method:dfa flag:b growth>100'.")
]
SortOption = Annotated[
    str, typer.Option("--sort", help="By a column of the explorer's long view: growth; -growth, largest first.")
]


class View(NamedTuple):
    """Which rows to print, and in which order; as the explorer's long view has them."""

    filter: str = ""
    sort: str = ""

    def of(self, rows: list[AuditRow], thresholds: DiagnosticThresholds) -> list[AuditRow]:
        """The rows that pass, sorted.

        Raises:
            UsageError: a filter that means nothing, a column that is not there.
        """
        if not self.filter and not self.sort:
            return rows
        from fa_tui.session import Session
        from fa_tui.views.axes import own_axes
        from fa_tui.views.columns import ordered
        from fa_tui.views.filters import Filter

        session = Session(rows, thresholds=thresholds)
        kept = Filter(self.filter, own_axes(rows)).rows(session)
        return [rows[row] for row in ordered(session, range(len(rows)) if kept is None else kept, self.sort)]


COLUMNS = (
    "source",
    "method",
    "seed",
    "headline_acc",
    "h_L",
    "g_L",
    "max_per_block_growth",
    "cross_batch_stability",
    "frozen_baseline_acc",
    "margin_pp",
    "flags",
    "coverage",
    "verdict",
    "recorded_verdict",
    "key",
    "axes",
)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("show")(judging(show_command))


def show_command(
    paths: options.PathsArgument = None,
    format: FormatOption = Format.table,
    h0: options.H0Option = None,
    blocks: options.BlocksOption = None,
    filter: FilterOption = "",
    sort: SortOption = "",
    *,
    thresholds: DiagnosticThresholds,
    baseline: options.FrozenBaseline,
) -> None:
    """Print the verdict of every run under the given thresholds.

    Examples:

        fa-tui show audit_table.json

        fa-tui show runs/ --h-norm-explosion-ratio 12 --format markdown

        fa-tui show audit_table.json --filter 'flag:b growth>100' --sort -growth

        fa-tui show audit_table.json --frozen-baseline 0.349 --format json

        fa-tui show dfa_pen_lam0.01_s42.json --h0 8.7 --blocks 4 --frozen-baseline 0.349
    """
    raise typer.Exit(print_table(paths, thresholds, baseline, format.value, h0, blocks, View(filter, sort)))


def print_table(
    paths: Sequence[Path] | None,
    thresholds: DiagnosticThresholds,
    baseline: options.FrozenBaseline,
    form: str,
    h0: float | None = None,
    blocks: int | None = None,
    view: View = View(),  # noqa: B008 (immutable)
) -> int:
    """Print the rows that the paths hold; returns the exit code (3 if a named path could not be opened)."""
    found = options.open_paths(paths)
    rows = options.bounded(baseline.apply(found.rows), h0, blocks)
    print_rows(judged(view.of(rows, thresholds), thresholds), form)
    return 3 if options.named_path_failed(paths, found.problems) else 0


def print_rows(rows: Sequence[AuditRow], form: str) -> None:
    """Print rows in one of the forms of `Format`."""
    if form == "json":
        json.dump([record(row) for row in rows], sys.stdout, indent=1, ensure_ascii=not speaks_unicode())
        print()
    elif form == "csv":
        records = [flat(record(row)) for row in rows]
        more = ["evidence"] if any("evidence" in one for one in records) else []
        writer = csv.DictWriter(sys.stdout, [*COLUMNS, *more], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    elif form == "markdown":
        print("\n".join(markdown(rows)))
    else:
        _print_rich(rows)


def judged(rows: Sequence[AuditRow], thresholds: DiagnosticThresholds) -> list[AuditRow]:
    """The rows with their reports judged by the thresholds."""
    from msgspec.structs import replace

    return [replace(row, report=row.report.with_thresholds(thresholds)) for row in rows]


def record(row: AuditRow) -> dict[str, Any]:
    """One row as the JSON and CSV forms print it; what was not measured is None.

    A row whose numbers are not all exact has ``evidence``: diagnostic letter → ``bound`` or ``proxy``.
    """
    report = row.report
    values = (
        row.source,
        row.method,
        row.seed,
        report.headline_acc,
        report.h_L,
        report.g_L,
        report.max_per_block_growth,
        report.cross_batch_stability,
        report.frozen_baseline_acc,
        report.margin_pp,
        "".join(sorted(report.flags)),
        report.coverage,
        report.verdict,
        report.recorded_verdict,
        row.key,
        row.axes,
    )
    return {**dict(zip(COLUMNS, values, strict=True)), **({"evidence": evidence(row)} if evidence(row) else {})}


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """A record for CSV: nothing for None, evidence as ``a=bound b=proxy``."""
    if "evidence" in values:
        values = {**values, "evidence": " ".join(f"{letter}={kind}" for letter, kind in values["evidence"].items())}
    values = {**values, "axes": " ".join(f"{axis}={value}" for axis, value in sorted(values["axes"].items()))}
    return {name: "" if value is None else value for name, value in values.items()}


def evidence(row: AuditRow) -> dict[str, str]:
    """Letters of what was measured, but not as the protocol defines it → ``bound`` or ``proxy``."""
    return {letter: kind for letter, kind in sorted(row.report.evidence.items()) if letter in row.report.coverage}


MARKS = {"bound": "≥", "proxy": "~"}
EVIDENCE_LEGEND = "≥: only a lower bound, which can prove that (a) fires and never that it passes   ~: by proxy"


def numbers(row: AuditRow) -> list[str]:
    """The numbers of a row, rounded for reading; a bound or proxy is marked as in `EVIDENCE_LEGEND`."""
    report = row.report
    marks = {letter: MARKS.get(kind, "~") for letter, kind in evidence(row).items()}
    patterns = (
        (report.headline_acc, "{:.3f}", ""),
        (report.h_L, "{:.3g}", ""),
        (report.max_per_block_growth, "{:.4g}", "a"),
        (report.g_L, "{:.3g}", "b"),
        (report.cross_batch_stability, "{:+.3f}", "c"),
        (report.margin_pp, "{:+.2f}", "d"),
    )
    return [
        "–" if value is None else marks.get(letter, "") + pattern.format(value) for value, pattern, letter in patterns
    ]


HEADINGS = ("method", "seed", "abcd", "acc", "(a) growth", "(b) ‖g_L‖", "(c) drift", "(d) pp", "‖h_L‖", "verdict")
WORDS = ("method", "abcd", "verdict")
NAMED_AT_MOST = 12
"""Runs in one line below the table."""
LEFT_OUT_FIRST = ("verdict", "‖h_L‖")
"""Columns that a narrow terminal does without."""


def line(row: AuditRow, label: str) -> tuple[str, ...]:
    """A row's cells under `HEADINGS`, for what `labels` calls it."""
    report = row.report
    acc, h_last, growth, g_last, drift, margin = numbers(row)
    seed = "–" if row.seed is None else str(row.seed)
    cell = cell_text(report.flags, report.coverage)
    return (label, seed, cell, acc, growth, g_last, drift, margin, h_last, report.verdict)


def markdown(rows: Sequence[AuditRow]) -> Iterator[str]:
    """The rows as a Markdown table."""
    yield "| " + " | ".join(HEADINGS) + " |"
    yield "|" + "|".join("---" if heading in WORDS else "---:" for heading in HEADINGS) + "|"
    for row, label in zip(rows, labels(rows), strict=True):
        yield "| " + " | ".join(line(row, label)) + " |"


def _print_rich(rows: Sequence[AuditRow]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # a pipe has no width: nothing is cut there
    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False, markup=False)
    if rows:
        lines = [line(row, label) for row, label in zip(rows, labels(rows), strict=True)]
        widths = {
            heading: 2 + max(map(cell_len, column)) for heading, *column in zip(HEADINGS, HEADINGS, *lines, strict=True)
        }
        shown = list(HEADINGS)
        for heading in LEFT_OUT_FIRST:
            if sum(widths[name] for name in shown) > console.width:
                shown.remove(heading)
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for heading in shown:
            table.add_column(heading, justify="left" if heading in WORDS else "right", no_wrap=True)
        for row, cells in zip(rows, lines, strict=True):
            style = "dim" if not row.report.coverage else "bold" if row.report.flags else ""
            table.add_row(*(cells[HEADINGS.index(heading)] for heading in shown), style=style)
        # the frame of the table is a blank line above it and blanks behind every row
        for parts in console.render_lines(table, pad=False)[1:]:
            text = Text.assemble(*((part.text, part.style or "") for part in parts))
            text.rstrip()
            console.print(text, soft_wrap=True)
    for note in summary(rows):
        console.print(note, soft_wrap=True)


def summary(rows: Sequence[AuditRow]) -> Iterator[str]:
    """Counts of verdicts, why (b) fired, and every recorded verdict that differs from the recomputed one."""
    if not rows:
        yield "0 runs"
        return
    verdicts = [row.report.verdict for row in rows]
    trusted, unmeasured = verdicts.count(TRUSTWORTHY), verdicts.count(NOT_MEASURED)
    walked = len(rows) - trusted - unmeasured
    parts = [f"{trusted} trustworthy", f"{walked} {'needs' if walked == 1 else 'need'} walk-back"]
    if unmeasured:
        parts.append(f"{unmeasured} not measured (`fa-tui audit` measures them)")
    yield f"{len(rows)} {'run' if len(rows) == 1 else 'runs'}: " + ", ".join(parts)
    yield LEGEND
    if any(evidence(row) for row in rows):
        yield EVIDENCE_LEGEND
    yield from causes(rows)
    yield from reasons(rows)
    for row, label in zip(rows, labels(rows), strict=True):
        name = with_seed(label, row)
        for what in row.report.nonfinite.values():
            yield f"{name}: {what}"
        if row.report.coverage and row.report.recorded_differs:
            recorded = printable(f"“{row.report.recorded_verdict}” in {row.source}")
            yield f"{name}: recorded as {recorded}"


def reasons(rows: Sequence[AuditRow]) -> Iterator[str]:
    """Why a diagnostic was not measured, where the report says why; one line for all runs of which it is the same."""
    found = Counter(
        (letter, why)
        for row in rows
        for letter, why in row.report.unmeasured.items()
        if row.report.coverage and letter in LETTERS and letter not in row.report.coverage
    )
    for (letter, why), count in sorted(found.items()):
        yield f"({letter}) not measured: {printable(why)} ({count} {'run' if count == 1 else 'runs'})"


def causes(rows: Sequence[AuditRow]) -> Iterator[str]:
    """Why (b) fired, a line per run; one line for all whose source does not give what it takes to tell."""
    untold: dict[str, list[str]] = {}
    for row, label in zip(rows, labels(rows), strict=True):
        name = with_seed(label, row)
        words = floor_in_words(row.report)
        if words is None:
            continue
        if row.report.batch_size is None or row.report.error_norm is None:
            untold.setdefault(words, []).append(name)
        else:
            yield f"{name}: (b) fires: {words}"
    for words, names in untold.items():
        more = f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
        yield f"{', '.join(names[:NAMED_AT_MOST])}{more}: (b) fires: {words}"
