"""The verdict table on stdout, in any of its forms."""

from __future__ import annotations

import csv
import enum
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fa_core.report import ASSUMED, DiagnosticThresholds
from fa_core.rows import AuditRow
from fa_tui.shell import options
from fa_tui.shell.inputs import TRACES_HINT
from fa_tui.shell.judged import Judged
from fa_tui.shell.remarks import evidence
from fa_tui.shell.streams import speaks_unicode
from fa_tui.shell.verdict_rows import COLUMNS, flat, markdown, record
from fa_tui.views.look import Look, arranged


class Format(str, enum.Enum):
    """How to print rows."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


FormatOption = Annotated[
    Format,
    typer.Option("--format", help="How to print the rows; in JSON NaN and Infinity stand as Python writes them."),
]


def print_table(
    paths: Sequence[Path] | None,
    thresholds: DiagnosticThresholds,
    baseline: options.FrozenBaseline,
    form: str,
    h0: float | None = None,
    blocks: int | None = None,
    look: Look = Look(),  # noqa: B008 (immutable)
) -> int:
    """Print the rows that the paths hold; returns the exit code (3 if a named path could not be opened)."""
    found = options.open_paths(paths)
    rows = found.rows
    if found.traces and not rows:
        print(f"fa-tui: only traces over epochs, no audit; {TRACES_HINT}", file=sys.stderr)
    baseline.check(row.method for row in rows)
    if h0 is not None or blocks is not None or look != Look():
        rows = arranged(look, options.bounded(baseline.apply(rows), h0, blocks), thresholds)
    print_rows(Judged(rows, thresholds, baseline), form)
    return 3 if options.named_path_failed(paths, found.problems) else 0


def print_rows(rows: Sequence[AuditRow], form: str) -> None:
    """Print rows in one of the forms of `Format`, as they come: of many, one is in memory at a time."""
    if form == "json":
        _print_json(rows)
    elif form == "csv":
        kinds = {kind for row in rows for kind in evidence(row).values()}
        more = [*(["evidence"] if kinds else []), *(["assumed_baseline_acc"] if ASSUMED in kinds else [])]
        writer = csv.DictWriter(sys.stdout, [*COLUMNS, *more], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(flat(record(row)) for row in rows)
    elif form == "markdown":
        for row_line in markdown(rows):
            print(row_line)
    else:
        # Rich takes its time to import
        from fa_tui.shell.verdict_lines import print_lines

        print_lines(rows)


def _print_json(rows: Sequence[AuditRow]) -> None:
    """The rows as one list, as `json.dump` writes it with an indent of 1."""
    ascii_only = not speaks_unicode()
    between = "["
    for row in rows:
        text = json.dumps(record(row), indent=1, ensure_ascii=ascii_only)
        print(between, text.replace("\n", "\n "), sep="\n ", end="")
        between = ","
    print("[]" if between == "[" else "\n]")
