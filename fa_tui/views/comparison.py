"""Runs side by side: which belong together, and the lines that compare them. Pure; drawn by the compare view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fa_core.analysis import LayerSpread, across_runs, first_parting
from fa_core.report import LETTERS, DiagnosticReport
from fa_tui.session import Session
from fa_tui.views.grid import build_grid
from fa_tui.views.quantities import BY_NAME, Quantity
from fa_tui.widgets.detail_layers import growths
from fa_tui.widgets.numbers import short

AT_MOST = 6
"""Runs side by side: more columns than that cannot be told apart."""

MARKED = "marked runs"


class Group(NamedTuple):
    """Runs to compare.

    Attributes:
        name: a method with its axes, or that the runs were marked.
        rows: indices of at most `AT_MOST` runs.
        left_out: how many more there are.
        home: the file or folder they came from, where several are open.
    """

    name: str
    rows: tuple[int, ...]
    left_out: int = 0
    home: str = ""


class ComparedLine(NamedTuple):
    """One line of a comparison.

    Attributes:
        kind: ``heading``, ``verdict``, ``h``, ``growth``, ``g`` or ``number``.
        label: what the line is about; a heading's whole text.
        spread: the runs' values (none of a heading or of the verdicts).
        parts: whether this is the first layer at which the runs part.
        quantity: what a ``number`` is.
    """

    kind: str
    label: str
    spread: LayerSpread | None = None
    parts: bool = False
    quantity: Quantity | None = None


def groups_of(session: Session, shown: Iterable[int] | None = None) -> list[Group]:
    """What can be compared: the marked runs if there are two or more, then every method over its seeds.

    Args:
        session: the runs.
        shown: indices that pass the filter (default: all).
    """
    groups: list[Group] = []
    marked = sorted(session.marked)
    if len(marked) > 1:
        groups.append(Group(MARKED, tuple(marked[:AT_MOST]), max(0, len(marked) - AT_MOST)))
    home = ""
    for line in build_grid(session.rows, shown).lines:
        if line.is_heading:
            home = line.label
        else:
            runs = line.runs()
            groups.append(Group(line.label, tuple(runs[:AT_MOST]), max(0, len(runs) - AT_MOST), home))
    return groups


def column_labels(session: Session, group: Group) -> list[tuple[str, str]]:
    """A name per run in two parts, of which the first may be cut short.

    The seed where only seeds differ, else method and seed; numbered where that is not enough.
    """
    rows = [session.rows[index] for index in group.rows]
    seeds = [row.seed for row in rows]
    if group.name != MARKED and None not in seeds and len(set(seeds)) == len(seeds):
        return [("", f"s{seed}") for seed in seeds]
    seen: Counter[tuple[str, str]] = Counter()
    labels = []
    for row in rows:
        name = (row.method, "" if row.seed is None else f" s{row.seed}")
        seen[name] += 1
        labels.append((name[0], f"{name[1]} #{seen[name]}" if seen[name] > 1 else name[1]))
    return labels


def compared_lines(reports: Sequence[DiagnosticReport]) -> list[ComparedLine]:
    """The verdicts; ‖h_l‖, growth per block and ‖g_l‖ layer by layer; then the numbers that are judged.

    Args:
        reports: of the runs, judged by the thresholds.
    """
    norms = [report.residual_norms for report in reports]
    lines = [ComparedLine("verdict", "verdict")]
    lines += _section("h", "‖h_l‖ residual stream", norms, depth_words(norms))
    lines += _section("growth", "growth per block", [growths(each) for each in norms])
    lines += _section("g", "‖g_l‖ BP gradient", [report.bp_grad_norms for report in reports])
    numbers = _numbers(reports)
    return [*lines, *([ComparedLine("heading", "judged numbers")] if numbers else []), *numbers]


def agreement(reports: Sequence[DiagnosticReport]) -> tuple[str, str]:
    """Letters on which all measured runs agree, and letters that fire on some of them only.

    >>> agreement([DiagnosticReport(residual_norms=[1.0, 99.0]), DiagnosticReport(residual_norms=[1.0, 2.0])])
    ('', 'a')
    """
    agree = disagree = ""
    for letter in LETTERS:
        fires = {letter in report.flags for report in reports if letter in report.coverage}
        if len(fires) > 1:
            disagree += letter
        elif fires:
            agree += letter
    return agree, disagree


def parting_words(layers: Sequence[LayerSpread], where: str) -> str:
    """Where the runs part, or how close they stay; nothing where they cannot be compared.

    Args:
        layers: all of them.
        where: the name of the layer at which they part, or ``""``.
    """
    ratios = [layer.ratio for layer in layers if layer.ratio is not None]
    if not ratios:
        return ""
    return f": part at {where}" if where else f": together, at most ×{short(max(ratios))} apart"


def depth_words(norms: Sequence[Sequence[float]]) -> str:
    """That the runs are of different depth, where they are.

    >>> depth_words([[1.0] * 5, [1.0] * 9, []]), depth_words([[1.0] * 5, [1.0] * 5])
    ('; depth L = 4, 8', '')
    """
    depths = list(dict.fromkeys(len(run) - 1 for run in norms if run))
    return f"; depth L = {', '.join(map(str, depths))}" if len(depths) > 1 else ""


def _section(kind: str, title: str, curves: Sequence[Sequence[float]], remark: str = "") -> list[ComparedLine]:
    layers = across_runs(curves)
    if not layers:
        return []
    parting = first_parting(layers)
    kinds = "block" if kind == "growth" else "layer"
    names = [f"{layer.layer}→{layer.layer + 1}" if kind == "growth" else f"{layer.layer}" for layer in layers]
    heading = title + parting_words(layers, f"{kinds} {names[parting.layer]}" if parting else "") + remark
    return [
        ComparedLine("heading", heading),
        *(ComparedLine(kind, name, layer, layer is parting) for name, layer in zip(names, layers, strict=True)),
    ]


def _numbers(reports: Sequence[DiagnosticReport]) -> list[ComparedLine]:
    lines = []
    for name in ("growth", "g_L", "stability", "margin", "acc", "frozen"):
        quantity = BY_NAME[name]
        values = tuple(quantity.of(report) for report in reports)
        if all(value is None for value in values):
            continue
        known = across_runs([[] if value is None else [value] for value in values])[0]
        label = f"{quantity.letter} {quantity.label}".strip()
        # a ratio of cosines, margins or accuracies says nothing
        spread = LayerSpread(
            layer=0,
            values=values,
            ratio=known.ratio if name in ("growth", "g_L") else None,
            mean=known.mean,
            std=known.std,
        )
        lines.append(ComparedLine("number", label, spread, quantity=quantity))
    return lines
