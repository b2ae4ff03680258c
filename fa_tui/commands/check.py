"""`fa-tui check`: an exit code for scripts and CI."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from typer import Exit, Option

from fa_core.analysis.claims import FAILS, HOLDS, check_claims, read_claims, refuse_unknown_names
from fa_core.errors import FaError, UsageError
from fa_core.formats.rows import AuditRow, Problem, recorded
from fa_core.report.baseline import GIVE_ONE, OF_FROZEN
from fa_core.report.diagnostic_record import records_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import CONTROL, TRUSTWORTHY, WALKS_BACK, diagnostic_letters
from fa_core.report.notes import other_data, why_inexact
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.report.verdict_text import PASS, counted, known_text, recorded_text, second_reading
from fa_core.reporting.sections.runs import claim_line, counts_of_claims
from fa_tui import options
from fa_tui.commands import check_forms, inputs, output
from fa_tui.commands.check_forms import FAILED, OPEN, PASSED, Case, Checked
from fa_tui.commands.verdict_table import (
    Notes,
    all_counts_text,
    doubts_of,
    judged,
    named,
    note_lines,
)
from fa_tui.options import ChosenOptions
from fa_tui.views.words import runs_words, with_seed


def check_command(
    paths: options.NamedPaths,
    require: Annotated[
        str,
        Option(
            metavar="LETTERS",
            help="Diagnostics that every run must have measured, exactly: abd.",
        ),
    ] = "",
    claims: options.ClaimsOption = None,
    only_claims: Annotated[
        bool, Option("--only-claims", help="Judge the claims; no run counts by itself.")
    ] = False,
    format: Annotated[
        Literal["text", "json", "junit", "github"],
        Option(help="Lines, JSON, JUnit XML, or annotations of GitHub Actions."),
    ] = "text",
    protocol: options.ProtocolOption = "v1",
    *,
    selection: ChosenOptions,
) -> None:
    """Judge runs and claims for a script: exit with 0 if all hold.

    0 every run is trustworthy and every claim holds, 1 some run needs walk-back or some claim does
    not hold, 2 wrong usage, 3 unreadable input, 4 undecided: nothing of that, but a run or claim is
    undecided, was not measured, or lacks what --require names, or there is none. A bound or a proxy
    is not exact, nor is (d) by a baseline given by hand: with --require they count as not measured.
    Controls (frozen, shallow, random_init, random_targets) claim nothing and are not judged. A run
    whose files changed since its audit is not measured (`fa-tui audit` measures what is there now),
    nor is one of which two records are not alike.

    A line on stdout names each run that is not trustworthy, and what was measured of it. Undecided
    is a diagnostic whose threshold lies within the 95 % interval of its number, so that other
    samples (not other training seeds) might say otherwise, of which only a lower bound is known, or
    (a) with a dead layer: a line each names the runs. Every claim is judged seed by seed, holds
    if it does on every seed, and is printed with their numbers. The last line counts runs, says on
    which diagnostics they are trustworthy, and counts the letters that fire. An undecided
    diagnostic walks nothing back. With --protocol v2 the successor's verdict
    decides: 1 if a run's is FAIL, 4 if one is undecided or lacks a check or Γ per layer.

    Examples:

        fa-tui check audit_table.json && echo "trustworthy on what was measured"

        fa-tui check audit_table.json --require abd

        fa-tui check audit_table.json --claims claims.toml --only-claims

        fa-tui check runs/ --format junit > audit.xml

        fa-tui check runs/ --filter 'method:dfa lam>0'
    """
    required = diagnostic_letters(require, "--require")
    if only_claims and claims is None:
        raise UsageError("--only-claims without --claims", hint="add --claims claims.toml")
    chosen = selection.chosen()
    with _said_in_form(format):
        found = inputs.open_paths(paths, columns=chosen.log.given)
    if not found.rows and not found.problems:
        raise inputs.nothing_to_analyse(paths, found.traces)
    thresholds, rows = chosen.criteria.thresholds, inputs.selected(found, chosen)
    doubts: list[str] = []
    if protocol == "v2":
        runs, summary = _second_reading(rows, thresholds, required)
    else:
        runs, doubts, summary = _first_reading(rows, thresholds, required)
    checks: list[Case] = []
    if claims:
        with _said_in_form(format):
            checks, counts = _claims(claims, found.rows, list(judged(rows, thresholds)))
        summary = counts if only_claims else f"{summary}; {counts}"
    if only_claims:
        runs, doubts = [], []
    if not (runs or checks):
        summary += "; nothing was judged"
    checked = Checked(
        runs=runs,
        claims=checks,
        problems=found.problems,
        doubts=doubts,
        summary=summary,
    )
    with contextlib.suppress(BrokenPipeError):
        _print(checked, format)
    raise Exit(checked.exit_code)


@contextlib.contextmanager
def _said_in_form(format: str) -> Iterator[None]:
    """Within, an error is also printed in the form that a program asked for."""
    try:
        yield
    except FaError as error:
        if format != "text":
            problems = [Problem(str(error.where), str(error))]
            _print(Checked(runs=[], problems=problems, summary="nothing was judged"), format)
        raise


def _claims(
    path: Path, every: Sequence[AuditRow], rows: Sequence[AuditRow]
) -> tuple[list[Case], str]:
    """The claims of a file, checked on chosen runs, and their counts; their names are of all."""
    # NumPy is imported where there are claims
    outcomes = {HOLDS: PASSED, FAILS: FAILED}
    claims = read_claims(path)
    refuse_unknown_names(claims, every, path)
    results = check_claims(claims, rows)
    cases = [
        Case(
            name=result.claim.title,
            file=str(path),
            outcome=outcomes.get(result.outcome, OPEN),
            lines=[claim_line(result)],
            record=result.to_dict(),
        )
        for result in results
    ]
    return cases, counts_of_claims(results)


def _print(checked: Checked, format: str) -> None:
    if format == "json":
        output.print_json(checked.to_dict())
    elif format == "junit":
        print(check_forms.to_junit(checked))
    elif format == "github":
        print(*check_forms.github_lines(checked), sep="\n")
    else:
        output.print_blocks(check_forms.text_lines(checked))


def _first_reading(
    rows: Sequence[AuditRow], thresholds: DiagnosticThresholds, required: frozenset[str]
) -> tuple[list[Case], list[str], str]:
    """The runs but for controls, the doubts, and the counts."""
    doubts, judgements, fired = Notes(list), Counter[tuple[str, str]](), Counter[str]()
    cases = []
    for as_read, (row, label) in zip(rows, named(rows, thresholds), strict=True):
        judgements[counted(row.report)] += 1
        if row.report.claim == CONTROL:
            continue
        name = with_seed(label, row)
        lines = list(_says(row, name, required, as_read))
        outcome = _outcome(row, required)
        cases.append(_case(row, name, outcome, lines))
        for doubt in [*doubts_of(row.report), *other_data(row.report)]:
            doubts[doubt].append(name)
        fired.update(row.report.flags if not row.no_claim else ())
    letters = ", ".join(f"({letter}) {fired[letter]}" for letter in sorted(fired))
    summary = all_counts_text(judgements) + (f"; fires: {letters}" if letters else "")
    return cases, list(note_lines(doubts, len(cases))), summary


def _case(row: AuditRow, name: str, outcome: str, lines: list[str]) -> Case:
    return Case(
        name=name,
        file=row.source,
        outcome=outcome,
        lines=lines,
        record=recorded(row, row.report),
    )


def _outcome(row: AuditRow, required: frozenset[str]) -> str:
    judged = row.report.claim
    if judged == WALKS_BACK:
        return FAILED
    if judged != TRUSTWORTHY or _lacks(row.report, required):
        return OPEN
    return PASSED


def _second_reading(
    rows: Sequence[AuditRow], thresholds: DiagnosticThresholds, required: frozenset[str]
) -> tuple[list[Case], str]:
    """The runs but for controls by the successor's verdict, and the counts."""
    cases = []
    for row, label in named(rows, thresholds):
        if row.is_control:
            continue
        text, name = second_reading(row.report), with_seed(label, row)
        missing = _lacks(row.report, required)
        if missing:
            text += f"; required and not measured: {missing}"
        outcome, lines = OPEN, [f"{name}: {text} ({row.source})"]
        if text == PASS:
            outcome, lines = PASSED, []
        elif text.startswith("FAIL"):
            outcome = FAILED
        cases.append(_case(row, name, outcome, lines))
    passed = sum(case.outcome == PASSED for case in cases)
    return cases, f"{runs_words(len(cases))}: {passed} PASS"


def _says(row: AuditRow, name: str, required: frozenset[str], as_read: AuditRow) -> Iterator[str]:
    """Notes on a run; none for a trustworthy and complete one.

    Args:
        row: the judged run.
        name: its name.
        required: letters of diagnostics that must be measured exactly.
        as_read: the run with the thresholds of its file.
    """
    report, source = row.report, row.source
    if report.claim != TRUSTWORTHY:
        yield f"{name}: {report.words} [{known_text(report)}] ({source})"
        for one in records_of(report):
            if one.letter in report.undecided | report.nonfinite.keys():
                yield f"  ({one.letter}) {one.state}: {one.text}"
    missing = _lacks(report, required) if report.coverage else ""
    if missing:
        yield f"{name}: required and not measured: {missing} [{known_text(report)}] ({source})"
    if report.coverage and report.recorded_differs:
        yield f"{name}: {recorded_text(report, as_read.report.thresholds)} ({source})"


def _lacks(report: DiagnosticReport, required: frozenset[str]) -> str:
    """The required diagnostics that were not measured exactly, with reasons, and a (d) of which the
    frozen run is at hand and judges it not; ``""`` for none."""
    lacking = []
    for letter in sorted(required | {"d"}):
        why = why_inexact(report, letter).replace(GIVE_ONE, "")
        if why and (letter in required or why.startswith(OF_FROZEN)):
            lacking.append(f"({letter}) {why}")
    return "; ".join(lacking)
