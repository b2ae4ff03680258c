"""What a run is called beside others: its method, and what it takes to tell it from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from fa_core.errors import printable
from fa_core.rows import AuditRow
from fa_tui.views.axes import axes_text


def labels(rows: Sequence[AuditRow]) -> list[str]:
    """A name per row, without the seed: ``dfa``, ``dfa λ=0.01``, ``bp (main/bp_s42)``.

    Axes, the run's place and its key stand only behind names that runs of one seed would share without them.
    """
    found = [row.method for row in rows]
    for more in (_axes, _place, _key):
        found = _extended(found, rows, more)
    return [printable(label) for label in found]


def with_seed(label: str, row: AuditRow) -> str:
    """A run in words, e.g. ``dfa λ=0.01 seed 42``."""
    return label if row.seed is None else f"{label} seed {row.seed}"


def _extended(found: Sequence[str], rows: Sequence[AuditRow], more: Callable[[AuditRow], str]) -> list[str]:
    counts = Counter(zip(found, (row.seed for row in rows), strict=True))
    return [label + more(row) if counts[label, row.seed] > 1 else label for label, row in zip(found, rows, strict=True)]


def _axes(row: AuditRow) -> str:
    return f" {axes_text(row.axes)}" if row.axes else ""


def _place(row: AuditRow) -> str:
    path = Path(row.source)
    path = path.parent if path.name in ("audit.json", "manifest.json") else path
    return f" ({'/'.join(path.parts[-2:])})"


def _key(row: AuditRow) -> str:
    return f" {row.key}"
