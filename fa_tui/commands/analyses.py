"""`fa-tui seeds`, `sweep` and `utility`: what many runs say together."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import replace

from fa_core.baseline import FrozenBaseline
from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import UsageError
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
    format: options.FormOption = "table",
    *,
    thresholds: DiagnosticThresholds,
    baseline: FrozenBaseline,
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
    left_out = runs.left_out()
    output.print_result(
        format, lambda: seeds_record(runs.rows, thresholds, analysis), lambda: [*seeds_blocks(analysis), *left_out]
    )
    raise typer.Exit(runs.exit_code)


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
    format: options.FormOption = "table",
    *,
    thresholds: DiagnosticThresholds,
    baseline: FrozenBaseline,
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
    left_out = runs.left_out(named or DEFAULT_HEALTHY)
    output.print_result(
        format, lambda: sweep_record(table, thresholds, analysis), lambda: [*sensitivity_blocks(analysis), *left_out]
    )
    raise typer.Exit(runs.exit_code)


ChanceOption = Annotated[float, typer.Option(metavar="ACC", help="Accuracy of guessing, a fraction (S0 withdraws it).")]


def utility_command(
    paths: options.PathsArgument = None,
    chance: ChanceOption = 0.1,
    methods: options.MethodsOption = None,
    seeds: options.SeedsOption = None,
    filter: options.FilterOption = "",
    format: options.FormOption = "table",
    *,
    thresholds: DiagnosticThresholds,
    baseline: FrozenBaseline,
) -> None:
    """Print the runs that accuracy alone, accuracy with Γ, and each diagnostic would walk back.

    Examples:

        fa-tui utility audit_table.json --seeds 42

        fa-tui utility audit_table.json --format json
    """
    from fa_core.analysis.utility import decision_utility
    from fa_core.reporting.sections.analyses import utility_blocks

    if not 0.0 <= chance <= 1.0:
        raise UsageError(f"--chance {chance:g} lies outside [0, 1]", hint="write 0.1 for ten classes")
    runs = inputs.open_runs(paths, baseline, methods, seeds, audits=True).filtered(filter, thresholds)
    analysis = decision_utility(runs.table, thresholds, chance)
    left_out = runs.left_out()
    output.print_result(format, analysis.to_dict, lambda: [*utility_blocks(analysis), *left_out])
    raise typer.Exit(runs.exit_code)
