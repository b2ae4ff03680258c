"""`fa-tui report`: what goes into a paper's appendix, as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fa_tui import options
from fa_tui.commands import inputs

OutOption = Annotated[
    Path, typer.Option(metavar="FILE", help="A name ending in .md, .html, .svg, .pdf, .png, .csv or .parquet.")
]
FigureOption = Annotated[
    str,
    typer.Option(metavar="NAME", help="What .svg, .pdf and .png show: audit, timeline, or an axis such as lam."),
]
TitleOption = Annotated[str, typer.Option(metavar="TEXT", help="Heading of .md and .html.")]


def report_command(
    out: OutOption,
    paths: options.PathsArgument = None,
    figure: FigureOption = "audit",
    title: TitleOption = "Four-diagnostic audit",
    methods: options.MethodsOption = None,
    seeds: options.SeedsOption = None,
    *,
    criteria: options.Criteria,
) -> None:
    """Write the reporting form: headline numbers, diagnostics per layer, seeds, sensitivity, pitfalls, provenance.

    Numbers in .md and .html are rounded; .csv and .parquet hold every digit. Prints the files it wrote.

    In .csv and .parquet `coverage` names what was measured, and `evidence` what of it is not exact: (d) by an assumed
    frozen baseline is d=assumed and never in `coverage`, but in `flags` where it fires.

    Examples:

        fa-tui report audit_table.json --out report.html

        fa-tui report runs/ --out appendix.md

        fa-tui report penalty_runs/ --out rescue.pdf --figure lam
    """
    from fa_core.reporting.form import write_report

    runs = inputs.open_runs(paths, criteria.baseline, methods, seeds)
    for file in write_report(out, runs.table, criteria.thresholds, runs.traces, figure, title):
        print(file)
    if not runs.rows:
        print("fa-tui: no audited run in these paths: the report says so", file=sys.stderr)
    raise typer.Exit(runs.exit_code)
