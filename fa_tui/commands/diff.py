"""`fa-tui diff A B`: two audits compared run by run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Exit

from fa_core.analysis.difference import CAME, CHANGED, WENT, differences
from fa_core.reporting.blocks import Grid
from fa_tui import options
from fa_tui.commands import inputs, output
from fa_tui.commands.verdict_table import judged
from fa_tui.options import ChosenOptions
from fa_tui.views.differences import difference_grid, difference_summary


def diff_command(
    before: Annotated[
        Path, Argument(metavar="A", help="A file or folder.", parser=options.typed_path)
    ],
    after: Annotated[
        Path,
        Argument(metavar="B", help="What it is compared with.", parser=options.typed_path),
    ],
    format: options.FormOption = "table",
    *,
    selection: ChosenOptions,
) -> None:
    """Compare two audits run by run.

    Prints each run whose letters, verdict or numbers changed, with the old and the new value, or
    whose weights or data are others, and the runs that only one of the two has. Runs are paired by
    method, seed and axes. Numbers that differ by no more than rounding count as the same, and the
    summary says how many did. Settings that are others (λ, epochs, B, K) are said first. Both are
    judged by the same thresholds.

    Exits with 0 if nothing changed, 1 if something did, 2 if no run of either passes the filter, 3
    if a file could not be read.

    Examples:

        fa-tui diff before.json after.json

        fa-tui diff runs_july/ runs_august/ --filter method:dfa

        fa-tui diff old.json new.json --format json
    """
    chosen = selection.chosen()
    thresholds = chosen.criteria.thresholds
    old, new = (inputs.open_paths([path], columns=chosen.log.given) for path in (before, after))
    for path, found in ((before, old), (after, new)):
        if not found.rows:
            raise inputs.nothing_to_analyse([path], found.traces)
    runs = differences(
        list(judged(inputs.selected(old, chosen, may_be_none=True), thresholds)),
        list(judged(inputs.selected(new, chosen, may_be_none=True), thresholds)),
    )
    if not runs:
        raise inputs.none_passes(chosen)
    changed = [run for run in runs if run.state in (CHANGED, CAME, WENT)]
    blocks: list[Grid | str] = []
    if changed:
        blocks.append(difference_grid(changed))
    blocks.append(", ".join(difference_summary(runs)))
    record = {
        "a": str(before),
        "b": str(after),
        "runs": [run.to_dict() for run in runs],
    }
    output.print_result(format, record, blocks)
    if old.problems or new.problems:
        raise Exit(3)
    raise Exit(1 if changed else 0)
