"""A run of the audit table: its source, method, seed, axes and report."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from fa_core.decode import Json
from fa_core.facts.controls import CONTROLS
from fa_core.facts.method_style import known_method
from fa_core.facts.run_names import split_key
from fa_core.judgement.baseline import FrozenBaseline
from fa_core.numbers import count_text
from fa_core.report import DiagnosticReport
from fa_core.sanitize import WHITE_SPACE, sanitize
from fa_core.text.verdict import verdict_words
from fa_core.text.verdict_cell import run_cell

K = TypeVar("K", bound=Hashable)


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
    """

    source: str
    key: str
    method: str
    seed: int | None = None
    report: DiagnosticReport = DiagnosticReport()
    checkpoint: str | None = None
    axes: Json = {}

    @property
    def is_control(self) -> bool:
        """Whether the run is a control."""
        return self.method in CONTROLS

    def standing(self) -> str:
        """A judged run's standing, as shown by all front ends."""
        return self.report.standing(self.is_control)

    def words(self, *, short: bool = False) -> str:
        """A judged run's verdict text; for a control, a note that it is one."""
        return verdict_words(self.report, self.is_control, short=short)

    def cell(self, *, ascii_only: bool = False) -> str:
        """A judged run in five characters."""
        return run_cell(self.report, control=self.is_control, ascii_only=ascii_only)

    def judged_by(self, baseline: FrozenBaseline) -> AuditRow:
        """The run judged by a frozen baseline, if it was measured."""
        report = self.report
        judged = baseline.assumed_in(report, self.method)
        if judged is report or not report.coverage:
            return self
        return replace(self, report=judged)


RECORDED = (
    "headline_acc",
    "h_L",
    "g_L",
    "max_per_block_growth",
    "cross_batch_stability",
    "frozen_baseline_acc",
    "margin_pp",
)
"""The numbers of a report that every record of a run has."""

_recorded_of = attrgetter(*RECORDED)


def recorded(row: AuditRow, report: DiagnosticReport) -> Json:
    """The common fields of all records of a run; None for unmeasured values."""
    return {
        "source": row.source,
        "method": row.method,
        "seed": row.seed,
        **dict(zip(RECORDED, _recorded_of(report), strict=True)),
        "flags": "".join(sorted(report.flags)),
        "coverage": report.measured,
        "verdict": report.verdict,
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
}
"""Field with a condition of the measurement → its name, and its effect."""

conditions_of = attrgetter(*CONDITIONS)
"""The conditions of a report: values of `CONDITIONS`, None if not recorded."""


def uneven(conditions: Mapping[tuple[object, ...], int]) -> list[str]:
    """A note per condition that differs between runs, whose numbers are then not comparable.

    Args:
        conditions: `conditions_of` reports → number of runs.

    >>> uneven({(128, 10, 1, "float32"): 14, (64, 10, 1, "float32"): 1, (None, None, None,
    ...     None): 15})
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


def differing_axes(rows: Iterable[tuple[K, AuditRow]]) -> dict[K, list[str]]:
    """The axes that differ among the rows of a group, which belong to the rows' names.

    Every row with such an axis is named with it, even if its seed is not repeated: otherwise it
        would read as a plain run.

    Args:
        rows: pairs of group (e.g. method and place) and row.

    Returns:
        Group → axes, those that most rows have first.
    """
    seen: defaultdict[K, Counter[frozenset[tuple[str, str]]]] = defaultdict(Counter)
    for group, row in rows:
        seen[group][frozenset((name, str(value)) for name, value in row.axes.items())] += 1
    return {group: _differing(kinds) for group, kinds in seen.items()}


def value_on_axis(row: AuditRow, name: str) -> object:
    """A run's value on an axis: its own, else what its audit records of its network or training.

    A run that has the default on an axis does not carry that axis.

    Returns:
        None where neither tells it.

    >>> facts = {"arch": "resmlp", "recipe": {"lam": 0.0}}
    >>> plain = AuditRow(source="", key="", method="dfa", report=DiagnosticReport(provenance=facts))
    >>> value_on_axis(plain, "arch"), value_on_axis(plain, "lam"), value_on_axis(plain, "d")
    ('resmlp', 0.0, None)
    """
    if name in row.axes:
        return row.axes[name]
    facts = row.report.provenance
    places: list[object] = [facts.get(place) for place in ("arch_args", "method_args", "recipe")]
    if name == "arch":
        places.append(facts)
    for place in places:
        if isinstance(place, Mapping) and isinstance(place.get(name), (str, int, float)):
            return place[name]
    return None


def _differing(kinds: Counter[frozenset[tuple[str, str]]]) -> list[str]:
    shared = frozenset.intersection(*kinds)
    rows_with: Counter[str] = Counter()
    for axes, count in kinds.items():
        for name, _ in axes - shared:
            rows_with[name] += count
    return sorted(rows_with, key=lambda name: (-rows_with[name], name))


_EPOCH = re.compile(r"^(?:epoch|ep|step|ckpt|checkpoint)[_-]?(?P<number>\d{1,18})$")
_SUFFIX = re.compile(
    r"\.(?:json|jsonl|ndjson|safetensors|pt|pt2|pth|ckpt|bin|csv|tsv)(?:\.(?:tar|gz))?$",
    re.IGNORECASE,
)
_ONLY_SEED = re.compile(r"(?:s|seed[_-]?)\d{1,18}", re.IGNORECASE)
_GENERAL = frozenset(
    {"model", "checkpoint", "ckpt", "weights", "net", "network", "best", "last", "final"}
    | {"metrics", "trainer_state", "log", "history"}
)
"""File names that do not name the run."""


def row_of_file(path: str) -> AuditRow:
    """The row of an unmeasured file, named after the file if its name has a seed, else after its
    folder.

    A name without method, or a meaningless name in the folder of a known method, takes the method
    from the parent folder.

    >>> row = row_of_file("runs/dfa_pen_lam0.01_s42.json")
    >>> row.key, row.method, row.seed, row.axes
    ('dfa_pen_lam0.01_s42', 'dfa', 42, {'lam': 0.01})
    >>> row = row_of_file("runs/ep_s7/epoch_10.pt")
    >>> row.key, row.method, row.seed, row.axes
    ('ep_s7/epoch_10', 'ep', 7, {'epoch': 10})
    >>> row = row_of_file("dfa/seed42/model.pt")
    >>> row.key, row.method, row.seed
    ('dfa/seed42/model', 'dfa', 42)
    >>> row_of_file("weights.pt").method
    'weights'
    """
    file = Path(path)
    key = named_by = sanitize(_SUFFIX.sub("", file.name), WHITE_SPACE)
    folder = sanitize(file.parent.name, WHITE_SPACE)
    above = sanitize(file.parent.parent.name, WHITE_SPACE)
    method, seed, axes = split_key(key)
    folder_method, folder_seed, folder_axes = split_key(folder)
    if seed is None and folder_seed is not None:
        epoch = _EPOCH.match(key.lower())
        axes = {**folder_axes, **axes, **({"epoch": int(epoch["number"])} if epoch else {})}
        key, method, seed = f"{folder}/{key}", folder_method, folder_seed
        named_by, folder = folder, above
    holder, _, more = split_key(folder)
    if folder and (_ONLY_SEED.fullmatch(named_by) or (method in _GENERAL and known_method(holder))):
        key, method, axes = f"{folder}/{key}", holder, {**more, **axes}
    return AuditRow(
        source=path,
        key=key,
        method=method or ("unknown" if seed is None else ""),
        seed=seed,
        axes=axes,
    )
