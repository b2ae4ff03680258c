"""A run of the audit table: its source, method, seed, axes and report; and rows judged by a frozen
baseline that was assumed or given by hand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import asdict, replace

from fa_core.errors import UnreadableInput
from fa_core.files.decode import Json, without
from fa_core.files.opening import LONGEST_NAME, is_file, read_file, real_path
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import CONTROL, NOT_MEASURED
from fa_core.report.manifest import Manifest
from fa_core.report.names import differing_axes, homes, is_control, name_of
from fa_core.report.numbers import count_text, joined
from fa_core.report.provenance import BASELINE_FROM, GIVEN
from fa_core.report.quantities import named

_MOST_FACTS = 256
"""Facts of a recipe; a larger one names no run."""

_NEAREST = 16
"""Folders above a file in which overrides are looked for."""

_OVERRIDE = re.compile(r"^- *['\"]?\+*([^'\"\s]+)", re.MULTILINE)


Identity: TypeAlias = tuple[int, int]
"""Device and inode."""


class Place(msgspec.Struct):
    """A file or folder.

    Attributes:
        path: its path.
        named: whether the user named it.
        is_folder: whether it is a folder.
        root: the named file or folder that it was found in.
        skip: names of its files that need not be visited, set by its reader.
        seen: identities of what was visited, to which its reader adds what it read with it.
        size: its bytes; 4096 at least, for a run folder is of several files.
    """

    path: str
    named: bool
    is_folder: bool
    root: str = ""
    skip: frozenset[str] = frozenset()
    seen: set[Identity] = set()
    size: int = 0


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the audit table.

    Attributes:
        source: the file the numbers (or the unmeasured checkpoint) came from.
        key: its name inside the source, e.g. ``"dfa_s42"``; unique per source.
        method: canonical method name (see `canonical_method`), e.g. ``"state_bridge"``.
        seed: None if the source names none.
        report: the measurements; an empty report for a checkpoint that is not measured yet.
        checkpoint: a file or run folder that `fa-tui audit` can measure, or None.
        axes: further coordinates of the run: ``lam``, ``d``, ``L``, ``arch``, ...
        summary: the line on it in the summary of its file; None = the file has no summary.
        touched: where its files have another time than at its audit and were not compared: that.

    Raises:
        UnreadableInput: a name of more than `LONGEST_NAME` characters.
    """

    source: str
    key: str
    method: str
    seed: int | None = None
    report: DiagnosticReport = DiagnosticReport()
    checkpoint: str | None = None
    axes: Json = {}
    summary: Any = None
    touched: str = ""

    def __post_init__(self) -> None:
        longest = max(map(len, (self.key, self.method, str(self.axes))))
        if longest > LONGEST_NAME:
            raise UnreadableInput(
                f"a name of {longest} characters", where=self.source, hint=f"{LONGEST_NAME} at most"
            )

    @property
    def is_control(self) -> bool:
        """Whether the run is a control; one with a result only if its record itself calls it so."""
        is_bare = self.report.headline_acc is None and not self.report.coverage
        return is_control(self.method if is_bare else self.report.method_name)

    @property
    def no_claim(self) -> str:
        """As `JudgedRun.no_claim`, by the name that the project gives the method."""
        return NOT_MEASURED if self.report.changed else CONTROL if self.is_control else ""

    def marked(self, why: str) -> AuditRow:
        """The run with what is said of its record in place of a judgement (`changed`)."""
        return replace(self, report=replace(self.report, changed=why))

    def judged_by(self, baseline: FrozenBaseline) -> AuditRow:
        """The run judged by a frozen baseline, if it was measured."""
        if not self.report.coverage:
            return self
        return replace(self, report=baseline.assumed_in(self.report, self.method))


def measured(row: AuditRow, report: DiagnosticReport) -> AuditRow:
    """A run with its measured report, and with the notes on its checkpoint."""
    if not row.report.coverage:
        report = replace(report, notes=joined(row.report.notes, report.notes))
    return replace(row, report=report)


RECORDED = named("acc", "h_L", "g_L", "growth", "drift", "frozen", "margin")
"""The numbers of a report that every record of a run has."""


def judged_fields(report: DiagnosticReport) -> Json:
    """A run's judgement in every record: what fires, what is undecided, its value and its text;
    and the letters of the published rule, which knows no intervals."""
    return {
        "flags": "".join(sorted(report.flags)),
        "undecided": "".join(sorted(report.undecided)),
        "judgement": report.claim,
        "verdict": report.words,
        "by_numbers": "".join(sorted(report.by_numbers)),
    }


def recorded(row: AuditRow, report: DiagnosticReport) -> Json:
    """The common fields of all records of a run; None for unmeasured values."""
    return {
        "source": row.source,
        "method": row.method,
        "seed": row.seed,
        **{number.field: number.recorded(report) for number in RECORDED},
        **judged_fields(report),
        "coverage": report.measured,
        "recorded_verdict": report.recorded_verdict,
        "key": row.key,
        "axes": row.axes,
    }


class Problem(msgspec.Struct, frozen=True):
    """A path that could not be read, with a one-line message."""

    path: str
    message: str


CONDITIONS = {
    "batch_size": ("B", "(b) and (c) depend on it"),
    "n_batches": ("K", "the interval of (c) depends on it"),
    "norm_batches": ("batches behind (a) and (b)", "their intervals depend on it"),
    "dtype": ("arithmetic", "the last digits, and what underflows, depend on it"),
    "loss": ("loss", "(b) and (c) depend on it"),
}
"""Attribute with a condition of the measurement → its name, and its effect."""

conditions_of = attrgetter(*CONDITIONS)
"""The conditions of a report: values of `CONDITIONS`, None if not recorded."""


def uneven(conditions: Mapping[tuple[object, ...], int]) -> list[str]:
    """A note per condition that differs between runs, whose numbers are then not comparable.

    Args:
        conditions: `conditions_of` reports → number of runs.

    >>> uneven({(128, 10, 1, "float32", "ce"): 14, (64, 10, 1, "float32", "ce"): 1,
    ...     (None,) * 5: 15})
    ['B is not the same in all runs: 128 (14 runs), 64 (1 run); (b) and (c) depend on it']
    """
    notes = []
    for place, (name, effect) in enumerate(CONDITIONS.values()):
        runs: Counter[object] = Counter()
        for values, count in conditions.items():
            runs[values[place]] += count
        del runs[None]
        if len(runs) > 1:
            shares = ", ".join(
                f"{value} ({count_text(count, 'run')})" for value, count in runs.most_common()
            )
            notes.append(f"{name} is not the same in all runs: {shares}; {effect}")
    return notes


def settings_of(row: AuditRow) -> Json:
    """What a run was trained and measured with, as far as its record says: its network with its
    arguments, method's options, recipe, axes, and the conditions of the measurement."""
    facts = row.report.provenance
    places = [facts.get(part, {}) for part in ("arch_args", "method_args", "recipe")]
    names = (name for name, _ in CONDITIONS.values())
    conditions = dict(zip(names, conditions_of(row.report), strict=True))
    found = {"arch": facts.get("arch")}
    for place in (*places, row.axes, conditions):
        found.update(place)
    return {name: value for name, value in found.items() if isinstance(value, (str, int, float))}


def values_on_axes(row: AuditRow, names: Collection[str]) -> Json:
    """A run's values on axes: its own, else what its audit records of its network or training.

    A run that has the default on an axis does not carry that axis.

    Returns:
        Axis → value; None where neither tells it.

    >>> facts = {"arch": "resmlp", "recipe": {"lam": 0.0}}
    >>> plain = AuditRow(source="", key="", method="dfa", report=DiagnosticReport(provenance=facts))
    >>> values_on_axes(plain, ["arch", "lam", "d"])
    {'arch': 'resmlp', 'lam': 0.0, 'd': None}
    """
    known = row.axes if row.axes.keys() >= {*names} else settings_of(row) | row.axes
    return {name: known.get(name) for name in names}


def recipe_of(row: AuditRow) -> Json:
    """The recipe that a run was trained by, as its audit records it, but λ."""
    found = row.report.provenance.get("recipe", {})
    return without(found, "lam") if len(found) <= _MOST_FACTS else {}


def axes_of_methods(rows: Sequence[AuditRow]) -> dict[str, list[str]]:
    """Method → axes that differ among its runs and belong to their names: their own, and what of
    the recipe differs among those of one file or folder that agree in these (`values_on_axes`)."""
    found = differing_axes((row.method, row.axes) for row in rows)
    known: dict[tuple[str, str, str, str], object] = {}
    for home, row in zip(homes([row.source for row in rows]), rows, strict=True):
        if recipe := recipe_of(row):
            own = str(sorted(row.axes.items()))
            for name, value in recipe.items():
                first = known.setdefault((home, row.method, own, name), value)
                if value != first:
                    found[row.method].append(name)
    return {method: list(dict.fromkeys(axes)) for method, axes in found.items()}


def row_named(name: str, source: str) -> AuditRow:
    """The row of an unmeasured run, named by a name or path (`name_of`)."""
    return AuditRow(source=source, **name_of(name)._asdict())


def row_of_file(path: str, root: str) -> AuditRow:
    """The row of an unmeasured file, named by its path; a folder of hydra's that was opened is
    called as the overrides in it say.

    Args:
        path: the file.
        root: the named file or folder that it was found in; above that no overrides count.
    """
    file, top = Path(path).absolute(), Path(root).absolute()
    if is_file(top):
        top = top.parent
    for folder in file.parents[:_NEAREST]:
        said = folder / ".hydra" / "overrides.yaml"
        if not (folder.is_relative_to(top) and is_file(said)):
            continue
        if real_path(said).is_relative_to(real_path(folder)):
            with suppress(UnreadableInput, ValueError):
                found = _OVERRIDE.findall(read_file(said, LONGEST_NAME).decode())
                file = folder / ",".join(found).replace("/", ".") / file.relative_to(folder)
            break
    return row_named(str(file), path)


def with_given_baseline(row: AuditRow, baseline: FrozenBaseline) -> AuditRow:
    """A newly measured row with the given baseline as its own, unless it has one; marked as given,
    so that a resumed audit does not take it for the run's own.

    An existing baseline is never replaced, only overridden by an assumed one.
    """
    report = row.report
    acc = baseline.assumed_for(row.method)
    if report.frozen_baseline_acc is not None or acc is None or not report.coverage:
        return row.judged_by(baseline)
    facts = {**report.provenance, BASELINE_FROM: GIVEN}
    return replace(row, report=replace(report.with_frozen_baseline(acc), provenance=facts))


def row_of_manifest(manifest: Manifest, place: str) -> AuditRow:
    """A run as its manifest alone describes it."""
    report = DiagnosticReport(
        method_name=manifest.method,
        headline_acc=manifest.headline_acc,
        provenance=asdict(manifest),
    )
    return AuditRow(
        source=place,
        key="",
        method=manifest.method,
        seed=manifest.seed,
        report=report,
        checkpoint=place,
    )
