"""Remarks below a verdict table: counts of verdicts, causes, doubts, deviations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from fa_core.formats.rows import AuditRow, conditions_of, uneven
from fa_core.report.beside import failure_mode, floor_text, reference_text
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS
from fa_core.report.intervals import sample_count
from fa_core.report.notes import baseline_text, caveats, why_unproven
from fa_core.report.numbers import brief, listed
from fa_core.report.verdict import CONTROL, NOT_MEASURED, cell_legend
from fa_core.report.verdict_text import counted, counts_text, flips_texts, recorded_text
from fa_tui.views.words import runs_words, with_seed

EVIDENCE_LEGEND = (
    "≥: only a lower bound, which can prove that (a) fires and never that it passes   ≈: by proxy"
)

NAMED_AT_MOST = 12
"""Maximum of runs in a line."""

LINES_AT_MOST = 12
"""Maximum of lines of a kind."""


class NotesByRun:
    """Notes of a kind, each with the names of its runs."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}

    def add(self, note: str, name: str) -> None:
        """Add a note about one run."""
        self._names.setdefault(note, []).append(name)

    def lines(self, runs: int) -> Iterator[str]:
        """A line per note, at most `LINES_AT_MOST`.

        Args:
            runs: how many there are in all.
        """
        for note, names in islice(self._names.items(), LINES_AT_MOST):
            if len(names) == runs > 1:
                yield f"all {runs} runs: {note}"
            else:
                yield f"{listed(names, NAMED_AT_MOST)}: {note}"
        more = len(self._names) - LINES_AT_MOST
        if more > 0:
            yield f"{more} more of this kind: see --format json, or a run in the explorer"


def doubts_of(report: DiagnosticReport) -> Iterator[str]:
    """Why each undecided diagnostic of a judged run is, and what would decide it."""
    for letter in sorted(report.undecided):
        if letter in report.unproven:
            why = why_unproven(report, letter)
        else:
            limit = brief(DIAGNOSTICS[letter].limit(report.thresholds))
            remedy = "more test samples narrow it"
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
        self._kinds = [NotesByRun() for _ in range(6)]
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
        cause = "; ".join(filter(None, [floor, reference_text(report)]))
        causes = [f"(b) fires: {cause}"] if floor else []
        modes = [f"cause: {mode}"] if mode else []
        said = [_reasons(report), doubts_of(report), caveats(report, only_decisive=True)]
        for collected, notes in zip(self._kinds, [*said, causes, modes, oddities], strict=True):
            for note in notes:
                collected.add(note, name)

    def lines(self) -> Iterator[str]:
        """The remarks, a line each."""
        counts = self._judgements
        if not counts:
            yield "0 runs"
            return
        yield all_counts_text(counts)
        if counts[NOT_MEASURED, ""]:
            yield "`fa-tui audit` measures what is not measured and no longer in training"
        yield " ".join(cell_legend(controls=counts[CONTROL, ""] > 0))
        if self._has_evidence:
            yield EVIDENCE_LEGEND
        for place, notes in enumerate(self._kinds):
            if place == 2:  # after what is not measured or not decided
                yield from uneven(self._conditions)
            yield from notes.lines(counts.total())
        if counts.total() == 1:
            yield from (f"to flip: {flip}" for flip in self._flips)


def _reasons(report: DiagnosticReport) -> Iterator[str]:
    """The assumed baseline, and why diagnostics are not measured; of a run without any, nothing."""
    coverage = report.coverage
    if not coverage:
        return
    if report.assumed_baseline_acc is not None and "d" in coverage:
        yield f"?: (d) against a frozen baseline of {baseline_text(report)}"
    for letter, reason in report.unmeasured.items():
        if letter in LETTERS and letter not in coverage:
            yield f"({letter}) not measured: {reason}"
