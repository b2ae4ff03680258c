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

from fa_core.analysis.method_groups import PUBLISHED, collections, families, varying_axes
from fa_core.analysis.seeds import differences, over_seeds
from fa_core.analysis.threshold_sweep import sensitivities
from fa_core.analysis.timeline import timelines
from fa_core.analysis.utility import decision_utility
from fa_core.atomic import write_bytes
from fa_core.errors import UsageError
from fa_core.facts.thresholds import DiagnosticThresholds
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
from fa_core.reporting.figures import (
    FIGURES,
    architectures,
    axis_figure,
    gamma_figure,
    timeline_figure,
)
from fa_core.reporting.latex import to_latex
from fa_core.reporting.panels import FIGURE_KINDS, rendered
from fa_core.reporting.records import known_ending, to_csv, to_parquet
from fa_core.reporting.sections import analyses, confidence_credit, runs
from fa_core.rows import AuditRow
from fa_core.table import AuditTable
from fa_core.training.experiments import document, experiments

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from fa_core.formats import Trace


def reporting_form(
    table: AuditTable,
    thresholds: DiagnosticThresholds | None = None,
    traces: Sequence[Trace] = (),
    title: str = "Four-diagnostic audit",
    *,
    second: bool = False,
) -> list[Block]:
    """The report of a set of runs as blocks.

    Runs of different files are kept apart (they may be of different networks); the order is
    verdicts, figure, seeds, sensitivity, utility, layers, margins, confidence and credit per file,
    then timelines, pitfalls and provenance.

    Args:
        table: n runs.
        thresholds: default: the protocol's.
        traces: of the same runs, where there are any.
        title: the report's heading.
        second: whether the successor's verdicts stand beside ours.

    Source: docs/protocol.md §4, §8–§12.
    """
    thresholds = thresholds or DiagnosticThresholds()
    blocks: list[Block] = [Heading(title, 1)]
    if len(table):
        blocks += [*runs.summary(table, thresholds), runs.thresholds_block(thresholds)]
    else:
        blocks.append(Paragraph("No audited run: nothing to report."))
    table = _in_order(table)
    if second:
        blocks += runs.second_readings(table, thresholds)
    drawn = figures_of(_measured(table), thresholds, traces)
    if len(set(architectures(_measured(table)))) > 1:
        blocks.append(drawn["architectures"])
    for number, (home, mine) in enumerate(_per_collection(table), start=1):
        blocks += _collection(mine, home, thresholds, number)
    if traces:
        blocks += [
            Heading("Timeline", 2),
            *(drawn[name] for name in ("timeline", "gamma") if name in drawn),
        ]
        blocks += analyses.timeline_blocks(timelines(traces, table, thresholds))
    blocks += runs.pitfalls_block()
    blocks += runs.provenance(_measured(table))
    blocks += citations(table)
    return blocks


def citations(table: AuditTable) -> Iterator[Block]:
    """How to cite the published audits, where runs come from their files."""
    theirs = {one.table for one in experiments() if one.table}
    published = theirs.intersection(PurePath(str(source)).name for source in table.source)
    if published:
        yield Heading("Citations", 2)
        source = document().source
        names = listed(sorted(published))
        yield Paragraph(f"The numbers of {names} are published: {source.citation()}")
        yield Paragraph(source.bibtex())


BLANK_ROWS = 5
"""Empty rows of a table in the blank form."""


def blank_form(title: str = "Four-diagnostic audit") -> list[Block]:
    """The form to be filled in by hand: every part and column of `reporting_form` without runs,
    what to disclose."""
    # two methods, so that they have a difference; published norms, so that they have groups
    made = []
    for method in ("bp", "dfa"):
        for seed, h_L in enumerate(PUBLISHED[method][1][:2]):
            layers = [1.0, 1.0, 1.0, 1.0, h_L]
            report = DiagnosticReport(
                "", "", layers, layers, 2, 0.0, 0.5, 0.4, credit={"gamma": layers}
            )
            made.append(
                AuditRow(
                    source="Runs", key=f"{method}{seed}", method=method, seed=seed, report=report
                )
            )
    table = AuditTable.from_rows(made)
    thresholds, blocks = runs.thresholds_block(DiagnosticThresholds()), list[Block]()
    for block in reporting_form(table, title=title):
        if isinstance(block, Grid):
            blocks.append(
                replace(block, rows=(("",) * len(block.headings),) * BLANK_ROWS, marked=frozenset())
            )
        elif isinstance(block, Bullets) and block.numbered:
            blocks.append(Bullets(tuple(f"[ ] {item}" for item in block.items)))
        elif isinstance(block, Figure):
            blocks.append(Paragraph(f"Figure: {block.caption}"))
        elif isinstance(block, Heading) or block == thresholds:
            blocks.append(block)
    return blocks


def _in_order(table: AuditTable) -> AuditTable:
    """The runs by method (in order of appearance), then seed."""
    places = {method: place for place, method in enumerate(table.methods)}
    keys = []
    for row, (method, seed) in enumerate(zip(table.method, table.seed, strict=True)):
        keys.append((places[method], math.inf if seed is None else seed, row))
    return table.select([row for _, _, row in sorted(keys)])


def _measured(table: AuditTable) -> AuditTable:
    return table.select(np.asarray(table.coverage) != 0)


def _per_collection(table: AuditTable) -> Iterator[tuple[str, AuditTable]]:
    """Every file or folder with its runs."""
    homes = np.asarray(collections(table))
    for home in dict.fromkeys(homes.tolist()):
        yield home, table.select(homes == home)


CAPTIONS: Mapping[str, str] = {
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
"""Of the figures by the names that `write_report` knows; the others are called like the axis that
they are over."""


def figures_of(
    table: AuditTable, thresholds: DiagnosticThresholds, traces: Sequence[Trace] = ()
) -> dict[str, Figure]:
    """Every figure there is of some runs and traces, by its name."""
    found = timelines(traces, table, thresholds)
    axes = [axis for axis in varying_axes(table) if families(table, axis)]
    draw: dict[str, Callable[[], Drawing]] = {
        **{name: partial(each, table, thresholds) for name, each in FIGURES.items() if len(table)},
        **{axis: partial(axis_figure, table, axis, thresholds) for axis in axes},
    }
    if "lam" not in axes:
        draw.pop("rescue", None)
    if any(point.coverage or point.acc is not None for one in found for point in one.points):
        draw["timeline"] = partial(timeline_figure, found, thresholds)
    if any(one.gamma_per_layer for one in found):
        draw["gamma"] = partial(gamma_figure, found)
    over = (
        "Accuracy, growth and deepest gradient norm against {0}; each line joins the means over "
        "seeds of runs that "
        "differ in {0} alone."
    )
    return {
        name: Figure(name, each, CAPTIONS.get(name, over.format(name)))
        for name, each in draw.items()
    }


def _collection(
    table: AuditTable, home: str, thresholds: DiagnosticThresholds, number: int
) -> Iterator[Block]:
    yield Heading(PurePath(home).name or home, 2)
    yield from runs.verdict_table(table, thresholds)
    yield from runs.evidence_note(table)
    measured = _measured(table)
    if not len(measured):
        return
    for name, figure in figures_of(measured, thresholds).items():
        if name != "architectures":
            yield replace(
                figure, name=f"{name}-{number}" if name in CAPTIONS else f"axis-{number}-{name}"
            )
    parts = {
        "Over seeds": [
            *analyses.seeds_blocks(over_seeds(measured, thresholds)),
            *analyses.differences_blocks(differences(measured)),
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


def paper_tables(table: AuditTable, thresholds: DiagnosticThresholds) -> list[Block]:
    """The tables that a paper prints: verdicts and numbers over seeds, per file."""
    table, blocks = _in_order(table), list[Block]()
    for _, mine in _per_collection(table):
        blocks += [*runs.verdict_table(mine, thresholds), *runs.evidence_note(mine)]
        if len(measured := _measured(mine)):
            blocks += analyses.seeds_blocks(over_seeds(measured, thresholds))
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
    *,
    second: bool = False,
) -> list[Path]:
    """Write a report; Markdown has its figures in files next to it.

    Args:
        path: its ending is one of `KINDS`.
        table: n runs.
        thresholds: default: the protocol's.
        traces: of the same runs.
        figure: what ``.svg``, ``.pdf`` and ``.png`` show: one of `FIGURES`, ``timeline``,
            ``gamma``, or the name of an axis (``lam``: the penalty).
        title: of the Markdown and HTML forms.
        second: whether they have the successor's verdicts too.

    Returns:
        The files written, the report first.

    Raises:
        UsageError: an unknown ending or figure, a figure without data, Parquet without pyarrow.
        FaError: the file cannot be written.
    """
    thresholds = thresholds or DiagnosticThresholds()
    kind = known_ending(path, KINDS)
    if kind == ".tex":
        return write_blocks(path, paper_tables(table, thresholds))
    if kind in WRITERS:
        return write_blocks(path, reporting_form(table, thresholds, traces, title, second=second))
    if kind in FIGURE_KINDS:
        content = rendered(_figure(table, thresholds, traces, figure).draw(), kind)
    else:
        if kind == ".csv":
            content = to_csv(table, thresholds).encode()
        else:
            content = to_parquet(table, thresholds)
    write_bytes(path, content)
    return [path]


WRITERS: Mapping[str, Callable[[list[Block]], str]] = {
    ".md": to_markdown,
    ".html": to_html,
    ".tex": to_latex,
}
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
    kind = known_ending(path, [*WRITERS])
    figures = [block for block in blocks if isinstance(block, Figure) and kind == ".md"]
    files = {figure.name: path.with_name(f"{path.stem}-{figure.name}.svg") for figure in figures}
    for figure in figures:
        write_bytes(files[figure.name], rendered(figure.draw()))
    paths = {name: quote(file.name) for name, file in files.items()}
    if paths:
        text = to_markdown(blocks, paths)
    else:
        text = WRITERS[kind](blocks)
    write_bytes(path, text.encode())
    return [path, *files.values()]


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
        **{axis: f"no two runs differ in {axis} alone" for axis in varying_axes(table)},
        "timeline": "no traces here to draw over epochs",
        "gamma": "no trace here holds Γ per layer",
        "rescue": "no two runs differ in the penalty λ alone",
    }
    why = missing.get(name, f"no figure {name!r} for these runs")
    raise UsageError(why, where="--figure", hint=f"there are: {', '.join(drawn) or 'none'}")
