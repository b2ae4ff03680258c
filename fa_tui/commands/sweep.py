"""`fa-tui sweep`: do the thresholds separate, and how far may they move?"""

from __future__ import annotations

from typing import Annotated

import typer

from fa_core.diagnostics import DiagnosticThresholds
from fa_tui import options
from fa_tui.commands import inputs, output
from fa_tui.options import judging
from fa_tui.views.look import Look, arranged

HealthyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--healthy",
        metavar="LIST",
        help="Methods of the healthy group, the rest being degenerate; default: bp, fa, ep where present.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("sweep")(judging(sweep_command))


def sweep_command(
    paths: options.PathsArgument = None,
    healthy: HealthyOption = None,
    methods: inputs.MethodsOption = None,
    seeds: inputs.SeedsOption = None,
    filter: options.FilterOption = "",
    format: output.FormOption = output.Form.table,
    *,
    thresholds: DiagnosticThresholds,
    baseline: options.FrozenBaseline,
) -> None:
    """Print each threshold's gap between healthy and degenerate runs, and the interval that changes no verdict.

    JSON also holds all thresholds at which a verdict flips, and verdict counts as functions of each threshold.

    Examples:

        fa-tui sweep audit_table.json

        fa-tui sweep audit_table.json --healthy bp,ep --format json

        fa-tui sweep audit_table.json --frozen-baseline 0.349
    """
    from fa_core.analysis.groups import DEFAULT_HEALTHY
    from fa_core.analysis.sensitivity import sensitivities
    from fa_core.reporting.records import sweep_record
    from fa_core.reporting.sections.analyses import sensitivity_blocks
    from fa_core.table import AuditTable
    from fa_tui.commands.inputs import left_out_blocks

    runs = inputs.runs(paths, baseline, methods, seeds, audits=True)
    kept = arranged(Look(filter=filter), runs.rows, thresholds)
    table = AuditTable.from_rows(kept)
    named = options.split_list(healthy) if healthy else None
    analysis = sensitivities(table, thresholds, named)
    if format is output.Form.json:
        output.print_json(sweep_record(table, thresholds, analysis))
    else:
        output.print_blocks(
            [*sensitivity_blocks(analysis), *left_out_blocks(kept, runs.rows, named or DEFAULT_HEALTHY)]
        )
    raise typer.Exit(runs.exit_code)
