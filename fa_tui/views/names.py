"""What a run is called beside others: its method, and what it takes to tell it from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fa_core.errors import printable
from fa_core.rows import AuditRow
from fa_core.runs import run_place
from fa_tui.views.axes import axes_text
from fa_tui.views.grid import homes_of


def labels(rows: Sequence[AuditRow]) -> list[str]:
    """A name per row, without the seed: ``dfa``, ``dfa λ=0.01``, ``bp (main/bp_s42)``.

    Axes, the run's place and its key stand only behind names that runs of one seed would share without them.
    """
    found = [row.method for row in rows]
    for more in (_axes, _place, _key):
        found = _extended(found, rows, more)
    return [printable(label) for label in found]


def told_apart(rows: Sequence[AuditRow]) -> list[tuple[str, str]]:
    """A name per row in two parts, of which the first may be cut short: ``("dfa", " s42 λ=0.1")``.

    The axes that differ, the place and a number stand only behind names that would repeat without them.
    """
    found = [(row.method, "" if row.seed is None else f" s{row.seed}") for row in rows]
    for more in (_differing, _source, _numbers):
        shared: dict[tuple[str, str], list[int]] = {}
        for place, name in enumerate(found):
            shared.setdefault(name, []).append(place)
        for (method, rest), places in shared.items():
            if len(places) > 1:
                words = more([rows[place] for place in places])
                for place, word in zip(places, words, strict=True):
                    found[place] = (method, f"{rest} {word}".rstrip())
    return [(printable(method), printable(rest)) for method, rest in found]


def among(rows: Iterable[AuditRow], row: AuditRow) -> str:
    """What `told_apart` calls one of the rows."""
    alike = [each for each in rows if (each.method, each.seed) == (row.method, row.seed)]
    return "".join(told_apart(alike)[next(place for place, each in enumerate(alike) if each is row)])


def with_seed(label: str, row: AuditRow) -> str:
    """A run in words, e.g. ``dfa λ=0.01 seed 42``."""
    return label if row.seed is None else f"{label} seed {row.seed}"


def _extended(found: Sequence[str], rows: Sequence[AuditRow], more: Callable[[AuditRow], str]) -> list[str]:
    counts = Counter(zip(found, (row.seed for row in rows), strict=True))
    return [label + more(row) if counts[label, row.seed] > 1 else label for label, row in zip(found, rows, strict=True)]


def _differing(rows: Sequence[AuditRow]) -> list[str]:
    """Of each row the axes whose values are not the same on all."""
    pairs = [{(name, str(value)) for name, value in row.axes.items()} for row in rows]
    same = {name for name, _ in set.intersection(*pairs)}
    runs_on = Counter(name for row in rows for name in row.axes if name not in same)
    # a name cut short keeps its end: an axis that few have comes last
    order = sorted(runs_on, key=lambda name: (-runs_on[name], name))
    return [" ".join(axes_text({name: row.axes[name]}) for name in order if name in row.axes) for row in rows]


def _source(rows: Sequence[AuditRow]) -> list[str]:
    """Of each row the heading it stands below in the matrix, or the place it lies in if that says more."""
    homes = [f"({home})" for home in homes_of(rows, range(len(rows))).values()]
    places = [_place(row).strip() for row in rows]
    told = places if len(set(places)) > len(set(homes)) else homes
    return told if len(set(told)) > 1 else [""] * len(rows)


def _numbers(rows: Sequence[AuditRow]) -> list[str]:
    return ["", *(f"#{number}" for number in range(2, len(rows) + 1))]


def _axes(row: AuditRow) -> str:
    return f" {axes_text(row.axes)}" if row.axes else ""


def _place(row: AuditRow) -> str:
    return f" ({'/'.join(Path(run_place(row.source)).parts[-2:])})"


def _key(row: AuditRow) -> str:
    return f" {row.key}"
