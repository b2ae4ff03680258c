"""The reporting form: the parts of a paper's appendix about a set of audited runs, in order."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import numpy as np
from msgspec.structs import replace

from fa_core.analysis.claims import ClaimResult
from fa_core.analysis.method_groups import conditions, families
from fa_core.analysis.seeds import over_seeds
from fa_core.analysis.threshold_sweep import sensitivities
from fa_core.analysis.timeline import Replay
from fa_core.analysis.utility import decision_utility
from fa_core.errors import UsageError
from fa_core.files.atomic import place_of, write_bytes
from fa_core.formats import Trace
from fa_core.formats.table import AuditTable
from fa_core.report.names import homes, short_paths
from fa_core.report.report_facts import PROTOCOL, DiagnosticThresholds
from fa_core.reporting.blocks import (
    Block,
    Figure,
    Heading,
    Paragraph,
    to_html,
    to_markdown,
)
from fa_core.reporting.figures import (
    claiming_or_all,
    gamma_figure,
    methods_figure,
    rescue_figure,
    timeline_figure,
)
from fa_core.reporting.panels import FIGURE_KINDS, rendered
from fa_core.reporting.paper_table import paper_table
from fa_core.reporting.records import known_ending, to_csv
from fa_core.reporting.sections import analyses, credit, runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


class Extras(NamedTuple):
    """What a report has beside its usual parts.

    Attributes:
        second: whether to add the successor's verdicts.
        claims: judged claims.
        card: whether to write the first page alone.
    """

    second: bool = False
    claims: Sequence[ClaimResult] = ()
    card: bool = False


TITLE = "Four-diagnostic audit"


def first_page(
    table: AuditTable,
    thresholds: DiagnosticThresholds,
    extras: Extras = Extras(),  # noqa: B008 (immutable)
) -> list[Block]:
    """Claims, verdicts with intervals, what was measured beside them, provenance, how to verify."""
    table = _in_order(table)
    blocks: list[Block] = [Heading(TITLE, 1)]
    if len(table):
        blocks += [*runs.summary(table, thresholds), runs.thresholds_table(thresholds)]
    else:
        blocks.append(Paragraph("No audited run: nothing to report."))
    blocks += runs.claims_blocks(extras.claims)
    if extras.second:
        blocks += runs.second_readings(table, thresholds)
    for home, mine in _per_collection(table):
        blocks.append(Heading(f"Verdicts: {home}"))
        blocks += runs.verdict_table(mine, thresholds)
        blocks += credit.beside_table(mine, thresholds)
    blocks += runs.provenance(_measured(table))
    blocks.append(Paragraph(_how_to_verify(table)))
    return blocks


def _how_to_verify(table: AuditTable) -> str:
    """The command that measures again, or why there is none."""
    sources = [row.source for row in table.rows() if row.checkpoint]
    if not sources:
        return "No weights are recorded with these numbers: they cannot be measured again."
    return f"Measured again by: fa-tui verify {shlex.join(dict.fromkeys(homes(sources)))}"


def reporting_form(
    table: AuditTable,
    thresholds: DiagnosticThresholds = PROTOCOL,
    traces: Sequence[Trace] = (),
    extras: Extras = Extras(),  # noqa: B008 (immutable)
) -> list[Block]:
    """The report of a set of runs as blocks.

    After the first page every file, which may be of another network, has its figures, seeds,
    sensitivity, utility, layers, margins and credit. Timelines, notes and pitfalls follow.

    Args:
        table: n runs.
        thresholds: default: the protocol's.
        traces: of the same runs.
        extras: further parts.

    Source: docs/protocol.md §4, §8–§12.
    """
    blocks = first_page(table, thresholds, extras)
    table = _in_order(table)
    size = 0
    for number, (home, mine) in enumerate(_per_collection(_measured(table)), start=1):
        figures = figures_of(mine, thresholds)
        # drawing one of a few methods takes as long as this
        size += max(len(conditions(mine)), 10 * len(figures))
        drawn = figures.values() if size <= DRAWN_AT_MOST else ()
        blocks += _collection(mine, home, thresholds, number, drawn)
    if size > DRAWN_AT_MOST:
        blocks.append(Paragraph(NOT_DRAWN))
    if traces:
        blocks.append(Heading("Timeline"))
        figures = figures_of(_measured(table), thresholds, traces)
        blocks += [figures[name] for name in ("timeline", "gamma") if name in figures]
        blocks += analyses.timeline_blocks(Replay(traces, table).timelines(thresholds))
    blocks += runs.notes_on_runs(table, thresholds)
    blocks += runs.pitfalls_block()
    return blocks


def _in_order(table: AuditTable) -> AuditTable:
    """The runs by method (in order of appearance), then seed."""
    order = {method: place for place, method in enumerate(table.methods)}
    ranks = [
        (order[method], math.inf if seed is None else seed)
        for method, seed in zip(table.method, table.seed, strict=True)
    ]
    return table.select(sorted(range(len(ranks)), key=ranks.__getitem__))


def _measured(table: AuditTable) -> AuditTable:
    return table.select(table.coverage != 0)


def _per_collection(table: AuditTable) -> Iterator[tuple[str, AuditTable]]:
    """Files or folders, as short as tells them apart, with their runs."""
    found = np.asarray(homes(table.source.tolist()))
    for home, name in short_paths(found.tolist()).items():
        yield name, table.select(found == home)


CAPTIONS: Mapping[str, str] = {
    "methods": "The four diagnostics by method, a marker per seed; lines: means over seeds. "
    "Dashed: thresholds, the side that fires shaded; filled markers: the panel's diagnostic fires; "
    "n.m.: not measured.",
    "rescue": "Penalty rescue: accuracy with the frozen baseline and the margin above it; "
    "growth; ‖g_L‖. Each line joins the means over seeds of runs that differ in λ alone.",
    "timeline": "Accuracy, ‖h_L‖, growth and ‖g_L‖ over epochs; dotted: first fires.",
    "gamma": "Γ over epochs, of the first 47 layers at most; dotted: the same of each run under "
    "random feedback.",
}
"""Figure → its caption."""


DRAWN_AT_MOST = 80
"""Most methods with their axes, and most traces, that are drawn, which takes seconds; in a report
of all files together, a figure of which counts as 10 methods at least."""

NOT_DRAWN = "At most 80 methods with their axes, or traces, or 8 figures are drawn: not the rest."
_NONE = f"none. {NOT_DRAWN}"


def figures_of(
    table: AuditTable, thresholds: DiagnosticThresholds, traces: Sequence[Trace] = ()
) -> dict[str, Figure]:
    """Every figure of some runs and traces, by its name; none of more than `DRAWN_AT_MOST`."""
    if max(len(traces), len(conditions(table))) > DRAWN_AT_MOST:
        return {}
    found = Replay(traces, table).timelines(thresholds)
    draw: dict[str, Callable[[], Drawing]] = {}
    if len(table):
        draw["methods"] = partial(methods_figure, table, thresholds)
    if families(table):
        draw["rescue"] = partial(rescue_figure, table, thresholds)
    points = chain.from_iterable(one.points for one in found)
    if any(point.coverage or point.acc is not None for point in points):
        draw["timeline"] = partial(timeline_figure, found, thresholds)
    if any(one.gamma_per_layer for one in found):
        draw["gamma"] = partial(gamma_figure, found)
    return {name: Figure(name, drawing, CAPTIONS[name]) for name, drawing in draw.items()}


def _collection(
    table: AuditTable,
    home: str,
    thresholds: DiagnosticThresholds,
    number: int,
    drawn: Iterable[Figure],
) -> Iterator[Block]:
    yield Heading(home)
    for figure in drawn:
        yield replace(figure, name=f"{figure.name}-{number}")
    parts = {
        "Over seeds": analyses.seeds_blocks(over_seeds(table, thresholds)),
        "Threshold sensitivity": analyses.sensitivity_blocks(sensitivities(table, thresholds)),
        "Decision utility": analyses.utility_blocks(decision_utility(table, thresholds)),
        "Diagnostics per layer": runs.layer_tables(table),
        "Margin to flip and backward gain": runs.beyond_table(table, thresholds),
        "Credit quality": credit.credit_table(table),
    }
    for title, blocks in parts.items():
        yield Heading(title, 3)
        yield from blocks


def paper_tables(table: AuditTable, thresholds: DiagnosticThresholds) -> str:
    """The LaTeX table of a paper, one per file: methods over their seeds, without controls."""
    unmeasured = table.unmeasured_notes
    table = _measured(_in_order(table))
    claiming, left_out = claiming_or_all(table)
    parts = [
        "% needs \\usepackage{booktabs,siunitx}",
        "\\sisetup{detect-weight=true,output-exponent-marker=e}",
        *map("% {}".format, (*left_out, *unmeasured)),
    ]
    for home, mine in _per_collection(table):
        chosen, _ = mine.claiming(set(claiming.no_claim))
        if len(chosen):
            analysis = over_seeds(chosen, thresholds)
            parts.append(paper_table(analysis, thresholds, home.removesuffix(".json")))
    return "\n\n".join(parts) + "\n"


TEXTS = (".md", ".html")
"""File endings of the whole form, and of its first page."""

KINDS = (".tex", *TEXTS, *FIGURE_KINDS, ".csv")
"""Known file endings of reports."""


def write_report(
    path: Path,
    table: AuditTable,
    thresholds: DiagnosticThresholds = PROTOCOL,
    traces: Sequence[Trace] = (),
    figure: str = "methods",
    extras: Extras = Extras(),  # noqa: B008 (immutable)
) -> list[Path]:
    """Write a report; Markdown has its figures in files next to it.

    Args:
        path: with one of the endings `KINDS`.
        table: n runs.
        thresholds: default: the protocol's.
        traces: of the same runs.
        figure: of ``.svg``, ``.pdf`` and ``.png`` files: a name of `CAPTIONS`.
        extras: further parts, or others.

    Returns:
        The files written, the report first.

    Raises:
        UsageError: an unknown ending or figure, or a figure without data.
        FaError: the file cannot be written.
    """
    kind = known_ending(path, TEXTS if extras.card else KINDS)
    if kind in TEXTS:
        if extras.card:
            blocks = first_page(table, thresholds, extras)
        else:
            blocks = reporting_form(table, thresholds, traces, extras)
        return _write_blocks(path, blocks)
    if kind in FIGURE_KINDS:
        content = rendered(_figure(table, thresholds, traces, figure).draw(), kind)
    elif kind == ".tex":
        content = paper_tables(table, thresholds).encode()
    else:
        content = to_csv(table, thresholds).encode()
    write_bytes(path, content)
    return [path]


def _write_blocks(path: Path, blocks: list[Block]) -> list[Path]:
    """Write blocks as one of `TEXTS`."""
    if path.suffix.lower() == ".html":
        write_bytes(path, to_html(blocks).encode())
        return [path]
    figures = {
        path.with_name(f"{path.stem}-{block.name}.svg"): block
        for block in blocks
        if isinstance(block, Figure)
    }
    names = {block.name: quote(file.name) for file, block in figures.items()}
    place_of(path)  # what cannot be replaced leaves no figure behind
    for file, block in figures.items():
        write_bytes(file, rendered(block.draw()))
    write_bytes(path, to_markdown(blocks, names).encode())
    return [path, *figures]


def _figure(
    table: AuditTable, thresholds: DiagnosticThresholds, traces: Sequence[Trace], name: str
) -> Figure:
    """One of `figures_of`.

    Raises:
        UsageError: there is none of that name.
    """
    drawn = figures_of(table, thresholds, traces)
    if name in drawn:
        return drawn[name]
    why = f"there is no figure {name!r} of these runs"
    raise UsageError(why, where="--figure", hint=f"there are: {', '.join(drawn) or _NONE}")
