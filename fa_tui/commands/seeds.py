"""`fa-tui seeds`: every method over its seeds."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import replace

from fa_core.diagnostics import DiagnosticThresholds
from fa_tui import options
from fa_tui.commands import inputs, output

ByOption = Annotated[
    list[str] | None,
    typer.Option(metavar="LIST", help="Second axes to keep apart (lam, d, L, arch); default: all that vary."),
]


def seeds_command(
    paths: options.PathsArgument = None,
    by: ByOption = None,
    methods: options.MethodsOption = None,
    seeds: options.SeedsOption = None,
    filter: options.FilterOption = "",
    h0: options.H0Option = None,
    blocks: options.BlocksOption = None,
    format: options.FormOption = options.Form.table,
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

    runs = inputs.open_runs(paths, baseline, methods, seeds, audits=True)
    runs = replace(runs, rows=inputs.bounded(runs.rows, h0, blocks)).filtered(filter, thresholds)
    analysis = over_seeds(runs.table, thresholds, options.split_list(by) if by else None)
    if format is options.Form.json:
        output.print_json(seeds_record(runs.rows, thresholds, analysis))
    else:
        output.print_blocks([*seeds_blocks(analysis), *runs.left_out()])
    raise typer.Exit(runs.exit_code)
