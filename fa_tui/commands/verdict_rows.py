"""Rows judged by some thresholds: each when somebody looks at it, each rule applied once.

What is said below a verdict table: how many walk back, what was not measured as defined, and why (b) fires.

A judged run as the commands print it: as a record, and as the cells of a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isnan
from operator import attrgetter
from typing import TYPE_CHECKING, Any, overload

from msgspec.structs import asdict

from fa_core.confidence import floor_in_words
from fa_core.diagnostics import LETTERS, NOT_MEASURED, TRUSTWORTHY, DiagnosticThresholds
from fa_core.errors import printable
from fa_core.report import ASSUMED, DiagnosticReport
from fa_core.rows import AuditRow
from fa_tui.views.names import labels, with_seed
from fa_tui.views.words import LEGEND, cell_text

if TYPE_CHECKING:
    from fa_tui.options import FrozenBaseline


class _Once:
    """A property of the report that is worked out when it is first asked for; the report never changes."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._work_out = getattr(DiagnosticReport, name).fget

    def __get__(self, report: Any, owner: type) -> Any:
        if report is None:
            return self
        value = report.__dict__[self._name] = self._work_out(report)
        return value


class JudgedReport(DiagnosticReport, frozen=True, kw_only=True, dict=True):
    """A report that remembers what follows from it: a line of a table asks ten times for the same."""

    max_per_block_growth = _Once()
    margin_pp = _Once()
    nonfinite = _Once()
    coverage = _Once()
    flags = _Once()
    verdict = _Once()


class Judged(Sequence[AuditRow]):
    """Rows with their reports judged by some thresholds.

    Args:
        rows: the rows.
        thresholds: the thresholds.
        baseline: gives reports without one a frozen baseline first.
    """

    def __init__(
        self, rows: Sequence[AuditRow], thresholds: DiagnosticThresholds, baseline: FrozenBaseline | None = None
    ) -> None:
        self.rows = rows
        self._thresholds = thresholds
        self._baseline = baseline

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> AuditRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[AuditRow]: ...
    def __getitem__(self, index: int | slice) -> AuditRow | list[AuditRow]:
        if isinstance(index, int):
            return self._judged(self.rows[index])
        return [self._judged(row) for row in self.rows[index]]

    def __iter__(self) -> Iterator[AuditRow]:
        return map(self._judged, self.rows)

    def _judged(self, row: AuditRow) -> AuditRow:
        if self._baseline is not None:
            row = self._baseline.filled(row)
        return AuditRow(
            source=row.source,
            key=row.key,
            method=row.method,
            seed=row.seed,
            report=JudgedReport(**{**asdict(row.report), "thresholds": self._thresholds}),
            checkpoint=row.checkpoint,
            axes=row.axes,
        )


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


def judged(rows: Sequence[AuditRow], thresholds: DiagnosticThresholds) -> list[AuditRow]:
    """The rows with their reports judged by the thresholds."""
    return list(Judged(rows, thresholds))


def named(rows: Sequence[AuditRow]) -> Iterator[tuple[AuditRow, str]]:
    """Every row with what `labels` calls it; a report is read when its row comes."""
    return zip(rows, labels(rows.rows if isinstance(rows, Judged) else rows), strict=True)


def record(row: AuditRow) -> dict[str, Any]:
    """One row as the JSON and CSV forms print it; what was not measured is None.

    A row whose numbers are not all exact has ``evidence``: diagnostic letter → ``bound``, ``proxy`` or ``assumed``;
    one whose frozen baseline is assumed has that as ``assumed_baseline_acc``, and no (d) in what was measured.
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
        report.measured,
        report.verdict,
        report.recorded_verdict,
        row.key,
        row.axes,
    )
    kinds = evidence(row)
    return {
        **dict(zip(COLUMNS, values, strict=True)),
        **({"evidence": kinds} if kinds else {}),
        **({"assumed_baseline_acc": report.assumed_baseline_acc} if kinds.get("d") == ASSUMED else {}),
    }


def flat(values: dict[str, Any]) -> dict[str, Any]:
    """A record for CSV: nothing for None, evidence as ``a=bound b=proxy``."""
    if "evidence" in values:
        values = {**values, "evidence": " ".join(f"{letter}={kind}" for letter, kind in values["evidence"].items())}
    values = {**values, "axes": " ".join(f"{axis}={value}" for axis, value in sorted(values["axes"].items()))}
    return {name: "" if value is None else value for name, value in values.items()}


MARKS = {"bound": "≥", "proxy": "~", ASSUMED: "?"}


_WRITTEN = (
    ("headline_acc", "{:.3f}".format, ""),
    ("h_L", "{:.3g}".format, ""),
    ("max_per_block_growth", "{:.4g}".format, "a"),
    ("g_L", "{:.3g}".format, "b"),
    ("cross_batch_stability", "{:+.3f}".format, "c"),
    ("margin_pp", "{:+.2f}".format, "d"),
)
_PLACES = {letter: place for place, (_, _, letter) in enumerate(_WRITTEN)}
_measured = attrgetter(*(name for name, _, _ in _WRITTEN))


def numbers(row: AuditRow) -> list[str]:
    """The numbers of a row, rounded for reading; a bound or proxy is marked."""
    report = row.report
    cells = [
        "–" if value is None else "nan" if isnan(value) else write(value)
        for value, (_, write, _) in zip(_measured(report), _WRITTEN, strict=True)
    ]
    for letter, kind in evidence(row).items():
        place = _PLACES[letter]
        if cells[place] != "–":
            cells[place] = MARKS.get(kind, "~") + cells[place]
    return cells


HEADINGS = ("method", "seed", "abcd", "acc", "(a) growth", "(b) ‖g_L‖", "(c) drift", "(d) pp", "‖h_L‖", "verdict")
_MARGIN = HEADINGS.index("(d) pp")
WORDS = ("method", "abcd", "verdict")
LEFT_OUT_FIRST = ("verdict", "‖h_L‖")
"""Columns that a narrow terminal does without."""


def line(row: AuditRow, label: str) -> tuple[str, ...]:
    """A row's cells under `HEADINGS`, for what `labels` calls it."""
    report = row.report
    acc, h_last, growth, g_last, drift, margin = numbers(row)
    seed = "–" if row.seed is None else str(row.seed)
    return (
        label,
        seed,
        cell_text(report.flags, report.coverage),
        acc,
        growth,
        g_last,
        drift,
        margin,
        h_last,
        report.verdict,
    )


def markdown(rows: Sequence[AuditRow]) -> Iterator[str]:
    """The rows as a Markdown table."""
    from fa_core.reporting.markdown_html import cell

    yield "| " + " | ".join(HEADINGS) + " |"
    yield "|" + "|".join("---" if heading in WORDS else "---:" for heading in HEADINGS) + "|"
    for row, label in named(rows):
        cells = list(line(row, label))
        margin = cells[_MARGIN]
        if margin.startswith(MARKS[ASSUMED]):
            cells[_MARGIN] = f"{margin.removeprefix(MARKS[ASSUMED])} (assumed)"
        yield "| " + " | ".join(map(cell, cells)) + " |"
