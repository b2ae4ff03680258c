"""The reporting form: the parts of a paper's appendix about a set of audited runs, in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import numpy as np
from msgspec.structs import replace

from fa_core.analysis.claims import ClaimResult
from fa_core.analysis.method_groups import PUBLISHED, collections, families, varying_axes
from fa_core.analysis.seeds import differences, over_seeds
from fa_core.analysis.threshold_sweep import sensitivities
from fa_core.analysis.timeline import timelines
from fa_core.analysis.utility import decision_utility
from fa_core.atomic import json_bytes, write_bytes
from fa_core.errors import UsageError
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import LETTERS
from fa_core.option_values import listed
from fa_core.report import DiagnosticReport
from fa_core.reporting.blocks import (
    Block,
    Bullets,
    Figure,
    Grid,
    Heading,
    Paragraph,
    to_html,
    to_markdown,
)
from fa_core.reporting.card import audit_card, model_index
from fa_core.reporting.epoch_figures import gamma_figure, timeline_figure
from fa_core.reporting.figures import FIGURES, architectures, axis_figure
from fa_core.reporting.latex import latex_parts, to_latex
from fa_core.reporting.methods_figure import default_figure, methods_figure
from fa_core.reporting.panels import FIGURE_KINDS, rendered
from fa_core.reporting.paper_table import paper_table
from fa_core.reporting.records import known_ending, metrics, to_csv, to_parquet
from fa_core.reporting.sections import analyses, confidence_credit, runs
from fa_core.reporting.sections.claims import claim_line, claims_blocks
from fa_core.rows import AuditRow
from fa_core.table import AuditTable
from fa_core.training.experiments import document, experiments

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from fa_core.formats import Trace


class Extras(NamedTuple):
    """What a report has beside its usual parts.

    Attributes:
        second: whether to add the successor's verdicts.
        compared: whether to add the differences between conditions.
        letters: the diagnostics of the figure ``methods`` and of ``.tex``.
        claims: checked claims.
        card: whether to write the audit card in place of the report.
    """

    second: bool = False
    compared: bool = False
    letters: str = LETTERS
    claims: Sequence[ClaimResult] = ()
    card: bool = False


def reporting_form(
    table: AuditTable,
    thresholds: DiagnosticThresholds | None = None,
    traces: Sequence[Trace] = (),
    title: str = "Four-diagnostic audit",
    extras: Extras = Extras(),  # noqa: B008 (immutable)
) -> list[Block]:
    """The report of a set of runs as blocks.

    Files, which may be of different networks, have separate parts: verdicts, figures, seeds,
    sensitivity, utility, layers, margins, confidence and credit. Timelines, pitfalls and provenance
    follow.

    Args:
        table: n runs.
        thresholds: default: the protocol's.
        traces: of the same runs.
        title: the report's heading.
        extras: further parts.

    Source: docs/protocol.md §4, §8–§12.
    """
    thresholds = thresholds or DiagnosticThresholds()
    blocks: list[Block] = [Heading(title, 1)]
    if len(table):
        blocks += [*runs.summary(table, thresholds), runs.thresholds_block(thresholds)]
    else:
        blocks.append(Paragraph("No audited run: nothing to report."))
    table = _in_order(table)
    blocks += claims_blocks(extras.claims)
    if extras.second:
        blocks += runs.second_readings(table, thresholds)
    measured = _measured(table)
    drawn = figures_of(measured, thresholds, traces)
    if len(set(architectures(measured))) > 1:
        blocks.append(drawn["architectures"])
    for number, (home, mine) in enumerate(_per_collection(table), start=1):
        blocks += _collection(mine, home, thresholds, number, extras.compared)
    if traces:
        blocks.append(Heading("Timeline", 2))
        for name in ("timeline", "gamma"):
            if name in drawn:
                blocks.append(drawn[name])
        blocks += analyses.timeline_blocks(timelines(traces, table, thresholds))
    blocks += runs.notes_on_runs(table, thresholds)
    blocks += runs.pitfalls_block()
    blocks += runs.provenance(measured)
    blocks += citations(table)
    return blocks


def citations(table: AuditTable) -> Iterator[Block]:
    """Citations of the published audits among the runs' files."""
    sources = {PurePath(str(source)).name for source in table.source}
    published = sources.intersection(one.table for one in experiments())
    if published:
        source = document().source
        files = listed(sorted(published))
        yield Heading("Citations", 2)
        yield Paragraph(f"The numbers of {files} are published: {source.citation()}")
        yield Paragraph(source.bibtex())


BLANK_ROWS = 5
"""Empty rows of a table in the blank form."""


def blank_form(title: str = "Four-diagnostic audit") -> list[Block]:
    """The form to fill in by hand: the parts and columns of `reporting_form` without runs."""
    thresholds = runs.thresholds_block(DiagnosticThresholds())
    blocks: list[Block] = []
    for block in reporting_form(_example_runs(), title=title):
        if isinstance(block, Grid):
            empty = ("",) * len(block.headings)
            blocks.append(replace(block, rows=(empty,) * BLANK_ROWS, marked=frozenset()))
        elif isinstance(block, Bullets) and block.numbered:
            blocks.append(Bullets(tuple(f"[ ] {item}" for item in block.items)))
        elif isinstance(block, Figure):
            blocks.append(Paragraph(f"Figure: {block.caption}"))
        elif isinstance(block, Heading) or block == thresholds:
            blocks.append(block)
    return blocks


def _example_runs() -> AuditTable:
    """Runs that fill every table: two methods, with published norms."""
    rows = []
    for method in ("bp", "dfa"):
        _, norms = PUBLISHED[method]
        for seed, h_L in enumerate(norms[:2]):
            layers = [1.0, 1.0, 1.0, 1.0, h_L]
            credit = {"gamma": layers}
            report = DiagnosticReport("", "", layers, layers, 2, 0.0, 0.5, 0.4, credit=credit)
            row = AuditRow(
                source="Runs", key=f"{method}{seed}", method=method, seed=seed, report=report
            )
            rows.append(row)
    return AuditTable.from_rows(rows)


def _in_order(table: AuditTable) -> AuditTable:
    """The runs by method (in order of appearance), then seed."""
    methods = table.methods
    keys = []
    for row, (method, seed) in enumerate(zip(table.method, table.seed, strict=True)):
        rank = math.inf if seed is None else seed
        keys.append((methods.index(method), rank, row))
    return table.select([row for *_, row in sorted(keys)])


def _measured(table: AuditTable) -> AuditTable:
    return table.select(np.asarray(table.coverage) != 0)


def _per_collection(table: AuditTable) -> Iterator[tuple[str, AuditTable]]:
    """Files or folders with their runs."""
    homes = np.asarray(collections(table))
    for home in dict.fromkeys(homes.tolist()):
        yield home, table.select(homes == home)


CAPTIONS: Mapping[str, str] = {
    "methods": "The four diagnostics by method, a marker per seed; bars: 95 % intervals of the "
    "means over seeds. Dashed: thresholds, the side that fires shaded; filled markers: the "
    "panel's diagnostic fires.",
    "audit": "The four diagnostics, runs by ascending accuracy. Dashed: thresholds, the side "
    "that fires shaded; filled "
    "markers: the panel's diagnostic fires.",
    "layers": "Median norms per layer, a curve per run.",
    "architectures": "‖h_L‖, ‖g_L‖ and accuracy by architecture, a marker per seed.",
    "rescue": (
        "Penalty rescue: accuracy with the frozen baseline, the margin above it and BP; "
        "growth; ‖g_L‖."
    ),
    "timeline": "Accuracy, ‖h_L‖, growth and ‖g_L‖ over epochs; dotted: first fires.",
    "gamma": "Γ over epochs; shaded: two standard deviations of Γ under random feedback.",
}
"""Figure → its caption, except for figures over an axis."""


def figures_of(
    table: AuditTable, thresholds: DiagnosticThresholds, traces: Sequence[Trace] = ()
) -> dict[str, Figure]:
    """Every figure of some runs and traces, by its name."""
    found = timelines(traces, table, thresholds)
    draw: dict[str, Callable[[], Drawing]] = {}
    if len(table):
        for name, figure in FIGURES.items():
            draw[name] = partial(figure, table, thresholds)
    # which rule trained a control is no axis of methods
    for axis in varying_axes(_without_controls(table)):
        if families(table, axis):
            draw[axis] = partial(axis_figure, table, axis, thresholds)
    if "lam" not in draw:
        draw.pop("rescue", None)
    points = chain.from_iterable(one.points for one in found)
    if any(point.coverage or point.acc is not None for point in points):
        draw["timeline"] = partial(timeline_figure, found, thresholds)
    if any(one.gamma_per_layer for one in found):
        draw["gamma"] = partial(gamma_figure, found)
    figures = {}
    for name, drawing in draw.items():
        over_axis = (
            f"Accuracy, growth and deepest gradient norm against {name}; each line joins the means "
            f"over seeds of runs that differ in {name} alone."
        )
        figures[name] = Figure(name, drawing, CAPTIONS.get(name, over_axis))
    return figures


def _collection(
    table: AuditTable, home: str, thresholds: DiagnosticThresholds, number: int, compared: bool
) -> Iterator[Block]:
    yield Heading(PurePath(home).name or home, 2)
    yield from runs.verdict_table(table, thresholds)
    yield from runs.evidence_note(table)
    measured = _measured(table)
    if not len(measured):
        return
    left_out = {"architectures", "methods", "audit"} - {default_figure(measured)}
    for name, figure in figures_of(measured, thresholds).items():
        if name in left_out:
            continue
        stem = f"axis-{number}-{name}"
        if name in CAPTIONS:
            stem = f"{name}-{number}"
        yield replace(figure, name=stem)
    apart = differences(measured) if compared else ()
    parts = {
        "Over seeds": [
            *analyses.seeds_blocks(over_seeds(measured, thresholds)),
            *analyses.differences_blocks(apart),
        ],
        "Threshold sensitivity": analyses.sensitivity_blocks(sensitivities(measured, thresholds)),
        "Decision utility": analyses.utility_blocks(decision_utility(measured, thresholds)),
        "Diagnostics per layer": runs.layer_tables(measured),
        "Margin to flip and backward gain": runs.beyond_table(measured, thresholds),
        "Confidence": confidence_credit.confidence_tables(measured, thresholds),
        "Credit quality": confidence_credit.credit_table(measured),
    }
    for title, blocks in parts.items():
        yield Heading(title, 3)
        yield from blocks


def paper_tables(table: AuditTable, thresholds: DiagnosticThresholds, extras: Extras) -> str:
    """The LaTeX table of a paper, one per file: methods over their seeds, without controls."""
    table = _in_order(table)
    parts = [
        "% needs \\usepackage{booktabs,siunitx}",
        "\\sisetup{detect-weight=true,output-exponent-marker=e}",
    ]
    for home, mine in _per_collection(_without_controls(_measured(table))):
        analysis = over_seeds(mine, thresholds)
        parts.append(paper_table(analysis, thresholds, PurePath(home).stem, extras.letters))
    further: list[Block] = [*citations(table)]
    if extras.claims:
        # a list wraps in a column
        further[:0] = [Heading("Claims"), Bullets(tuple(map(claim_line, extras.claims)))]
    return "\n\n".join([*parts, *latex_parts(further)]) + "\n"


def _without_controls(table: AuditTable) -> AuditTable:
    """The runs that claim something; all of them if none does."""
    claiming = ~table.controls
    if claiming.any():
        return table.select(claiming)
    return table


KINDS = (".tex", ".md", ".html", *FIGURE_KINDS, ".json", ".csv", ".parquet")
"""Known file endings of reports."""


def write_report(
    path: Path,
    table: AuditTable,
    thresholds: DiagnosticThresholds | None = None,
    traces: Sequence[Trace] = (),
    figure: str = "",
    title: str = "Four-diagnostic audit",
    extras: Extras = Extras(),  # noqa: B008 (immutable)
    adapted: Callable[[list[Block]], list[Block]] = list,
) -> list[Path]:
    """Write a report; Markdown has its figures in files next to it.

    Args:
        path: with one of the endings `KINDS`.
        table: n runs.
        thresholds: default: the protocol's.
        traces: of the same runs.
        figure: of ``.svg``, ``.pdf`` and ``.png`` files: one of `FIGURES`, ``timeline``,
            ``gamma``, or an axis (``lam``: the penalty); default: ``methods``, or ``audit`` where
            no method has two seeds.
        title: of the Markdown and HTML forms.
        extras: further parts, or others.
        adapted: changes the blocks of Markdown and HTML before they are written, e.g. to count the
            figures drawn.

    Returns:
        The files written, the report first.

    Raises:
        UsageError: an unknown ending or figure, a figure without data, Parquet without pyarrow.
        FaError: the file cannot be written.
    """
    thresholds = thresholds or DiagnosticThresholds()
    kind = known_ending(path, KINDS)
    figure = figure or default_figure(table)
    _check_letters(kind, figure, extras.letters)
    if extras.card:
        return _write_card(path, table, thresholds, title, extras.claims)
    if kind in (".md", ".html"):
        blocks = reporting_form(table, thresholds, traces, title, extras)
        return write_blocks(path, adapted(blocks))
    if kind in FIGURE_KINDS:
        drawing = _figure(table, thresholds, traces, figure).draw
        if extras.letters != LETTERS:
            drawing = partial(methods_figure, table, thresholds, extras.letters)
        content = rendered(drawing(), kind)
    elif kind == ".tex":
        content = paper_tables(table, thresholds, extras).encode()
    elif kind == ".json":
        content = json_bytes(metrics(table, thresholds, extras.claims), indent=1)
    elif kind == ".csv":
        content = to_csv(table, thresholds).encode()
    else:
        content = to_parquet(table, thresholds)
    write_bytes(path, content)
    return [path]


def _check_letters(kind: str, figure: str, letters: str) -> None:
    """Refuse some diagnostics where all are shown."""
    chooses = kind == ".tex" or (kind in FIGURE_KINDS and figure == "methods")
    if letters != LETTERS and not chooses:
        raise UsageError(
            "only .tex and --figure methods choose diagnostics",
            where="--only",
            hint="name methods alone",
        )


def _write_card(
    path: Path,
    table: AuditTable,
    thresholds: DiagnosticThresholds,
    title: str,
    claims: Sequence[ClaimResult],
) -> list[Path]:
    """Write the audit card; as Markdown with the front matter of a model hub."""
    kind = known_ending(path, (".md", ".html"))
    table = _in_order(table)
    text = WRITERS[kind](audit_card(table, thresholds, claims, title))
    if kind == ".md":
        text = model_index(_without_controls(_measured(table)), thresholds, title) + text
    write_bytes(path, text.encode())
    return [path]


WRITERS: Mapping[str, Callable[[list[Block]], str]] = {
    ".md": to_markdown,
    ".html": to_html,
    ".tex": to_latex,
}
"""File ending → writer of blocks."""


def write_blocks(path: Path, blocks: list[Block]) -> list[Path]:
    """Write blocks; Markdown has its figures in files next to it.

    Args:
        path: its ending is one of `WRITERS`.
        blocks: what to write.

    Returns:
        The files written, the text first.

    Raises:
        UsageError: an unknown ending.
        FaError: the file cannot be written.
    """
    kind = known_ending(path, [*WRITERS])
    if kind != ".md":
        write_bytes(path, WRITERS[kind](blocks).encode())
        return [path]
    files = [path]
    paths = {}
    for block in blocks:
        if isinstance(block, Figure):
            file = path.with_name(f"{path.stem}-{block.name}.svg")
            write_bytes(file, rendered(block.draw()))
            files.append(file)
            paths[block.name] = quote(file.name)
    write_bytes(path, to_markdown(blocks, paths).encode())
    return files


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
    if not len(table) and name not in ("timeline", "gamma"):
        raise UsageError("no audited run to draw", where=f"--figure {name}")
    missing = {
        "timeline": "no traces here to draw over epochs",
        "gamma": "no trace here holds Γ per layer",
        "rescue": "no two runs differ in the penalty λ alone",
    }
    why = f"no figure {name!r} for these runs"
    if name in varying_axes(table):
        why = f"no two runs differ in {name} alone"
    why = missing.get(name, why)
    raise UsageError(why, where="--figure", hint=f"there are: {', '.join(drawn) or 'none'}")
