"""What is said below a verdict table: how many walk back, what was not measured as defined, and why (b) fires."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fa_core.errors import printable
from fa_core.gain import floor_in_words
from fa_core.report import ASSUMED, LETTERS, NOT_MEASURED, TRUSTWORTHY, DiagnosticReport
from fa_core.rows import AuditRow
from fa_tui.views.cells import LEGEND
from fa_tui.views.names import with_seed

EVIDENCE_LEGEND = "≥: only a lower bound, which can prove that (a) fires and never that it passes   ~: by proxy"

NAMED_AT_MOST = 12
"""Runs in one line below the table."""


def evidence(row: AuditRow) -> dict[str, str]:
    """Letters of what was measured, but not as the protocol defines it → ``bound``, ``proxy``, ``assumed``."""
    return {letter: kind for letter, kind in sorted(row.report.kinds.items()) if letter in row.report.coverage}


def runs_words(count: int) -> str:
    """``1 run``, ``3 runs``."""
    return f"{count} {'run' if count == 1 else 'runs'}"


class Remarks:
    """What there is to say of some runs, taken up one by one: many need not be in memory at once."""

    def __init__(self) -> None:
        self._verdicts: Counter[str] = Counter()
        self._has_evidence = False
        self._assumed: Counter[str] = Counter()
        self._causes: list[str] = []
        self._untold: dict[str, list[str]] = {}
        self._untold_runs: Counter[str] = Counter()
        self._reasons: Counter[tuple[str, str]] = Counter()
        self._oddities: list[str] = []

    def add(self, row: AuditRow, label: str) -> None:
        """Take up a judged run, and what `labels` calls it."""
        report, name = row.report, with_seed(label, row)
        self._verdicts[report.verdict] += 1
        self._has_evidence = self._has_evidence or any(kind != ASSUMED for kind in evidence(row).values())
        if report.assumed_baseline_acc is not None and "d" in report.coverage:
            self._assumed[report.baseline_words()] += 1
        self._add_cause(report, name)
        self._oddities += [f"{name}: {what}" for what in report.nonfinite.values()]
        coverage = report.coverage
        if coverage:
            missing = [letter for letter in report.unmeasured if letter in LETTERS and letter not in coverage]
            self._reasons.update((letter, report.unmeasured[letter]) for letter in missing)
            if report.recorded_differs:
                recorded = printable(f"“{report.recorded_verdict}” in {row.source}")
                self._oddities.append(f"{name}: recorded as {recorded}")

    def _add_cause(self, report: DiagnosticReport, name: str) -> None:
        words = floor_in_words(report)
        if words is None:
            return
        if report.batch_size is not None and report.error_norm is not None:
            self._causes.append(f"{name}: (b) fires: {words}")
            return
        self._untold_runs[words] += 1
        named = self._untold.setdefault(words, [])
        if len(named) < NAMED_AT_MOST:
            named.append(name)

    def lines(self) -> Iterator[str]:
        """Counts of verdicts, why (b) fired, and every recorded verdict that differs from the recomputed one."""
        runs = self._verdicts.total()
        if not runs:
            yield "0 runs"
            return
        trusted, unmeasured = self._verdicts[TRUSTWORTHY], self._verdicts[NOT_MEASURED]
        walked = runs - trusted - unmeasured
        parts = [f"{trusted} trustworthy", f"{walked} {'needs' if walked == 1 else 'need'} walk-back"]
        if unmeasured:
            parts.append(f"{unmeasured} not measured (`fa-tui audit` measures them)")
        yield f"{runs_words(runs)}: " + ", ".join(parts)
        yield LEGEND
        if self._has_evidence:
            yield EVIDENCE_LEGEND
        for baseline, count in sorted(self._assumed.items()):
            yield f"?: (d) against a frozen baseline of {baseline} ({runs_words(count)})"
        yield from self._causes
        # one line for all runs whose source does not give what it takes to tell
        for words, names in self._untold.items():
            more = self._untold_runs[words] - len(names)
            yield f"{', '.join(names)}{f' and {more} more' if more else ''}: (b) fires: {words}"
        for (letter, why), count in sorted(self._reasons.items()):
            yield f"({letter}) not measured: {printable(why)} ({runs_words(count)})"
        yield from self._oddities
