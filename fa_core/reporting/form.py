"""The reporting form: what a paper's appendix should say about a set of audited runs, in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
from msgspec.structs import replace

from fa_core.analysis.method_groups import collections, families, varying_axes
from fa_core.analysis.seeds import differences, over_seeds
from fa_core.analysis.threshold_sweep import sensitivities
from fa_core.analysis.timeline import timelines
from fa_core.analysis.utility import decision_utility
from fa_core.atomic import write_bytes
from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import UsageError
from fa_core.option_values import listed
from fa_core.replication import experiments, source
from fa_core.report import DiagnosticReport
from fa_core.reporting.blocks import Block, Bullets, Figure, Grid, Heading, Paragraph, to_html, to_markdown
from fa_core.reporting.figures import (
    FIGURES,
    architectures,
    axis_figure,
    gamma_figure,
    timeline_figure,
)
from fa_core.reporting.latex import to_latex
from fa_core.reporting.panels import FIGURE_KINDS, rendered
from fa_core.reporting.records import to_csv, to_parquet
from fa_core.reporting.sections import analyses, confidence_credit, runs
from fa_core.rows import AuditRow
from fa_core.table import AuditTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from fa_core.formats import Trace


def reporting_form(
    table: AuditTable,
    thresholds: DiagnosticThresholds | None = None,
    traces: Sequence[Trace] = (),
    title: str = "Four-diagnostic audit",
) -> list[Block]:
    """The report of a set of runs as blocks.

    Runs of different files are kept apart (they may be of different networks); the order is verdicts, figure,
    seeds, sensitivity, utility, layers, margins, confidence and credit per file, then timelines, pitfalls and
    provenance.

    Args:
        table: n runs.
        thresholds: default: the protocol's.
        traces: of the same runs, where there are any.
        title: the report's heading.

    Source: docs/protocol.md §4, §8–§12.
    """
    thresholds = thresholds or DiagnosticThresholds()
    blocks: list[Block] = [Heading(title, 1)]
    if len(table):
        blocks += [*runs.summary(table, thresholds), runs.thresholds_block(thresholds)]
    else:
        blocks.append(Paragraph("No audited run: nothing to report."))
    table = _in_order(table)
    measured = table.select(np.asarray(table.coverage) != 0)
    if len(set(architectures(measured))) > 1:
        caption = "‖h_L‖, ‖g_L‖ and accuracy by architecture, a marker per seed."
        blocks.append(Figure("architectures", partial(FIGURES["architectures"], measured, thresholds), caption))
    homes = np.asarray(collections(table))
    for number, home in enumerate(dict.fromkeys(homes.tolist()), start=1):
        blocks += _collection(table.select(homes == home), home, thresholds, number)
    blocks += _timelines(traces, table, thresholds)
    blocks += runs.pitfalls_block()
    blocks += runs.provenance(table.select(table.coverage != 0))
    blocks += citations(table)
    return blocks


def citations(table: AuditTable) -> Iterator[Block]:
    """How to cite the published audits, where runs come from their files."""
    published = {PurePath(str(source)).name for source in table.source} & {
        one.table for one in experiments() if one.table
    }
    if published:
        yield Heading("Citations", 2)
        yield Paragraph(f"The numbers of {listed(sorted(published))} are published: {source().words()}")
        yield Paragraph(source().bibtex())


BLANK_ROWS = 5
"""Empty rows of a table in the blank form."""


def blank_form(title: str = "Four-diagnostic audit") -> list[Block]:
    """The form to be filled in by hand: every part and column of `reporting_form` without runs, what to disclose."""
    layers = [1.0] * 5
    report = DiagnosticReport("", "", layers, layers, 2, 0.0, 0.5, 0.4, credit={"gamma": layers})
    # two methods, so that they have a difference
    made = [
        AuditRow(source="Runs", key=f"{m}{s}", method=m, seed=s, report=report) for m in ("bp", "dfa") for s in (1, 2)
    ]
    table = AuditTable.from_rows(made)
    thresholds, blocks = runs.thresholds_block(DiagnosticThresholds()), list[Block]()
    for block in reporting_form(table, title=title):
        if isinstance(block, Grid):
            blocks.append(replace(block, rows=(("",) * len(block.headings),) * BLANK_ROWS, marked=frozenset()))
        elif isinstance(block, Bullets) and block.numbered:
            blocks.append(Bullets(tuple(f"[ ] {item}" for item in block.items)))
        elif isinstance(block, Figure):
            blocks.append(Paragraph(f"Figure: {block.caption}"))
        elif isinstance(block, Heading) or block == thresholds:
            blocks.append(block)
    return blocks


def _in_order(table: AuditTable) -> AuditTable:
    """The runs by method (in order of appearance), then seed."""
    place = {method: position for position, method in enumerate(table.methods)}
    methods = [place[method] for method in table.method.tolist()]
    seeds = [math.inf if seed is None else seed for seed in table.seed.tolist()]
    return table.select(sorted(range(len(table)), key=lambda i: (methods[i], seeds[i])))


def _timelines(traces: Sequence[Trace], table: AuditTable, thresholds: DiagnosticThresholds) -> Iterator[Block]:
    if not traces:
        return
    found = timelines(traces, table, thresholds)
    yield Heading("Timeline", 2)
    if any(point.coverage or point.acc is not None for one in found for point in one.points):
        caption = "Diagnostics over epochs; dotted: first fires."
        yield Figure("timeline", partial(timeline_figure, found, thresholds), caption)
    if any(one.gamma_per_layer for one in found):
        caption = "Γ over epochs; shaded: two standard deviations of Γ under random feedback."
        yield Figure("gamma", partial(gamma_figure, found), caption)
    yield from analyses.timeline_blocks(found)


def _collection(table: AuditTable, home: str, thresholds: DiagnosticThresholds, number: int) -> Iterator[Block]:
    yield runs.heading_of(home)
    yield from runs.verdict_table(table, thresholds)
    yield from runs.evidence_note(table)
    measured = table.select(np.asarray(table.coverage) != 0)
    if not len(measured):
        return
    yield Figure(
        f"audit-{number}",
        partial(FIGURES["audit"], measured, thresholds),
        "The four diagnostics, runs by ascending accuracy. Dashed: thresholds, the side that fires shaded; filled "
        "markers: the panel's diagnostic fires; background: healthy and degenerate group.",
    )
    yield Figure(
        f"layers-{number}", partial(FIGURES["layers"], measured, thresholds), "Median norms per layer, a curve per run."
    )
    if families(measured, "lam"):
        caption = "Penalty rescue: accuracy with the frozen baseline, the margin above it and BP; growth; ‖g_L‖."
        yield Figure(f"rescue-{number}", partial(FIGURES["rescue"], measured, thresholds), caption)
    for axis in varying_axes(measured):
        if not families(measured, axis):
            continue
        yield Figure(
            f"axis-{number}-{axis}",
            partial(axis_figure, measured, axis, thresholds),
            f"Accuracy, growth and deepest gradient norm against {axis}; each line joins the means over seeds of "
            f"runs that differ in {axis} alone.",
        )
    yield Heading("Over seeds", 3)
    yield from analyses.seeds_blocks(over_seeds(measured, thresholds))
    yield from analyses.differences_blocks(differences(measured))
    yield Heading("Threshold sensitivity", 3)
    yield from analyses.sensitivity_blocks(sensitivities(measured, thresholds))
    yield Heading("Decision utility", 3)
    yield from analyses.utility_blocks(decision_utility(measured, thresholds))
    yield Heading("Diagnostics per layer", 3)
    yield from runs.layer_tables(measured)
    yield Heading("Margin to flip and backward gain", 3)
    yield from runs.beyond_table(measured, thresholds)
    yield Heading("Confidence", 3)
    yield from confidence_credit.confidence_tables(measured, thresholds)
    yield Heading("Credit quality", 3)
    yield from confidence_credit.credit_table(measured)


_OVER_EPOCHS = ("timeline", "gamma")


def paper_tables(table: AuditTable, thresholds: DiagnosticThresholds) -> list[Block]:
    """The tables that a paper prints: verdicts and numbers over seeds, per file."""
    table, blocks = _in_order(table), list[Block]()
    homes = np.asarray(collections(table))
    for home in dict.fromkeys(homes.tolist()):
        mine = table.select(homes == home)
        measured = mine.select(np.asarray(mine.coverage) != 0)
        blocks += [*runs.verdict_table(mine, thresholds), *runs.evidence_note(mine)]
        blocks += analyses.seeds_blocks(over_seeds(measured, thresholds)) if len(measured) else []
    return [*blocks, *citations(table)]


KINDS = (".tex", ".md", ".html", *FIGURE_KINDS, ".csv", ".parquet")
"""File endings that `write_report` knows."""


def write_report(
    path: Path,
    table: AuditTable,
    thresholds: DiagnosticThresholds | None = None,
    traces: Sequence[Trace] = (),
    figure: str = "audit",
    title: str = "Four-diagnostic audit",
) -> list[Path]:
    """Write a report; Markdown has its figures in files next to it.

    Args:
        path: its ending is one of `KINDS`.
        table: n runs.
        thresholds: default: the protocol's.
        traces: of the same runs.
        figure: what ``.svg``, ``.pdf`` and ``.png`` show: one of `FIGURES`, ``timeline``, ``gamma``, or the name of an
            axis (``lam``: the penalty).
        title: of the Markdown and HTML forms.

    Returns:
        The files written, the report first.

    Raises:
        UsageError: an unknown ending or figure, a figure without data, Parquet without pyarrow.
        FaError: the file cannot be written.
    """
    thresholds = thresholds or DiagnosticThresholds()
    kind = path.suffix.lower()
    if kind not in KINDS:
        known = f"end the name in {', '.join(KINDS[:-1])} or {KINDS[-1]}"
        raise UsageError(f"cannot write a report as {kind or 'a file without ending'}", where=path, hint=known)
    if kind in WRITERS:
        tables = kind == ".tex"
        return write_blocks(
            path, paper_tables(table, thresholds) if tables else reporting_form(table, thresholds, traces, title)
        )
    if kind in FIGURE_KINDS:
        content = rendered(_figure(table, thresholds, traces, figure), kind)
    elif kind == ".csv":
        content = to_csv(table, thresholds).encode()
    else:
        content = to_parquet(table, thresholds)
    write_bytes(path, content)
    return [path]


WRITERS: Mapping[str, Callable[[list[Block]], str]] = {".md": to_markdown, ".html": to_html, ".tex": to_latex}
"""File ending → what writes blocks."""


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
    kind = path.suffix.lower()
    if kind not in WRITERS:
        raise UsageError(
            f"cannot be written as {kind or 'a file without ending'}", where=path, hint="end it in .md, .html or .tex"
        )
    figures = {block.name: block for block in blocks if isinstance(block, Figure)} if kind == ".md" else {}
    files = {name: path.with_name(f"{path.stem}-{name}.svg") for name in figures}
    for name, file in files.items():
        write_bytes(file, rendered(figures[name].draw()))
    paths = {name: quote(file.name) for name, file in files.items()}
    text = to_markdown(blocks, paths) if paths else WRITERS[kind](blocks)
    write_bytes(path, text.encode())
    return [path, *files.values()]


def _figure(table: AuditTable, thresholds: DiagnosticThresholds, traces: Sequence[Trace], figure: str) -> Drawing:
    if figure in _OVER_EPOCHS:
        if not traces:
            raise UsageError("no traces here to draw over epochs", where=f"--figure {figure}")
        found = timelines(traces, table, thresholds)
        if figure == "gamma" and not any(one.gamma_per_layer for one in found):
            raise UsageError("no trace here holds Γ per layer", where="--figure gamma")
        return timeline_figure(found, thresholds) if figure == "timeline" else gamma_figure(found)
    if not len(table):
        raise UsageError("no audited run to draw", where=f"--figure {figure}")
    if figure in FIGURES:
        if figure == "rescue" and not families(table, "lam"):
            raise UsageError("no two runs differ in the penalty λ alone", where="--figure rescue")
        return FIGURES[figure](table, thresholds)
    axes = varying_axes(table)
    if figure not in axes:
        known = ", ".join(dict.fromkeys(("audit", *_OVER_EPOCHS, *FIGURES, *axes)))
        raise UsageError(f"no figure {figure!r} for these runs", where="--figure", hint=f"there are: {known}")
    if not families(table, figure):
        raise UsageError(f"no two runs differ in {figure} alone", where=f"--figure {figure}")
    return axis_figure(table, figure, thresholds)
