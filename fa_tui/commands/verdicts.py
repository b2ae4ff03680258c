"""`fa-tui show`, the verdict table; `fa-tui check`, an exit code for scripts and CI."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from fa_core.judgement.diagnostics import diagnostic_letters
from fa_core.judgement.verdict import CONTROL, NOT_MEASURED, UNDECIDED
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.sanitize import sanitize
from fa_core.second_reading import PASS, second_reading
from fa_core.text.notes import GIVE_ONE, why_inexact
from fa_core.text.verdict import known_text, recorded_text, verdict_words
from fa_tui import options
from fa_tui.commands import inputs
from fa_tui.commands.verdict_remarks import Doubts, Standings
from fa_tui.commands.verdict_table import named, print_paths
from fa_tui.option_groups import ChosenOptions, Criteria
from fa_tui.views.filters import ViewState
from fa_tui.views.words import runs_words, with_seed

WALKED_BACK, NOT_DECIDED = 1, 4
"""Exit codes of `check`: some run needs walk-back; none does, but some is undecided or
incomplete."""

_Require = Annotated[
    str,
    typer.Option(
        metavar="LETTERS",
        help="Diagnostics that every run must have measured, exactly: abd.",
        show_default=False,
    ),
]


def show_command(
    paths: options.PathsArgument = None,
    format: options.RowFormOption = "table",
    sort: options.SortOption = "",
    protocol: options.ProtocolOption = "v1",
    *,
    selection: ChosenOptions,
) -> None:
    """Print the verdict of every run under the given thresholds.

    In JSON and CSV `coverage` names what was measured, and `evidence` what of it is not exact: (d)
    by an assumed frozen baseline is d=assumed and never in `coverage`, but in `flags` where it
    fires. Where a file has 95 % intervals they are `intervals`. `undecided` names the diagnostics
    whose interval holds the threshold, or whose lower bound does not fire, or (a) where the stream
    is 0. A control (frozen, shallow, random_init, random_targets) has `control`: its verdict is no
    claim.

    Examples:

        fa-tui show audit_table.json

        fa-tui show runs/ --h-norm-explosion-ratio 12 --format markdown

        fa-tui show audit_table.json --filter 'flag:b growth>100' --sort -growth

        fa-tui show audit_table.json --frozen-baseline 0.349 --format json

        fa-tui show dfa_pen_lam0.01_s42.json --h0 8.7 --blocks 4 --frozen-baseline 0.349
    """
    verdict = _second_reading if protocol == "v2" else AuditRow.words
    raise typer.Exit(print_paths(paths, selection.chosen(), format, ViewState(sort=sort), verdict))


def _second_reading(row: AuditRow) -> str:
    """The successor's verdict for the table."""
    return CONTROL if row.is_control else second_reading(row.report)


def check_command(
    paths: options.NamedPaths,
    require: _Require = "",
    protocol: options.ProtocolOption = "v1",
    *,
    selection: ChosenOptions,
) -> None:
    """Judge for a script: exit with 0 if every run is trustworthy.

    1 some run needs walk-back, 2 wrong usage, 3 unreadable input, 4 undecided: none needs
    walk-back, but one is undecided, was not measured, or lacks what --require names. A bound or a
    proxy is not exact, nor is (d) by an assumed baseline: with --require they count as not
    measured. Controls (frozen, shallow, random_init, random_targets) claim nothing and are not
    judged.

    A line on stdout names each run that is not trustworthy, and what was measured of it. Undecided
    is a diagnostic whose threshold lies within the 95 % interval of its number, so that other
    samples (not other training seeds) might say otherwise, of which only a lower bound is known, or
    (a) of a stream that is 0: a line each names the runs. The last line counts runs, says on which
    diagnostics they are trustworthy, and counts the letters that fire. A walk-back by undecided
    diagnostics alone is still 1, and says so. With --protocol v2 the successor's verdict decides:
    1 if a run's is FAIL, 4 if one is undecided or lacks Γ per layer, which it requires.

    Examples:

        fa-tui check audit_table.json && echo "every claim holds"

        fa-tui check audit_table.json --require abd

        fa-tui check runs/ --frozen-baseline 0.349

        fa-tui check runs/ --filter 'method:dfa lam>0'
    """
    required = diagnostic_letters(require, "--require")
    found = inputs.open_paths(paths)
    if not found.rows and not found.problems:
        raise inputs.nothing_to_analyse(paths, found.traces)
    chosen = selection.chosen()
    criteria, rows = chosen.criteria, inputs.selected(found, chosen)
    if protocol == "v2":
        raise typer.Exit(3 if found.problems or not rows else _check_second(rows, criteria))
    doubts, standings, fired, code = Doubts(), Standings(), Counter[str](), 0
    lines: list[str] = []
    for as_read, (row, label) in zip(rows, named(rows, criteria), strict=True):
        standings.add(row)
        if row.is_control and row.report.coverage:
            continue
        name = with_seed(label, row)
        lines += _judged(row, name, required, as_read)
        doubts.add(row.report, name)
        fired.update(row.report.flags)
        if row.report.flags:
            code = WALKED_BACK
        elif row.standing() in (UNDECIDED, NOT_MEASURED) or _lacks(row.report, required):
            code = code or NOT_DECIDED
    counted = ", ".join(f"({letter}) {fired[letter]}" for letter in sorted(fired))
    summary = standings.text() + (f"; fires: {counted}" if counted else "")
    with contextlib.suppress(BrokenPipeError):
        for line in (*lines, *doubts.lines(), summary):
            print(line)
    raise typer.Exit(3 if found.problems or not rows else code)


def _check_second(rows: Sequence[AuditRow], criteria: Criteria) -> int:
    """Print every run whose second reading is not ``PASS``; returns the exit code."""
    code, passed, judged = 0, 0, 0
    for row, label in named(rows, criteria):
        if row.is_control:
            continue
        judged += 1
        text = second_reading(row.report)
        if text == PASS:
            passed += 1
            continue
        print(f"{with_seed(label, row)}: {text} ({sanitize(row.source)})")
        if text.startswith("FAIL"):
            code = WALKED_BACK
        else:
            code = code or NOT_DECIDED
    print(f"{runs_words(judged)}: {passed} PASS")
    return code


def _judged(row: AuditRow, name: str, required: frozenset[str], as_read: AuditRow) -> Iterator[str]:
    """Notes on a run; none for a trustworthy and complete one.

    Args:
        row: the judged run.
        name: its name.
        required: letters of diagnostics that must be measured exactly.
        as_read: the run with the thresholds of its file.
    """
    report, source = row.report, sanitize(row.source)
    if report.flags or row.standing() in (UNDECIDED, NOT_MEASURED):
        verdict = verdict_words(report, control=False)
        if report.flags and report.flags <= report.undecided:
            verdict += ", nothing decided fires"
        yield f"{name}: {verdict} [{known_text(report)}] ({source})"
        for what in report.nonfinite.values():
            yield f"  {what}"
    missing = _lacks(report, required) if report.coverage else ""
    if missing:
        yield f"{name}: required and not measured: {missing} [{known_text(report)}] ({source})"
    if report.coverage and report.recorded_differs:
        yield f"{name}: {sanitize(recorded_text(report, as_read.report.thresholds))} ({source})"


def _lacks(report: DiagnosticReport, required: frozenset[str]) -> str:
    """The required diagnostics that were not measured exactly, with reasons; ``""`` for none."""
    lacking = []
    for letter in sorted(required):
        why = why_inexact(report, letter).removesuffix(GIVE_ONE)
        if why:
            lacking.append(f"({letter}) {sanitize(why)}")
    return "; ".join(lacking)
