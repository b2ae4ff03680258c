"""`fa-tui show`, the verdict table; `fa-tui check`, an exit code for scripts and CI."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

import typer

from fa_core.diagnostics import NOT_MEASURED, counts_text, worded
from fa_core.errors import printable
from fa_core.rows import AuditRow
from fa_tui import options
from fa_tui.commands import inputs
from fa_tui.commands.verdict_table import Doubts, named, print_paths
from fa_tui.views.filters import Look
from fa_tui.views.words import runs_words, with_seed

UNDECIDED = 4
"""Exit code of `check` where no run needs walk-back and some run is undecided."""


def show_command(
    paths: options.PathsArgument = None,
    format: options.RowFormOption = "table",
    sort: options.SortOption = "",
    *,
    chosen: options.Chosen,
) -> None:
    """Print the verdict of every run under the given thresholds.

    In JSON and CSV `coverage` names what was measured, and `evidence` what of it is not exact: (d) by an assumed frozen
    baseline is d=assumed and never in `coverage`, but in `flags` where it fires. Where a file has 95 % intervals they
    are `intervals`, and `undecided` names the diagnostics whose interval holds the threshold.

    Examples:

        fa-tui show audit_table.json

        fa-tui show runs/ --h-norm-explosion-ratio 12 --format markdown

        fa-tui show audit_table.json --filter 'flag:b growth>100' --sort -growth

        fa-tui show audit_table.json --frozen-baseline 0.349 --format json

        fa-tui show dfa_pen_lam0.01_s42.json --h0 8.7 --blocks 4 --frozen-baseline 0.349
    """
    raise typer.Exit(print_paths(paths, chosen, format, Look(sort=sort)))


def check_command(paths: options.NamedPaths, *, chosen: options.Chosen) -> None:
    """Judge for a script: exit with 0 if every run is trustworthy.

    1 some is not, 2 wrong usage, 3 unreadable input, 4 undecided. A run without a measurement is not trustworthy.
    What is not is named on stdout, one line each. Undecided is a diagnostic whose threshold lies within the 95 %
    interval of its number: a line each names the runs and what would decide. The last line counts runs and the
    letters that fire. The code is 4 where no run needs walk-back; a walk-back by undecided diagnostics alone is
    still 1, and says so. With --protocol v2 a run without Γ per layer is 1 too.

    Examples:

        fa-tui check audit_table.json && echo "every claim holds"

        fa-tui check runs/ --frozen-baseline 0.349

        fa-tui check runs/ --filter 'method:dfa lam>0'
    """
    found = inputs.open_paths(paths)
    if not found.rows and not found.problems:
        raise inputs.nothing_to_analyse(paths, found.traces)
    criteria, rows = chosen.criteria, inputs.selected(found, chosen)
    lines, doubts, code, kinds, fired = list[str](), Doubts(), 0, Counter[str](), Counter[str]()
    for row, label in named(rows, criteria):
        report = row.report
        if report.flags or not report.coverage or report.lacks_gamma:
            lines += _walk_back(row, label)
            kinds["fails" if report.flags else "without Γ per layer" if report.coverage else NOT_MEASURED] += 1
            fired.update(report.flags)
            code = 1
        elif report.undecided:
            code = code or UNDECIDED
        doubts.add(report, with_seed(label, row))
    reading, protocol = criteria.thresholds.reading, criteria.thresholds.protocol
    runs, names = len(rows), ", ".join(f"{reading.checks[letter]} {fired[letter]}" for letter in sorted(fired))
    summary = f"{runs_words(runs)}: {counts_text(runs - kinds.total(), kinds['fails'], protocol)}"
    summary += f" ({names})" if names else ""
    summary += "".join(f", {count} {kind}" for kind, count in kinds.items() if kind != "fails")
    with contextlib.suppress(BrokenPipeError):
        for line in (*lines, *doubts.lines(), summary):
            print(worded(line, protocol))
    raise typer.Exit(3 if found.problems or not rows else code)


def _walk_back(row: AuditRow, label: str) -> Iterator[str]:
    """What is said of a run that is not trustworthy."""
    report = row.report
    measured = f"{report.measured or 'nothing'} measured"
    if report.measured != report.coverage:
        measured += f", d by a baseline of {report.baseline_words()}"
    doubt = report.doubt and f"; {report.doubt}{', nothing decided fires' if report.flags <= report.undecided else ''}"
    yield f"{with_seed(label, row)}: {report.verdict}{doubt} [{measured}] ({printable(row.source)})"
    for what in report.nonfinite.values():
        yield f"  {what}"
