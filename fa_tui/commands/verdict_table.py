"""The verdict table of the command line: a line per run in one of four forms, and remarks below it.

Rows are judged while they are printed: of many, one report is in memory at a time.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from math import isnan
from operator import attrgetter
from pathlib import Path
from textwrap import wrap
from typing import Any

from rich.console import Console
from rich.text import Text

from fa_core.errors import printable
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import ASSUMED, DIAGNOSTICS, LETTERS
from fa_core.judgement.verdict import CONTROL, NOT_MEASURED, TRUSTWORTHY
from fa_core.numbers import MISSING, brief
from fa_core.option_values import listed
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, conditions_of, recorded, uneven
from fa_core.text.causes import failure_mode, floor_text
from fa_core.text.cells import cell_legend
from fa_core.text.notes import baseline_text, caveats, why_unproven
from fa_core.text.records import range_text
from fa_core.text.verdict import counts_text, grounds_of, recorded_text
from fa_tui.commands import inputs
from fa_tui.commands.output import speaks_unicode
from fa_tui.options import Chosen, Criteria
from fa_tui.views.filters import Look
from fa_tui.views.text import cut_middle, padded, width_of
from fa_tui.views.words import labels, runs_words, with_seed

EVIDENCE_LEGEND = (
    "≥: only a lower bound, which can prove that (a) fires and never that it passes   ≈: by proxy"
)
MARKS = {"bound": "≥", "proxy": "≈", ASSUMED: "?"}

NAMED_AT_MOST = 12
"""Runs in one line below the table."""

LINES_AT_MOST = 12
"""Lines of one kind below the table."""

_NUMBERS = (
    ("acc", "headline_acc", ".3f", ""),
    ("(a) growth", "max_per_block_growth", ".4g", "a"),
    ("(b) ‖g_L‖", "g_L", ".3g", "b"),
    ("(c) drift", "cross_batch_stability", "+.3f", "c"),
    ("(d) pp", "margin_pp", "+.2f", "d"),
    ("‖h_L‖", "h_L", ".3g", ""),
)
"""Heading, attribute of the report, format and diagnostic letter of each number."""

_FORMS = [form for _, _, form, _ in _NUMBERS]
_numbers_of = attrgetter(*(name for _, name, _, _ in _NUMBERS))

HEADINGS = ("method", "seed", "abcd", *(heading for heading, *_ in _NUMBERS), "verdict")
_LETTERS_AT, _MARGIN_AT = HEADINGS.index("abcd"), HEADINGS.index("(d) pp")
_LEFT = ("method", "abcd", "verdict")
"""Columns that are aligned left."""

_LEFT_OUT_FIRST = ("verdict", "‖h_L‖")
"""Columns that a narrow terminal does without."""

_PIPE_WIDTH = 200
"""Of the lines in a pipe or a pager. From this width on no column is left out: names and verdicts
are shortened."""

_LEAST_VERDICT = 68
"""Cells that names leave to the verdict there: two diagnostics fire."""

_LEAST_NAME = 12
"""Cells that names keep on a narrow terminal: they are shortened before any number."""

_STYLES = {"✗": "bold", "?": "dim"}
"""Of a line on a terminal, by the first character of its letters."""

Verdict = Callable[[AuditRow], str]

_NAMES = [name for name in AuditRow.__struct_fields__ if name != "report"]


def judged(rows: Iterable[AuditRow], criteria: Criteria) -> Iterator[AuditRow]:
    """The rows with their reports judged, one by one."""
    for each in rows:
        if criteria.baseline:
            row = each.judged_by(criteria.baseline)
        else:
            row = each
        report = row.report.with_thresholds(criteria.thresholds)
        yield AuditRow(**{name: getattr(row, name) for name in _NAMES}, report=report)


def named(rows: Sequence[AuditRow], criteria: Criteria) -> Iterator[tuple[AuditRow, str]]:
    """Every judged row with what `labels` calls it."""
    return zip(judged(rows, criteria), labels(rows), strict=True)


def evidence(row: AuditRow) -> dict[str, str]:
    """Letters of what was measured, but not as the protocol defines it → ``bound``, ``proxy``,
    ``assumed``."""
    kinds = row.report.kinds
    if kinds:
        return {letter: kinds[letter] for letter in sorted(kinds) if letter in row.report.coverage}
    return {}


def record(row: AuditRow) -> dict[str, Any]:
    """One row as the JSON and CSV forms print it; what was not measured is None.

    A row whose numbers are not all exact has ``evidence``: diagnostic letter → ``bound``, ``proxy``
    or ``assumed``; one whose frozen baseline is assumed has that as ``assumed_baseline_acc``, and
    no (d) in what was measured. One with ``intervals`` (of a number → low, high) has ``undecided``
    too: the letters whose interval holds the threshold, or of which only a bound is known that does
    not fire. A control has ``control``: its verdict is no claim.
    """
    report, kinds, intervals = row.report, evidence(row), row.report.judged_intervals
    known = {
        "evidence": kinds,
        "assumed_baseline_acc": report.assumed_baseline_acc if kinds.get("d") == ASSUMED else None,
        "noise_scale": report.noise_scale,
        "margins_by_rule": report.margins_by_rule,
        "undecided": "".join(sorted(report.undecided)) if intervals or report.unproven else None,
        "control": row.is_control or None,
        "intervals": intervals,
    }
    return {
        **recorded(row, report),
        **{name: value for name, value in known.items() if value is not None and value != {}},
    }


def numbers(row: AuditRow) -> list[str]:
    """The numbers of a row, rounded for reading; a bound or proxy is marked."""
    values, kinds = _numbers_of(row.report), evidence(row)
    cells = list(map(_text, values, _FORMS))
    for place, (_, _, _, letter) in enumerate(_NUMBERS) if kinds else ():
        if letter in kinds and values[place] is not None:
            cells[place] = MARKS.get(kinds[letter], "≈") + cells[place]
    return cells


def _text(value: float | None, form: str) -> str:
    """A number with its exponent as all tables have it: ``4.17e-9``."""
    if value is None or isnan(value):
        if value is None:
            return MISSING
        return "nan"
    text = format(value, form)
    if "e" in text:
        return text.replace("e+", "e").replace("e0", "e").replace("e-0", "e-")
    return text


def line(row: AuditRow, label: str, verdict: Verdict = AuditRow.words) -> list[str]:
    """A row's cells under `HEADINGS`, for what `labels` calls it."""
    if row.seed is None:
        seed = "–"
    else:
        seed = str(row.seed)
    return [label, seed, row.cell(), *numbers(row), verdict(row)]


class Doubts:
    """Which diagnostics are undecided on which runs, added one by one."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}
        self._held: dict[str, tuple[str, float]] = {}
        self._unproven: dict[tuple[str, str], list[str]] = {}

    def add(self, report: DiagnosticReport, name: str) -> None:
        """Take up a judged run, which is called so."""
        for letter in report.undecided:
            if letter in report.unproven:
                self._unproven.setdefault((letter, why_unproven(report, letter)), []).append(name)
                continue
            self._found.setdefault(letter, []).append(name)
            self._held[letter] = (
                range_text(report, letter),
                DIAGNOSTICS[letter].limit(report.thresholds),
            )

    def lines(self) -> Iterator[str]:
        """A line per letter: the runs, the interval where it is one, and what would decide."""
        for (letter, why), names in sorted(self._unproven.items()):
            yield f"({letter}) undecided on {listed(names, NAMED_AT_MOST)}: {why}"
        for letter, names in sorted(self._found.items()):
            ends, limit = self._held[letter]
            if len(names) == 1:
                holds = f"its 95% interval [{ends}] holds"
            else:
                holds = "their 95% intervals hold"
            more = {"c": "--batches", "d": ""}.get(letter, "--norm-batches")
            if more:
                remedy = f"more eval batches ({more}) narrow it"
            else:
                remedy = "a larger test part narrows it"
            yield (
                f"({letter}) undecided on {listed(names, NAMED_AT_MOST)}: {holds} "
                f"{brief(limit)}; {remedy}"
            )


class Standings:
    """How many judged runs are trustworthy, and on what; how many are not; added one by one.

    Attributes:
        counts: word (`fa_core.judgement.diagnostics.standing`) → runs.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._grounds: Counter[str] = Counter()

    def add(self, row: AuditRow) -> None:
        """Count a judged run."""
        standing = row.standing()
        self.counts[standing] += 1
        if standing == TRUSTWORTHY:
            self._grounds[grounds_of(row.report)] += 1

    def text(self) -> str:
        """``15 runs: 6 trustworthy (3 on a, b, c), 9 need walk-back``."""
        counts = counts_text(self.counts, self._grounds)
        return f"{runs_words(self.counts.total())}: {counts}"


class Remarks:
    """What there is to say below a table: counts of verdicts, why (b) fires, what is not as
    recorded or defined.

    Judged runs are added one by one, so that many need not be in memory at once.
    """

    def __init__(self) -> None:
        self._standings = Standings()
        self._thresholds = DiagnosticThresholds()
        self._has_evidence = False
        self._doubts = Doubts()
        self._conditions: Counter[tuple[Any, ...]] = Counter()
        self._counted: Counter[str] = Counter()
        # caveats, causes of (b), modes, oddities: what is said, and the names of all runs of which
        # it is true
        self._said: tuple[dict[str, list[str]], ...] = ({}, {}, {}, {})

    def add(self, row: AuditRow, label: str, as_read: AuditRow) -> None:
        """Count a judged run, which `labels` calls so; ``as_read`` has the thresholds of its
        file."""
        report, name = row.report, with_seed(label, row)
        coverage = report.coverage
        self._conditions[conditions_of(report)] += 1
        self._standings.add(row)
        self._thresholds = report.thresholds
        self._doubts.add(report, name)
        self._has_evidence = self._has_evidence or any(
            kind != ASSUMED for kind in evidence(row).values()
        )
        if report.assumed_baseline_acc is not None and "d" in coverage:
            self._counted[f"?: (d) against a frozen baseline of {baseline_text(report)}"] += 1
        for letter, why in report.unmeasured.items() if coverage else ():
            if letter in LETTERS and letter not in coverage:
                self._counted[f"({letter}) not measured: {printable(why)}"] += 1
        oddities = [*report.nonfinite.values()]
        if coverage and report.recorded_differs:
            words = recorded_text(report, as_read.report.thresholds)
            oddities.append(printable(f"{words} in {row.source}"))
        cause, mode = floor_text(report), failure_mode(report, cosine=False)
        if cause:
            causes = [f"(b) fires: {cause}"]
        else:
            causes = []
        kinds = (caveats(report, only_decisive=True), causes, [mode] if mode else [], oddities)
        for found, said in zip(self._said, kinds, strict=True):
            for words in said:
                found.setdefault(words, []).append(name)

    def lines(self) -> Iterator[str]:
        """The remarks, a line each."""
        counts = self._standings.counts
        if not counts:
            yield "0 runs"
            return
        yield self._standings.text()
        if counts[NOT_MEASURED]:
            yield "`fa-tui audit` measures what is not measured"
        yield cell_legend(controls=counts[CONTROL] > 0)
        if self._has_evidence:
            yield EVIDENCE_LEGEND
        yield from (
            f"{words} ({runs_words(count)})" for words, count in sorted(self._counted.items())
        )
        yield from self._doubts.lines()
        yield from uneven(self._conditions)
        for found in self._said:
            for words, names in islice(found.items(), LINES_AT_MOST):
                yield f"{listed(names, NAMED_AT_MOST)}: {words}"
            if len(found) > LINES_AT_MOST:
                more = len(found) - LINES_AT_MOST
                yield f"{more} more of this kind: see --format json, or a run in the explorer"


def print_paths(
    paths: Sequence[Path] | None,
    chosen: Chosen,
    form: str,
    look: Look,
    verdict: Verdict = AuditRow.words,
) -> int:
    """Print the rows that the paths hold; returns the exit code (3 if something could not be
    read)."""
    found = inputs.open_paths(paths)
    if found.traces and not found.rows:
        print(f"fa-tui: only traces over epochs, no audit; {inputs.TRACES_HINT}", file=sys.stderr)
    rows = inputs.selected(found, chosen, look, may_be_none=True)
    print_rows(rows, form, chosen.criteria, verdict)
    if found.problems:
        return 3
    return 0


def print_rows(
    rows: Sequence[AuditRow], form: str, criteria: Criteria, verdict: Verdict = AuditRow.words
) -> None:
    """Judge rows and print them in one of the forms of `fa_tui.options.RowFormOption`.

    Args:
        rows: as read.
        form: which.
        criteria: what judges them.
        verdict: the text of a judged row's verdict, in tables.
    """
    if form == "json":
        _print_json(judged(rows, criteria))
    elif form == "csv":
        from fa_core.reporting.records import csv_text

        nothing = AuditRow(source="", key="", method="")
        columns = dict.fromkeys(
            chain.from_iterable(map(record, chain([nothing], judged(rows, criteria))))
        )
        records = (_flat(record(row)) for row in judged(rows, criteria))
        cells = ([values.get(name, "") for name in columns] for values in records)
        sys.stdout.write(csv_text(chain([columns], cells)))
    elif form == "markdown":
        for text in markdown(rows, criteria, verdict):
            print(text)
    else:
        _print_table(rows, criteria, verdict)


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """A record for CSV: nothing for None, evidence as ``a=bound b=proxy``, intervals as
    ``growth=1.2..1.5``."""
    if "intervals" in values:
        values["intervals"] = {
            name: f"{low}..{high}" for name, (low, high) in values["intervals"].items()
        }
    for name in ("evidence", "axes", "margins_by_rule", "intervals"):
        if name in values:
            values[name] = " ".join(f"{key}={value}" for key, value in sorted(values[name].items()))
    return {name: "" if value is None else value for name, value in values.items()}


def _print_json(rows: Iterable[AuditRow]) -> None:
    """The rows as one list, as `json.dump` writes it with an indent of 1."""
    ascii_only = not speaks_unicode()
    between = "["
    for row in rows:
        text = json.dumps(record(row), indent=1, ensure_ascii=ascii_only)
        print(between, text.replace("\n", "\n "), sep="\n ", end="")
        between = ","
    print("[]" if between == "[" else "\n]")


def markdown(
    rows: Sequence[AuditRow], criteria: Criteria, verdict: Verdict = AuditRow.words
) -> Iterator[str]:
    """The judged rows as a Markdown table."""
    from fa_core.reporting.blocks import cell

    yield "| " + " | ".join(HEADINGS) + " |"
    yield "|" + "|".join("---" if heading in _LEFT else "---:" for heading in HEADINGS) + "|"
    for row, label in named(rows, criteria):
        cells = line(row, label, verdict)
        margin = cells[_MARGIN_AT]
        if margin.startswith(MARKS[ASSUMED]):
            cells[_MARGIN_AT] = f"{margin.removeprefix(MARKS[ASSUMED])} (assumed)"
        yield "| " + " | ".join(map(cell, cells)) + " |"


def _print_table(rows: Sequence[AuditRow], criteria: Criteria, verdict: Verdict) -> None:
    """Print rows for reading; their cells are kept until the widths of all columns are known."""
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)
    remarks = Remarks()
    lines: list[list[str]] = []
    for as_read, (row, label) in zip(rows, named(rows, criteria), strict=True):
        remarks.add(row, label, as_read)
        lines.append(line(row, label, verdict))
    if lines:
        names, *others = zip(HEADINGS, *lines, strict=True)
        widths = [max(map(width_of, names)), *(max(map(len, column)) for column in others)]
        _print_lines(console, lines, widths)
    for note in remarks.lines():
        fits = console.is_terminal or len(note) <= _PIPE_WIDTH
        print(note if fits else "\n  ".join(wrap(note, _PIPE_WIDTH - 2, break_on_hyphens=False)))


def _print_lines(console: Console, lines: Iterable[list[str]], widths: list[int]) -> None:
    """Print head and rows; on a terminal too narrow for all columns some are left out, then names
    are shortened.

    Args:
        console: where to.
        lines: the cells of each row.
        widths: of the columns, in cells of the terminal.
    """
    room = console.width
    shown = [*range(len(HEADINGS))]
    if room >= _PIPE_WIDTH:
        widths[-1] = min(widths[-1], _LEAST_VERDICT)
    for heading in _LEFT_OUT_FIRST:
        if room < _PIPE_WIDTH and sum(2 + widths[place] for place in shown) > room:
            shown.remove(HEADINGS.index(heading))
    rest = sum(2 + widths[place] for place in shown[1:])
    widths[0] = min(widths[0], max(_LEAST_NAME, room - 2 - rest))

    aligned = [
        f"{{{place}:{'<' if HEADINGS[place] in _LEFT else '>'}{widths[place]}}}"
        for place in shown[1:]
    ]
    template = "  ".join(["", *aligned])
    left = max(1, room - 1 - widths[0])

    def text(cells: Sequence[str]) -> str:
        name = f" {padded(cut_middle(cells[0], widths[0], '…'), widths[0])}"
        # of all cells only names may hold characters that take more or less than one cell
        numbers = template.format(*cells).rstrip()
        return name + (numbers if len(numbers) <= left else numbers[: left - 1] + "…")

    rule = ("─" if speaks_unicode() else "-") * min(
        sum(2 + widths[place] for place in shown) - 2, room - 1
    )
    head = [text(HEADINGS), f" {rule}"]
    if console.is_terminal:
        console.print(Text(head[0], "bold"), Text(head[1]), sep="\n")
        for cells in lines:
            console.print(Text(text(cells), _STYLES.get(cells[_LETTERS_AT][0], "")))
    else:
        sys.stdout.writelines(f"{shown_line}\n" for shown_line in chain(head, map(text, lines)))
    print()
