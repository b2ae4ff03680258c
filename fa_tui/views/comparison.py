"""Groups of runs, and the lines that compare them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from fa_core.analysis.seeds import LayerSpread, across_runs, first_parting, ratio_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import BIT, block_growths
from fa_core.report.numbers import short
from fa_core.report.quantities import Quantity, named
from fa_core.reporting.sections.analyses import stat_words
from fa_core.sanitize import sanitize
from fa_tui.session import Session
from fa_tui.views.grid import build_grid
from fa_tui.views.words import disambiguate

MARKED = "marked runs"

MOST = 200
"""At most so many runs are compared: their reports are all read."""


_COMPARED = named("growth", "g_L", "drift", "margin", "acc", "frozen")
"""Quantities of a run that are compared."""


class Group(NamedTuple):
    """Runs to compare.

    Attributes:
        name: of the line of the matrix, a method with its axes, or `MARKED`.
        rows: indices of its runs.
        home: their file or folder, if several are open.
        left_out: number of runs beyond `MOST`.
    """

    name: str
    rows: tuple[int, ...]
    home: str = ""
    left_out: int = 0

    @classmethod
    def of(cls, name: str, rows: Sequence[int], home: str = "") -> Group:
        """The first of some runs."""
        return cls(name, tuple(rows[:MOST]), home, max(0, len(rows) - MOST))


NOBODY = Group("", ())
"""The group where no run passes the filter."""


class ComparedLine(NamedTuple):
    """One line of a comparison.

    Attributes:
        kind: ``heading``, ``verdict``, ``h``, ``growth``, ``g`` or ``number``.
        label: a layer, a block or a quantity; a heading's whole text.
        spread: the runs' values; None for headings and verdicts.
        parts: whether this is the first layer at which the runs diverge.
        quantity: of a ``number``.
    """

    kind: str
    label: str
    spread: LayerSpread | None = None
    parts: bool = False
    quantity: Quantity | None = None

    @property
    def name(self) -> str:
        """``‖h_3‖``, ``growth 0→1``, ``margin pp``"""
        if self.kind in ("h", "g"):
            return f"‖{self.kind}_{self.label}‖"
        if self.kind == "growth":
            return f"growth {self.label}"
        return self.label


def groups_of(session: Session) -> list[Group]:
    """The groups to compare: two or more marked runs, then every line of the matrix; without the
    runs that count nowhere."""
    groups: list[Group] = []
    void = session.runs.void
    marked = sorted(session.marked - void)
    if len(marked) > 1:
        groups.append(Group.of(MARKED, marked))
    home = ""
    for line in build_grid(session.rows, sorted({*session.in_scope} - void)).lines:
        if line.is_heading:
            home = line.label
        else:
            groups.append(Group.of(line.label, line.runs(), home))
    return groups


def place_of(wanted: Group, groups: Sequence[Group], place: int) -> int:
    """Index of a group after a reload: same name, else a shared run, else the nearest index.

    Args:
        wanted: the group before.
        groups: the groups now.
        place: index before.
    """
    for now, group in enumerate(groups):
        if (group.name, group.home) == (wanted.name, wanted.home):
            return now
    runs = set(wanted.rows)
    for now, group in enumerate(groups):
        if group.name != MARKED and not runs.isdisjoint(group.rows):
            return now
    return max(0, min(place, len(groups) - 1))


def column_labels(session: Session, group: Group) -> list[str]:
    """A name per run: as in `disambiguate`, but in a line of the matrix without the method, which
    its name says."""
    rows = [session.rows[index] for index in group.rows]
    names = disambiguate(rows)
    if group.name == MARKED:
        return names
    parts = zip(rows, names, strict=True)
    return [name.removeprefix(sanitize(row.method)).strip() or name for row, name in parts]


def are_seeds(session: Session, rows: Sequence[int]) -> bool:
    """Whether runs are seeds of one method (`conditions`), so that their mean is meaningful."""
    # it imports NumPy: after the first paint
    from fa_core.analysis.method_groups import conditions

    return len(conditions(session.runs.table.select(rows))) == 1


def agreement(session: Session, group: Group) -> Iterator[tuple[str, str]]:
    """On how many of the runs each diagnostic fires; one on which they disagree stands out."""
    rows = group.rows
    if len(rows) < 2:
        yield " one run: nothing to compare it with; mark some in the matrix (space)", "warn"
        return
    yield (f" of the first {len(rows)}" if group.left_out else "") + " fires on", "dim"
    for letter, bit in BIT.items():
        measured, fires, doubtful = (
            sum(bool(masks[row] & bit) for row in rows)
            for masks in (session.coverage, session.flags, session.undecided)
        )
        if not measured:
            yield f"  {letter} not measured", "dim"
            continue
        doubt = f" ({doubtful} undecided)" if doubtful else ""
        tone = "bad" if fires == measured else "warn" if fires or doubtful else "good"
        yield f"  {letter} {fires} of {measured}{doubt}", tone


def compared_lines(reports: Sequence[DiagnosticReport]) -> list[ComparedLine]:
    """The lines of a comparison, which no threshold changes.

    They are the verdicts, ‖h_l‖, growth per block and ‖g_l‖ layer by layer, and the judged numbers.

    Args:
        reports: of the runs.
    """
    norms = [report.stream("residual_norms") for report in reports]
    growths = list(map(block_growths, norms))
    gradients = [report.stream("bp_grad_norms") for report in reports]
    h = _section("h", "‖h_l‖ residual stream", norms, depth_words(norms))
    growth = _section("growth", "growth per block", growths)
    g = _section("g", "‖g_l‖ BP gradient", gradients)
    return [ComparedLine("verdict", "verdict"), *h, *growth, *g, *_numbers(reports)]


def spread_words(line: ComparedLine) -> str:
    """Mean and spread of a line, as in tables over seeds; ``""`` for verdicts.

    >>> values = LayerSpread(layer=0, values=(0.09, 0.11), ratio=1.2)
    >>> from fa_core.report.quantities import BY_NAME
    >>> drift = ComparedLine("number", "c drift", values, quantity=BY_NAME["drift"])
    >>> spread_words(ComparedLine("h", "0", values)), spread_words(drift)
    ('0.0995 (×1.2)', '0.100 ± 0.014')
    """
    if line.spread is None:
        return ""
    stat = line.spread.stat(line.quantity is None or line.quantity.log)
    if stat.n:
        return stat_words(stat)
    return ""


def block_name(block: int) -> str:
    """A block by its layers, ``0→1``."""
    return f"{block}→{block + 1}"


def depth_words(norms: Sequence[Sequence[float]]) -> str:
    """The runs' depths, if they differ.

    >>> depth_words([[1.0] * 5, [1.0] * 9, []]), depth_words([[1.0] * 5, [1.0] * 5])
    ('; depth L = 4, 8', '')
    """
    depths = dict.fromkeys(str(len(run) - 1) for run in norms if run)
    if len(depths) > 1:
        return f"; depth L = {', '.join(depths)}"
    return ""


def _section(
    kind: str, title: str, curves: Sequence[Sequence[float]], remark: str = ""
) -> list[ComparedLine]:
    layers = across_runs(curves)
    if not layers:
        return []
    parting = first_parting(layers)
    noun = "layer"
    name_of: Callable[[int], str] = str
    if kind == "growth":
        noun = "block"
        name_of = block_name
    ratios = [layer.ratio for layer in layers if layer.ratio is not None]
    if parting:
        title += f": diverge at {noun} {name_of(parting.layer)}"
    elif ratios:
        title += f": within ×{short(max(ratios))}"
    lines = [ComparedLine(kind, name_of(one.layer), one, one is parting) for one in layers]
    return [ComparedLine("heading", title + remark), *lines]


def _numbers(reports: Sequence[DiagnosticReport]) -> list[ComparedLine]:
    heading = "judged numbers"
    if any(report.measured != report.coverage for report in reports):
        heading += "   ?: by an assumed frozen baseline"
    lines = [ComparedLine("heading", heading)]
    for quantity in _COMPARED:
        values = tuple(map(quantity.of, reports))
        if values.count(None) == len(values):
            continue
        # ratios of cosines, margins or accuracies are meaningless
        ratio = ratio_of(values) if quantity.log else None
        spread = LayerSpread(layer=0, values=values, ratio=ratio)
        label = f"{quantity.letter} {quantity.title}".strip()
        lines.append(ComparedLine("number", label, spread, quantity=quantity))
    if len(lines) > 1:
        return lines
    return []
