"""`fa-tui utility`: which reporting habit would have withdrawn which run?"""

from __future__ import annotations

from typing import Annotated

import typer

from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import UsageError
from fa_tui import options
from fa_tui.commands import inputs, output
from fa_tui.options import judging
from fa_tui.views.look import Look, arranged

ChanceOption = Annotated[
    float,
    typer.Option("--chance", metavar="ACC", help="Accuracy of guessing, a fraction (S0 withdraws it)."),
]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("utility")(judging(utility_command))


def utility_command(
    paths: options.PathsArgument = None,
    chance: ChanceOption = 0.1,
    methods: inputs.MethodsOption = None,
    seeds: inputs.SeedsOption = None,
    filter: options.FilterOption = "",
    format: output.FormOption = output.Form.table,
    *,
    thresholds: DiagnosticThresholds,
    baseline: options.FrozenBaseline,
) -> None:
    """Print the runs that accuracy alone, accuracy with Γ, and each diagnostic would walk back.

    Examples:

        fa-tui utility audit_table.json --seeds 42

        fa-tui utility audit_table.json --format json
    """
    from fa_core.analysis.utility import decision_utility
    from fa_core.reporting.sections.analyses import utility_blocks
    from fa_core.table import AuditTable
    from fa_tui.commands.inputs import left_out_blocks

    if not 0.0 <= chance <= 1.0:
        raise UsageError(f"--chance {chance:g} lies outside [0, 1]", hint="write 0.1 for ten classes")
    runs = inputs.runs(paths, baseline, methods, seeds, audits=True)
    kept = arranged(Look(filter=filter), runs.rows, thresholds)
    table = AuditTable.from_rows(kept)
    analysis = decision_utility(table, thresholds, chance)
    if format is output.Form.json:
        output.print_json(analysis.to_dict())
    else:
        output.print_blocks([*utility_blocks(analysis), *left_out_blocks(kept, runs.rows)])
    raise typer.Exit(runs.exit_code)
