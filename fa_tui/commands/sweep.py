"""`fa-tui sweep`: do the thresholds separate, and how far may they move?"""

from __future__ import annotations

from typing import Annotated

import typer

from fa_core.diagnostics import DiagnosticThresholds
from fa_tui import options
from fa_tui.commands import inputs, output

HealthyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LIST",
        help="Methods of the healthy group, the rest being degenerate; default: bp, fa, ep where present.",
        show_default=False,
    ),
]


def sweep_command(
    paths: options.PathsArgument = None,
    healthy: HealthyOption = None,
    methods: options.MethodsOption = None,
    seeds: options.SeedsOption = None,
    filter: options.FilterOption = "",
    format: options.FormOption = options.Form.table,
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

    runs = inputs.open_runs(paths, baseline, methods, seeds, audits=True).filtered(filter, thresholds)
    table = runs.table
    named = options.split_list(healthy) if healthy else None
    analysis = sensitivities(table, thresholds, named)
    if format is options.Form.json:
        output.print_json(sweep_record(table, thresholds, analysis))
    else:
        output.print_blocks([*sensitivity_blocks(analysis), *runs.left_out(named or DEFAULT_HEALTHY)])
    raise typer.Exit(runs.exit_code)
