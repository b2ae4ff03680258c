"""`fa-tui utility`: which reporting habit would have withdrawn which run?"""

from __future__ import annotations

from typing import Annotated

import typer

from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import UsageError
from fa_tui import options
from fa_tui.commands import inputs, output

ChanceOption = Annotated[float, typer.Option(metavar="ACC", help="Accuracy of guessing, a fraction (S0 withdraws it).")]


def utility_command(
    paths: options.PathsArgument = None,
    chance: ChanceOption = 0.1,
    methods: options.MethodsOption = None,
    seeds: options.SeedsOption = None,
    filter: options.FilterOption = "",
    format: options.FormOption = options.Form.table,
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

    if not 0.0 <= chance <= 1.0:
        raise UsageError(f"--chance {chance:g} lies outside [0, 1]", hint="write 0.1 for ten classes")
    runs = inputs.open_runs(paths, baseline, methods, seeds, audits=True).filtered(filter, thresholds)
    analysis = decision_utility(runs.table, thresholds, chance)
    if format is options.Form.json:
        output.print_json(analysis.to_dict())
    else:
        output.print_blocks([*utility_blocks(analysis), *runs.left_out()])
    raise typer.Exit(runs.exit_code)
