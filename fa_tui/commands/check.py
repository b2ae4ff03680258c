"""`fa-tui check`: an exit code for scripts and CI."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import typer

from fa_core.errors import printable
from fa_core.report import TRUSTWORTHY, DiagnosticThresholds
from fa_core.rows import AuditRow
from fa_tui.commands.show import judged
from fa_tui.shell import options
from fa_tui.shell.judging import judging
from fa_tui.views.names import labels, with_seed


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("check")(judging(check_command))


def check_command(
    paths: options.PathsArgument = None,
    *,
    thresholds: DiagnosticThresholds,
    baseline: options.FrozenBaseline,
) -> None:
    """Exit with 0 if every run is trustworthy, 1 if some is not, 2 on wrong usage, 3 on unreadable input.

    A run nobody measured is not trustworthy. What is not is named on stdout, one line each.

    Examples:

        fa-tui check audit_table.json && echo "every claim holds"

        fa-tui check runs/ --frozen-baseline 0.349
    """
    found = options.open_paths(paths)
    rows = judged(baseline.apply(found.rows), thresholds)
    walked_back = [
        (row, label) for row, label in zip(rows, labels(rows), strict=True) if row.report.verdict != TRUSTWORTHY
    ]
    with contextlib.suppress(BrokenPipeError):
        _tell(walked_back)
    raise typer.Exit(3 if found.problems or not rows else 1 if walked_back else 0)


def _tell(rows: Iterable[tuple[AuditRow, str]]) -> None:
    for row, label in rows:
        report = row.report
        measured = report.coverage or "nothing"
        print(f"{with_seed(label, row)}: {report.verdict} [{measured} measured] ({printable(row.source)})")
        for what in report.nonfinite.values():
            print(f"  {what}")
