"""The verdict table of the command line, a line per run in one of four forms, and remarks below
it: counts of verdicts, causes, doubts, deviations."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from fa_core.files.decode import Json
from fa_core.formats.rows import AuditRow, conditions_of, recorded, uneven
from fa_core.report import quantities
from fa_core.report.beside import failure_mode, floor_text, reference_text
from fa_core.report.diagnostic_record import records_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import (
    CONTROL,
    DIAGNOSTICS,
    NOT_MEASURED,
    WALKS_BACK,
    cell_legend,
    judged_text,
)
from fa_core.report.intervals import sample_count
from fa_core.report.notes import baseline_text, caveats, unmeasured_texts, why_unproven
from fa_core.report.numbers import brief, joined, listed
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.report.verdict_text import (
    counted,
    counts_text,
    flips_of,
    flips_texts,
    recorded_text,
    verdict_words,
)
from fa_core.reporting.blocks import Grid, Paragraph, to_markdown
from fa_tui.commands import inputs
from fa_tui.commands.output import complain, print_blocks, print_json
from fa_tui.options import Chosen
from fa_tui.views.filters import ViewState
from fa_tui.views.words import labels, mark_before, runs_words, with_seed

EVIDENCE_LEGEND = (
    "≥: only a lower bound, which can prove that (a) fires and never that it passes   ≈: by proxy"
)

NAMED_AT_MOST = 4
"""Maximum of runs in a line."""

LINES_AT_MOST = 12
"""Maximum of lines of a kind."""


Notes = defaultdict[str, list[str]]
"""Notes of a kind, each with the names of its runs."""


def note_lines(notes: Notes, runs: int) -> Iterator[str]:
    """A line per note, at most `LINES_AT_MOST`.

    Args:
        notes: of a kind.
        runs: how many there are in all.
    """
    for note, names in islice(notes.items(), LINES_AT_MOST):
        if len(names) == runs > 1:
            yield f"all {runs} runs: {note}"
        else:
            yield f"{listed(names, NAMED_AT_MOST)}: {note}"
    more = len(notes) - LINES_AT_MOST
    if more > 0:
        yield f"{more} more of this kind: see --format json, or a run in the explorer"


def doubts_of(report: DiagnosticReport) -> Iterator[str]:
    """Why each undecided diagnostic of a judged run is, and what would decide it."""
    for letter in sorted(report.undecided):
        if letter in report.unproven:
            why = why_unproven(report, letter)
        else:
            limit = brief(DIAGNOSTICS[letter].limit(report.thresholds))
            remedy = "too few test samples to decide"
            if _has_more_batches(report, letter):
                option = "--batches" if letter == "c" else "--norm-batches"
                remedy = f"more eval batches (`fa-tui audit {option}`) narrow it"
            why = f"the 95% interval holds {limit}; {remedy}"
        yield f"({letter}) undecided: {why}"


def _has_more_batches(report: DiagnosticReport, letter: str) -> bool:
    """Whether the test samples hold another batch than those that a diagnostic was measured on."""
    if letter == "d":
        return False
    used = report.n_batches if letter == "c" else report.norm_batches
    if report.right is None or report.batch_size is None or used is None:
        return True
    samples = sample_count(report.right)
    return not samples or samples >= (used + 1) * report.batch_size


def all_counts_text(counts: Counter[tuple[str, str]]) -> str:
    """``15 runs: 6 trustworthy (3 on a, b, c), 9 need walk-back``."""
    return f"{runs_words(counts.total())}: {counts_text(counts)}"


class Remarks:
    """Collects the remarks on judged runs."""

    def __init__(self) -> None:
        self._judgements: Counter[tuple[str, str]] = Counter()
        self._has_evidence = False
        self._conditions: Counter[tuple[object, ...]] = Counter()
        self._kinds = [Notes(list) for _ in range(6)]
        self._flips: list[str] = []

    def add(self, row: AuditRow, label: str, as_read: AuditRow) -> None:
        """Add a judged run.

        Args:
            row: the run.
            label: its name (`labels`).
            as_read: the run with the thresholds of its file.
        """
        report, name = row.report, with_seed(label, row)
        self._judgements[counted(report)] += 1
        self._conditions[conditions_of(report)] += 1
        self._has_evidence |= not report.evidence.keys().isdisjoint(report.coverage)
        self._flips = flips_texts(report)
        oddities = [*report.nonfinite.values()]
        if report.coverage and report.recorded_differs:
            difference = recorded_text(report, as_read.report.thresholds)
            oddities.append(f"{difference} ({row.source})")
        floor, mode = floor_text(report), failure_mode(report)
        cause = joined(floor, reference_text(report))
        causes = [f"(b) fires: {cause}"] if floor else []
        modes = [f"cause: {mode}"] if mode else []
        said = [_reasons(report), doubts_of(report), caveats(report, only_decisive=True)]
        for collected, notes in zip(self._kinds, [*said, causes, modes, oddities], strict=True):
            for note in notes:
                collected[note].append(name)

    def lines(self) -> Iterator[str]:
        """The remarks, a line each."""
        counts = self._judgements
        if not counts:
            yield "0 runs"
            return
        yield all_counts_text(counts)
        if counts[NOT_MEASURED, ""]:
            yield "`fa-tui audit` measures what is not measured, a run in training when that ends"
        yield " ".join(cell_legend(controls=counts[CONTROL, ""] > 0))
        if self._has_evidence:
            yield EVIDENCE_LEGEND
        for place, notes in enumerate(self._kinds):
            if place == 2:  # after what is not measured or not decided
                yield from uneven(self._conditions)
            yield from note_lines(notes, counts.total())
        if counts.total() == 1:
            yield from (f"to flip: {flip}" for flip in self._flips)


def _reasons(report: DiagnosticReport) -> Iterator[str]:
    """The assumed baseline, and why diagnostics are not measured; of a run without any, nothing."""
    coverage = report.coverage
    if not coverage:
        return
    if report.measured != coverage:
        yield f"?: (d) against a frozen baseline of {baseline_text(report)}"
    yield from unmeasured_texts(report)


_NUMBERS = quantities.named("acc", "growth", "g_L", "drift", "margin", "h_L")

HEADINGS = ("method", "seed", "abcd", *(column.heading for column in _NUMBERS), "verdict")

Verdict = Callable[[DiagnosticReport], str]


def judged(rows: Iterable[AuditRow], thresholds: DiagnosticThresholds) -> Iterator[AuditRow]:
    """The rows judged by thresholds, one by one."""
    for row in rows:
        yield replace(row, report=row.report.with_thresholds(thresholds))


def named(
    rows: Sequence[AuditRow], thresholds: DiagnosticThresholds
) -> Iterator[tuple[AuditRow, str]]:
    """Every judged row with its label."""
    return zip(judged(rows, thresholds), labels(rows), strict=True)


def _beside(report: DiagnosticReport) -> dict[str, str]:
    """Letter → what was measured beside the diagnostic, as text."""
    found = {}
    for one in records_of(report):
        texts = [*one.remarks, *one.beside]
        if texts:
            found[one.letter] = "; ".join(texts)
    return found


def record(row: AuditRow) -> Json:
    """The record of a row for JSON; unmeasured values are None.

    Optional keys: ``evidence`` of inexact numbers: diagnostic letter → ``bound``, ``proxy`` or
    ``assumed``; ``assumed_baseline_acc``, with no (d) in ``coverage``; ``intervals`` (number → low,
    high); ``beside``: letter → what was measured beside it; ``flips``: the thresholds that would
    change the judgement (`flips_of`).
    """
    report = row.report
    known: Json = {
        "evidence": report.inexact,
        "assumed_baseline_acc": report.assumed_baseline_acc if "d" in report.inexact else None,
        "noise_scale": report.noise_scale,
        "margins_by_rule": report.margins_by_rule,
        "flips": [flip.to_dict() for flip in flips_of(report)],
        "intervals": report.judged_intervals,
        "beside": _beside(report),
    }
    found = recorded(row, report)
    for name, value in known.items():
        if value not in (None, {}, []):
            found[name] = value
    return found


def numbers(row: AuditRow) -> list[str]:
    """The numbers of a row, rounded for reading; a bound or proxy is marked."""
    cells = []
    for column in _NUMBERS:
        value = column.of(row.report)
        mark = mark_before(column, row.report)
        cells.append(mark + judged_text(column, value, row.report.thresholds))
    return cells


def table_of(
    rows: Sequence[AuditRow], thresholds: DiagnosticThresholds, verdict: Verdict = verdict_words
) -> tuple[Grid, Iterator[str]]:
    """The table of the judged rows, and the remarks on them."""
    lines: list[tuple[str, ...]] = []
    marked: set[int] = set()
    remarks = Remarks()
    for as_read, (row, label) in zip(rows, named(rows, thresholds), strict=True):
        remarks.add(row, label, as_read)
        report, seed = row.report, "–" if row.seed is None else str(row.seed)
        if report.claim == WALKS_BACK:
            marked.add(len(lines))
        lines.append((label, seed, report.cell(), *numbers(row), verdict(report)))
    grid = Grid(HEADINGS, tuple(lines), words=3, marked=frozenset(marked), ends_in_words=True)
    return grid, remarks.lines()


def print_paths(
    paths: Sequence[Path] | None,
    chosen: Chosen,
    form: str,
    look: ViewState,
    verdict: Verdict = verdict_words,
) -> int:
    """Print the rows under the paths; returns the exit code (3 if something could not be read)."""
    found = inputs.open_paths(paths, columns=chosen.log.given)
    if found.traces and not found.rows:
        complain(f"only traces over epochs, no audit; {inputs.TRACES_HINT}")
    rows = inputs.selected(found, chosen, look, may_be_none=True)
    print_rows(rows, form, chosen.criteria.thresholds, verdict)
    return 3 if found.problems else 0


def print_rows(
    rows: Sequence[AuditRow],
    form: str,
    thresholds: DiagnosticThresholds,
    verdict: Verdict = verdict_words,
) -> None:
    """Judge rows and print them in a form of `fa_tui.options.RowFormOption`.

    Args:
        rows: as read.
        form: the form.
        thresholds: judge the rows.
        verdict: returns a judged row's verdict text for tables.
    """
    if form == "json":
        print_json(list(map(record, judged(rows, thresholds))))
    elif form == "csv":
        from fa_core.formats.table import AuditTable  # imports NumPy
        from fa_core.reporting.records import to_csv

        sys.stdout.write(to_csv(AuditTable.from_rows(rows), thresholds))
    else:
        grid, remarks = table_of(rows, thresholds, verdict)
        if form == "markdown":
            print(to_markdown([grid, *map(Paragraph, remarks)]), end="")
        else:
            print_blocks([grid])
            print()
            print_blocks(remarks)
