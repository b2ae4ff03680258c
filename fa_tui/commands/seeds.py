"""`fa-tui seeds`: every method over its seeds."""

from __future__ import annotations

from typing import Annotated

import typer

from fa_core.diagnostics import DiagnosticThresholds
from fa_tui import options
from fa_tui.commands import inputs, output
from fa_tui.options import judging
from fa_tui.views.look import Look, arranged

ByOption = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="LIST", help="Second axes to keep apart (lam, d, L, arch); default: all that vary."),
]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("seeds")(judging(seeds_command))


def seeds_command(
    paths: options.PathsArgument = None,
    by: ByOption = None,
    methods: inputs.MethodsOption = None,
    seeds: inputs.SeedsOption = None,
    filter: options.FilterOption = "",
    h0: options.H0Option = None,
    blocks: options.BlocksOption = None,
    format: output.FormOption = output.Form.table,
    *,
    thresholds: DiagnosticThresholds,
    baseline: options.FrozenBaseline,
) -> None:
    """Print mean ± std over seeds per method, verdict counts, and what the seeds disagree on.

    Examples:

        fa-tui seeds audit_table.json

        fa-tui seeds penalty_logs/ --by lam --frozen-baseline 0.349 --h0 8.7 --blocks 4

        fa-tui seeds audit_table.json --methods dfa,ep --format json
    """
    from fa_core.analysis.seeds import over_seeds
    from fa_core.reporting.records import seeds_record
    from fa_core.reporting.sections.analyses import seeds_blocks
    from fa_core.table import AuditTable
    from fa_tui.commands.inputs import left_out_blocks

    runs = inputs.runs(paths, baseline, methods, seeds, audits=True)
    bounded = options.bounded(runs.rows, h0, blocks)
    rows = arranged(Look(filter=filter), bounded, thresholds)
    analysis = over_seeds(AuditTable.from_rows(rows), thresholds, options.split_list(by) if by else None)
    if format is output.Form.json:
        output.print_json(seeds_record(rows, thresholds, analysis))
    else:
        output.print_blocks([*seeds_blocks(analysis), *left_out_blocks(rows, bounded)])
    raise typer.Exit(runs.exit_code)
