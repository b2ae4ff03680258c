"""`fa-tui verify`: measure a recorded audit again and compare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fa_core.engine.devices import Placement
from fa_tui import options
from fa_tui.commands import inputs, output
from fa_tui.commands.progress import AuditProgress
from fa_tui.views.words import with_seed

if TYPE_CHECKING:
    from fa_core.engine.verify import Verification


def verify_command(
    paths: options.PathsArgument = None,
    data: options.DataOption = None,
    model: options.ModelOption = None,
    *,
    placement: Placement,
    format: Annotated[options.Form, typer.Option(help="How to print the outcome.")] = "table",
) -> None:
    """Measure recorded audits again and compare them number by number.

    Weights, data, accuracies and the verdict must be the same; norms and cosines may differ by what rounding can do
    in a network of that depth and width. Versions and devices that changed are told. Exits with 1 if a run differs,
    3 if one could not be measured again.

    Examples:

        fa-tui verify runs/dfa_s42

        fa-tui verify audit.json --format json
    """
    from fa_core.engine.verify import verify

    found = inputs.open_paths(paths)
    with AuditProgress() as progress:
        result = verify(
            found.rows,
            data=data,
            model=model,
            placement=placement,
            on_event=progress,
            on_plan=progress.plan,
            on_notice=progress.notice,
        )
    inputs.report_problems([*result.skipped, *result.failures])
    if format == "json":
        output.print_json([record(run) for run in result.runs])
    else:
        for run in result.runs:
            print("\n".join(lines(run)))
    if result.interrupted:
        raise typer.Exit(130)
    if result.failures or inputs.named_path_failed(paths, found.problems):
        raise typer.Exit(3)
    raise typer.Exit(0 if all(run.comparison.agrees for run in result.runs) else 1)


def lines(run: Verification) -> Iterator[str]:
    """The outcome for one run as text: whether it agrees, then everything that is not as recorded."""
    comparison = run.comparison
    if comparison.agrees and comparison.largest == 0:
        found = f"agrees: {comparison.compared} numbers, bit for bit"
    elif comparison.agrees:
        found = f"agrees: {comparison.compared} numbers, at most {comparison.largest:.2g} of what rounding allows"
    else:
        kinds = dict.fromkeys(difference.kind for difference in comparison.differences if difference.decides)
        found = f"DIFFERS in {', '.join(kinds)}"
    yield f"{with_seed(run.row.method, run.row)} ({run.row.source}): {found}"
    for difference in comparison.differences:
        yield f"  {'≠' if difference.decides else '·'} {difference}"
    if comparison.unrecorded:
        yield f"  · not in the record, so not compared: {', '.join(comparison.unrecorded)}"


def record(run: Verification) -> dict[str, Any]:
    """The outcome for one run as JSON."""
    import msgspec

    comparison = run.comparison
    return {
        "source": run.row.source,
        "method": run.row.method,
        "seed": run.row.seed,
        "agrees": comparison.agrees,
        "compared": comparison.compared,
        "largest_over_tolerance": comparison.largest,
        "differences": [msgspec.to_builtins(difference) for difference in comparison.differences],
        "unrecorded": comparison.unrecorded,
    }
