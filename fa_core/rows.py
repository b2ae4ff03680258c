"""One run as the audit table sees it: where it came from, which method and seed, what was measured."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

import msgspec

from fa_core.decode import harmless
from fa_core.report import DiagnosticReport
from fa_core.runs import split_key


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the audit table.

    Attributes:
        source: the file the numbers (or the unmeasured checkpoint) came from.
        key: its name inside the source, e.g. ``"dfa_s42"``; unique per source.
        method: canonical method name (see `canonical_method`), e.g. ``"state_bridge"``.
        seed: None where the source names none.
        report: the measurements; an empty report for a checkpoint that is not measured yet.
        checkpoint: a file or run folder that `fa-tui audit` can measure, if there is one.
        axes: further coordinates of the run: ``lam``, ``d``, ``L``, ``arch``, ...
    """

    source: str
    key: str
    method: str
    seed: int | None = None
    report: DiagnosticReport = DiagnosticReport()
    checkpoint: str | None = None
    axes: dict[str, Any] = {}


class RowStore(Protocol):
    """The reports of `LazyRow`s, by slot.

    Attributes:
        numbers: what was measured, as an `AuditTable` without names (`AuditTable.of_reports`).
    """

    numbers: Any

    def report(self, slot: int) -> DiagnosticReport: ...

    def text(self, slot: int) -> bytes | None:
        """A report as the file spells it; None where that is not known."""


RECORDED = (
    *("headline_acc", "h_L", "g_L", "max_per_block_growth", "cross_batch_stability", "frozen_baseline_acc"),
    "margin_pp",
)
"""The numbers of a report that every record of a run has."""


def recorded(row: AuditRow, report: DiagnosticReport) -> dict[str, Any]:
    """What every record of a run has, its judged report given; None where something was not measured."""
    return {
        **{name: getattr(row, name) for name in ("source", "method", "seed")},
        **{name: getattr(report, name) for name in RECORDED},
        "flags": "".join(sorted(report.flags)),
        "coverage": report.measured,
        "verdict": report.verdict,
        "recorded_verdict": report.recorded_verdict,
        "key": row.key,
        "axes": row.axes,
    }


UNREAD = DiagnosticReport()
"""What a `LazyRow` holds in place of its report."""

_own_report: Callable[[AuditRow], DiagnosticReport] = AuditRow.__dict__["report"].__get__
_names = attrgetter(*(name for name in AuditRow.__struct_fields__ if name != "report"))


class LazyRow(AuditRow, frozen=True, kw_only=True, eq=False, gc=False):
    """A row of a big file, in a tenth of the memory: its report is decoded on each access.

    Attributes:
        store: holds its report.
        slot: the report's index in the store.
    """

    store: RowStore
    slot: int

    @property  # type: ignore[misc]  # over an attribute, but that is read-only too
    def report(self) -> DiagnosticReport:
        """The report; another one if the row was given that (`msgspec.structs.replace`)."""
        return self.store.report(self.slot) if self.is_as_stored else _own_report(self)

    @property
    def is_as_stored(self) -> bool:
        """Whether its report is the one in the store."""
        return _own_report(self) is UNREAD

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, AuditRow) or _names(self) != _names(other):
            return False
        if isinstance(other, LazyRow) and self.is_as_stored and other.is_as_stored:
            text = self.store.text(self.slot)
            if text is not None and text == other.store.text(other.slot):  # a file that was replaced, mostly alike
                return True
        return bool(self.report == other.report)

    def __ne__(self, other: Any) -> bool:
        return not self == other  # not msgspec's own, to which other stores are other rows

    def __reduce__(self) -> tuple[Callable[..., AuditRow], tuple[object, ...]]:
        """Sent to another process it is a plain row: its store stays here."""
        return partial(AuditRow, **{name: getattr(self, name) for name in AuditRow.__struct_fields__}), ()


class Problem(msgspec.Struct, frozen=True):
    """A path that could not be opened: one line for the user, nothing lost."""

    path: str
    message: str


CONDITIONS = {
    "batch_size": ("B", "(b) and (c) depend on it"),
    "n_batches": ("K", "the interval of (c) depends on it"),
    "norm_batches": ("batches behind (a) and (b)", "their intervals depend on it"),
    "dtype": ("arithmetic", "the last digits, and what underflows, depend on it"),
}
"""Fields of a report that say how it was measured → what they are called, and what they change."""

conditions_of = attrgetter(*CONDITIONS)
"""How a report was measured: the values of `CONDITIONS`, None where that is not recorded."""


def uneven(conditions: Mapping[tuple[Any, ...], int]) -> list[str]:
    """A line per condition in which runs differ, so that their numbers do not compare as they are.

    Args:
        conditions: `conditions_of` reports → how many runs have them.

    >>> uneven({(128, 10, 1, "float32"): 14, (64, 10, 1, "float32"): 1, (None, None, None, None): 15})
    ['B is not the same in all runs: 128 (14 runs), 64 (1 run); (b) and (c) depend on it']
    """
    said = []
    for place, (name, effect) in enumerate(CONDITIONS.values()):
        runs: Counter[Any] = Counter()
        for values, count in conditions.items():
            runs[values[place]] += count
        del runs[None]
        if len(runs) > 1:
            shares = ", ".join(f"{value} ({n} run{'s' * (n > 1)})" for value, n in runs.most_common())
            said.append(f"{name} is not the same in all runs: {shares}; {effect}")
    return said


_EPOCH = re.compile(r"^(?:epoch|ep|step|ckpt|checkpoint)[_-]?(?P<number>\d{1,18})$")
_SUFFIX = re.compile(r"\.(?:json|jsonl|ndjson|safetensors|pt|pt2|pth|ckpt|bin|csv|tsv|db)$", re.IGNORECASE)


def row_of_file(path: str) -> AuditRow:
    """The row of a file without measurements: named by the file if its name has a seed, else by its folder.

    >>> row = row_of_file("runs/dfa_pen_lam0.01_s42.json")
    >>> row.key, row.method, row.seed, row.axes
    ('dfa_pen_lam0.01_s42', 'dfa', 42, {'lam': 0.01})
    >>> row = row_of_file("runs/ep_s7/epoch_10.pt")
    >>> row.key, row.method, row.seed, row.axes
    ('ep_s7/epoch_10', 'ep', 7, {'epoch': 10})
    >>> row_of_file("weights.pt").method
    'weights'
    """
    file = Path(path)
    key = harmless(_SUFFIX.sub("", file.name))
    method, seed, axes = split_key(key)
    folder = harmless(file.parent.name)
    folder_method, folder_seed, folder_axes = split_key(folder)
    if seed is None and folder_seed is not None:
        epoch = _EPOCH.match(key.lower())
        axes = {**folder_axes, **axes, **({"epoch": int(epoch["number"])} if epoch else {})}
        key, method, seed = f"{folder}/{key}", folder_method, folder_seed
    return AuditRow(source=path, key=key, method=method or ("unknown" if seed is None else ""), seed=seed, axes=axes)
