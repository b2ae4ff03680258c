"""The published experiments: the commands that redo them, and what came out compared with the published figures.

The experiments are data: `replication.toml` next to this module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fa_core.analysis.seeds import stat_of
from fa_core.analysis.timeline import timelines
from fa_core.formats import Scan, Trace
from fa_core.gamma import deep_gamma, null_gamma
from fa_core.option_values import unknown_name
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.table import AuditTable

Number = Callable[[DiagnosticReport], "float | None"]

NUMBERS: Mapping[str, Number] = {
    "acc": lambda report: report.headline_acc,
    "growth": lambda report: report.max_per_block_growth,
    "h_L": lambda report: report.h_L,
    "g_L": lambda report: report.g_L,
    "drift": lambda report: report.cross_batch_stability,
    "margin_pp": lambda report: report.margin_pp,
    "deep_gamma": lambda report: deep_gamma(report.credit, report.method_name),
    "null_gamma": lambda report: null_gamma(report.credit, report.method_name)[0],
}
"""Published number → the same of a report; `gamma_0`, `gamma_1`, … are Γ of a layer."""

OF_AUDITS = ("acc", "growth", "h_L", "g_L", "drift")
"""The numbers that a published audit file holds per run."""

DECADES = frozenset({"growth", "h_L", "g_L"})
"""Numbers that span decades: compared by a factor, as geometric means."""

JUDGED = "abd"
"""The diagnostics whose firing is compared; (c) is bimodal over seeds and compared as a number."""


class Within(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bands: how far from the published figure a number may lie (see `replication.toml`)."""

    acc: float
    gamma: float
    norms: float
    margin_pp: float
    drift: float
    epochs: int

    def of(self, number: str, std: float) -> float:
        """The band of a number: a factor for `DECADES`, else a difference."""
        if number in DECADES:
            return self.norms
        kind = "gamma" if "gamma" in number else "epochs" if number.startswith("first_") else number
        band = float(getattr(self, kind))
        return max(band, 3 * std if kind in ("acc", "gamma") else 0.0)


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One published experiment (fields: see `replication.toml`)."""

    name: str
    title: str
    folder: str
    steps: list[str]
    published: list[list[Any]] = []
    table: str = ""
    notes: str = ""

    def commands(self, cifar10: str, cifar100: str, out: str, quick: bool = False) -> list[list[str]]:
        """Arguments of `fa-tui`, in order; each goes on where an earlier try stopped.

        Args:
            cifar10: folder of CIFAR-10.
            cifar100: folder of CIFAR-100.
            out: folder of all experiments.
            quick: one epoch of one seed: whether the folders and the machine can do it.
        """
        filled = {"{cifar10}": f"cifar10:{cifar10}", "{cifar100}": f"cifar100:{cifar100}", "{runs}": self.runs(out)}
        steps = [[filled.get(word, word) for word in step.split()] for step in self.steps]
        for step in steps if quick else ():
            for option, value in (("--epochs", "1"), ("--seeds", "42")):
                if option in step:
                    step[step.index(option) + 1] = value
        return [[*step, "--resume"] for step in steps]

    def runs(self, out: str) -> str:
        """The folder of its runs."""
        return str(Path(out, self.folder))


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """A published number that follows from the published files (fields: see `replication.toml`)."""

    text: str
    command: str
    place: str
    published: float

    def agrees(self, here: float) -> bool:
        """Whether it is the published number, to the digits that are published."""
        digits = len(repr(self.published).replace(".", "").split("e")[0].strip("0"))
        return float(f"{here:.{max(digits, 3) - 1}e}") == float(f"{self.published:.{max(digits, 3) - 1}e}")

    def found_in(self, record: Any) -> float:
        """Its number in what the command prints as JSON.

        >>> Claim("", "", "groups/method=dfa/seeds/#", 3).found_in({"groups": [{"method": "dfa", "seeds": [1, 2]}]})
        2
        """
        for part in self.place.split("/"):
            name, picks, value = part.partition("=")
            if part == "#":
                record = len(record)
            elif picks:
                record = next(one for one in record if one[name] == value)
            else:
                record = record[int(part) if isinstance(record, list) else part]
        return record  # type: ignore[no-any-return]


class Source(msgspec.Struct, frozen=True):
    """The publication that the figures and the audit files are from."""

    title: str
    author: str
    year: int
    eprint: str

    def words(self) -> str:
        """For running text."""
        return f"{self.author}, “{self.title}”, arXiv:{self.eprint}, {self.year}."

    def bibtex(self) -> str:
        """An entry for BibTeX."""
        fields = {"title": self.title, "author": f"{{{self.author}}}", "year": self.year, "eprint": self.eprint}
        listed = ", ".join(f"{name} = {{{value}}}" for name, value in fields.items())
        return f"@misc{{arxiv{self.eprint}, {listed}, archivePrefix = {{arXiv}}}}"


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A published figure next to the same number of the runs here.

    Attributes:
        run: method and axes.
        number: which.
        published: its figures: a mean and perhaps a deviation, epochs of the seeds, or letters that fire on every seed.
        here: the same of the runs here: a mean and a sample deviation, epochs, or letters; empty without runs.
        band: how far apart they may lie: a difference, or a factor of `DECADES`; 0 for letters.
        agrees: whether they do; None without runs.
        judged: the letters that are compared.
    """

    run: str
    number: str
    published: tuple[Any, ...]
    here: tuple[Any, ...]
    band: float
    agrees: bool | None
    judged: str = ""

    @property
    def by_factor(self) -> bool:
        """Whether the number is a geometric mean, its deviation and band factors."""
        return self.number in DECADES


class _Document(msgspec.Struct, frozen=True):
    within: Within
    experiment: list[Experiment]
    claim: list[Claim]
    source: Source


@cache
def _document() -> _Document:
    return msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Document)


def experiments() -> list[Experiment]:
    """All of them, in the order in which they are best done."""
    return _document().experiment


def claims() -> list[Claim]:
    """What is published of the published files."""
    return _document().claim


def source() -> Source:
    """Where it is published."""
    return _document().source


def experiment(name: str) -> Experiment:
    """The one of that name.

    Raises:
        UsageError: there is none.
    """
    found = {one.name: one for one in experiments()}
    if name not in found:
        raise unknown_name("experiment", name, found)
    return found[name]


def compared(chosen: Experiment, found: Scan, published: Scan | None = None) -> list[Compared]:
    """Every published figure of an experiment with what came out here.

    A mean agrees within three published deviations or the band of its number, whichever is wider; a norm or a growth
    within a factor, as a geometric mean; epochs seed by seed; (a), (b) and (d) on every seed alike.

    Args:
        chosen: the experiment.
        found: its runs here, finished or not.
        published: the audit file of its `table`, where it has one.

    Source: docs/protocol.md §11.
    """
    figures = [*chosen.published, *(_of_audits(published.rows) if published else ())]
    return [_compared(str(run), str(number), values, found) for run, number, *values in figures]


def _of_audits(rows: Sequence[AuditRow]) -> Iterable[list[Any]]:
    for method in dict.fromkeys(row.method for row in rows):
        mine = [row.report for row in rows if row.method == method]
        for number in OF_AUDITS:
            values = _values(number, mine)
            if values:
                yield [method, number, *(values if len(values) > 2 else _spread(number, values))]
        yield [method, "fires", _firing(mine, JUDGED), "".join(x for x in JUDGED if x in mine[0].coverage)]


def _compared(run: str, number: str, figures: list[Any], found: Scan) -> Compared:
    rows = sorted((row for row in found.rows if name_of(row) == run), key=lambda row: row.seed or 0)
    reports = [row.report for row in rows]
    band, here, agrees, judged = 0.0, tuple[Any, ...](), None, ""
    if number == "fires":
        figures, judged = figures[:1], figures[1]
        if any(report.coverage for report in reports):
            here = (_firing(reports, judged),)
            agrees = list(here) == figures
    elif number.startswith("first_"):
        band, here = _document().within.of(number, 0), _first_fires(run, number[-1], found)
        if here:
            agrees = all((a == 0) == (b == 0) and abs(a - b) <= band for a, b in zip(figures, here, strict=False))
    else:
        figures = list(figures if len(figures) < 3 else _spread(number, figures))
        here = _spread(number, _values(number, reports))
        band = _document().within.of(number, figures[1] if len(figures) > 1 else 0.0)
        if here:
            low, high = (figures[0] / band, figures[0] * band) if number in DECADES else (-band, band)
            agrees = low <= (here[0] if number in DECADES else here[0] - figures[0]) <= high
    return Compared(
        run=run, number=number, published=tuple(figures), here=here, band=band, agrees=agrees, judged=judged
    )


def name_of(row: AuditRow | Trace) -> str:
    """Method and axes as `replication.toml` writes them; the network is the experiment's own."""
    axes = (f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in row.axes.items())
    return " ".join((row.method, *(axis for axis in axes if not axis.startswith("arch="))))


def _first_fires(run: str, letter: str, found: Scan) -> tuple[int, ...]:
    """The epochs of the seeds, in their order; 0 where it never fires."""
    named = [trace for trace in found.traces if name_of(trace) == run]
    replayed = sorted(timelines(named, AuditTable.from_rows(found.rows)), key=lambda one: one.seed or 0)
    return tuple(one.first_fire[letter] or 0 for one in replayed if letter in one.first_fire)


def _values(number: str, reports: Iterable[DiagnosticReport]) -> list[float]:
    """A number of the reports that have it, where it is finite."""
    if number in NUMBERS:
        found = [NUMBERS[number](report) for report in reports]
    else:
        layers = [(report.credit or {}).get("gamma") or () for report in reports]
        found = [dict(enumerate(series)).get(int(number.removeprefix("gamma_"))) for series in layers]
    return [value for value in found if value is not None and math.isfinite(value)]


def _spread(number: str, values: Sequence[float]) -> tuple[float, ...]:
    """Mean and sample deviation, of `DECADES` geometric mean and factor; of one value no deviation, of none nothing."""
    stat = stat_of(np.array(values), geometric=number in DECADES)
    found = (stat.geometric_mean, stat.factor) if number in DECADES else (stat.mean, stat.std)
    return tuple(value for value in found if value is not None)


def _firing(reports: Sequence[DiagnosticReport], judged: str) -> str:
    """The letters, of those judged, that fire on every report."""
    return "".join(letter for letter in judged if all(letter in report.flags for report in reports))
