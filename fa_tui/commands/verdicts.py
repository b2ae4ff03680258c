"""`fa-tui show`, the verdict table; `fa-tui check`, an exit code for scripts and CI."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from itertools import chain

import typer

from fa_core.diagnostics import TRUSTWORTHY
from fa_core.errors import printable
from fa_core.rows import AuditRow
from fa_tui import options
from fa_tui.commands import inputs
from fa_tui.commands.verdict_table import named, print_paths
from fa_tui.views.filters import Look
from fa_tui.views.words import with_seed


def show_command(
    paths: options.PathsArgument = None,
    format: options.RowFormOption = "table",
    h0: options.H0Option = None,
    blocks: options.BlocksOption = None,
    filter: options.FilterOption = "",
    sort: options.SortOption = "",
    *,
    criteria: options.Criteria,
) -> None:
    """Print the verdict of every run under the given thresholds.

    In JSON and CSV `coverage` names what was measured, and `evidence` what of it is not exact: (d) by an assumed frozen
    baseline is d=assumed and never in `coverage`, but in `flags` where it fires.

    Examples:

        fa-tui show audit_table.json

        fa-tui show runs/ --h-norm-explosion-ratio 12 --format markdown

        fa-tui show audit_table.json --filter 'flag:b growth>100' --sort -growth

        fa-tui show audit_table.json --frozen-baseline 0.349 --format json

        fa-tui show dfa_pen_lam0.01_s42.json --h0 8.7 --blocks 4 --frozen-baseline 0.349
    """
    raise typer.Exit(print_paths(paths, criteria, format, h0, blocks, Look(filter=filter, sort=sort)))


def check_command(
    paths: options.PathsArgument = None,
    *,
    criteria: options.Criteria,
) -> None:
    """Exit with 0 if every run is trustworthy, 1 if some is not, 2 on wrong usage, 3 on unreadable input.

    A run nobody measured is not trustworthy. What is not is named on stdout, one line each.

    Examples:

        fa-tui check audit_table.json && echo "every claim holds"

        fa-tui check runs/ --frozen-baseline 0.349
    """
    found = inputs.open_paths(paths)
    if not found.rows and not found.problems:
        raise inputs.nothing_to_analyse(paths, found.traces)
    criteria.baseline.check(row.method for row in found.rows)
    rows = named(found.rows, criteria)
    walked_back = ((row, label) for row, label in rows if row.report.verdict != TRUSTWORTHY)
    first = next(walked_back, None)
    if first is not None:
        with contextlib.suppress(BrokenPipeError):
            _print(chain([first], walked_back))
    raise typer.Exit(3 if found.problems or not found.rows else 0 if first is None else 1)


def _print(rows: Iterable[tuple[AuditRow, str]]) -> None:
    for row, label in rows:
        report = row.report
        measured = f"{report.measured or 'nothing'} measured"
        if report.measured != report.coverage:
            measured += f", d by a baseline of {report.baseline_words()}"
        print(f"{with_seed(label, row)}: {report.verdict} [{measured}] ({printable(row.source)})")
        for what in report.nonfinite.values():
            print(f"  {what}")
