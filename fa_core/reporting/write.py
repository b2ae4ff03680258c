"""A report as a file; its ending says which kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from fa_core.analysis.groups import families, varying_axes
from fa_core.analysis.timeline import timelines
from fa_core.atomic import write_bytes
from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import UsageError
from fa_core.reporting.blocks import Figure
from fa_core.reporting.figures import FIGURE_KINDS, audit_figure, axis_figure, rendered, timeline_figure
from fa_core.reporting.form import reporting_form
from fa_core.reporting.markdown_html import to_html, to_markdown
from fa_core.reporting.records import to_csv, to_parquet

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from fa_core.formats import Trace
    from fa_core.table import AuditTable

KINDS = (".md", ".html", *FIGURE_KINDS, ".csv", ".parquet")
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
        figure: what ``.svg``, ``.pdf`` and ``.png`` show: ``audit``, ``timeline``, or the name of an axis (``lam``:
            the penalty).
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
        raise UsageError(f"cannot write a report as {kind or 'a file without ending'}", where=path, hint=_endings())
    if kind == ".md":
        return _write_markdown(path, table, thresholds, traces, title)
    if kind == ".html":
        content = to_html(reporting_form(table, thresholds, traces, title)).encode()
    elif kind in FIGURE_KINDS:
        content = rendered(_figure(table, thresholds, traces, figure), kind)
    elif kind == ".csv":
        content = to_csv(table, thresholds).encode()
    else:
        content = to_parquet(table, thresholds)
    write_bytes(path, content)
    return [path]


def _endings() -> str:
    return f"end the name in {', '.join(KINDS[:-1])} or {KINDS[-1]}"


def _write_markdown(
    path: Path, table: AuditTable, thresholds: DiagnosticThresholds, traces: Sequence[Trace], title: str
) -> list[Path]:
    blocks = reporting_form(table, thresholds, traces, title)
    figures = {block.name: block for block in blocks if isinstance(block, Figure)}
    files = {name: path.with_name(f"{path.stem}-{name}.svg") for name in figures}
    for name, file in files.items():
        write_bytes(file, rendered(figures[name].draw()))
    write_bytes(path, to_markdown(blocks, {name: quote(file.name) for name, file in files.items()}).encode())
    return [path, *files.values()]


def _figure(table: AuditTable, thresholds: DiagnosticThresholds, traces: Sequence[Trace], figure: str) -> Drawing:
    if figure == "timeline":
        if not traces:
            raise UsageError("no traces here to draw over epochs", where="--figure timeline")
        return timeline_figure(timelines(traces, table, thresholds), thresholds)
    if not len(table):
        raise UsageError("no audited run to draw", where=f"--figure {figure}")
    if figure == "audit":
        return audit_figure(table, thresholds)
    axes = varying_axes(table)
    if figure not in axes:
        known = ", ".join(("audit", "timeline", *axes))
        raise UsageError(f"no figure {figure!r} for these runs", where="--figure", hint=f"there are: {known}")
    if not families(table, figure):
        raise UsageError(f"no two runs differ in {figure} alone", where=f"--figure {figure}")
    return axis_figure(table, figure, thresholds)
