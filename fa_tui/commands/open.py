"""`fa-tui open`: the explorer, or the verdict table where there is no terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from fa_core.diagnostics import DiagnosticThresholds
from fa_core.engine.devices import Placement
from fa_core.engine.jobs import MeasureOptions
from fa_tui import options
from fa_tui.jobs.setup import Setup
from fa_tui.opening import open_explorer
from fa_tui.options import judging, placing
from fa_tui.views.look import CELL_LETTERS, Look
from fa_tui.views.quantities import BY_NAME

_AXES = "method, seed, source, or what the runs name, such as lam"

ShowOption = Annotated[
    str,
    typer.Option(
        "--show",
        metavar="WHAT",
        help=f"What the matrix shows: {', '.join((CELL_LETTERS, *BY_NAME))}.",
        show_default="what the settings say",
    ),
]
RowsOption = Annotated[
    str, typer.Option("--rows", metavar="AXIS", help=f"The lines of the matrix: {_AXES}.", show_default="method")
]
ColumnsOption = Annotated[
    str, typer.Option("--columns", metavar="AXIS", help="Its columns, likewise.", show_default="seed")
]
LongOption = Annotated[bool, typer.Option("--long", help="Begin in the long view, as --sort does.")]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("open")(judging(placing(open_command)))


def open_command(
    context: typer.Context,
    paths: options.PathsArgument = None,
    data: options.DataOption = None,
    model: options.ModelOption = None,
    taps: options.TapsOption = None,
    show: ShowOption = "",
    rows: RowsOption = "",
    columns: ColumnsOption = "",
    filter: options.FilterOption = "",
    sort: options.SortOption = "",
    long: LongOption = False,
    *,
    placement: Placement,
    thresholds: DiagnosticThresholds,
    baseline: options.FrozenBaseline,
) -> None:
    """Open the explorer on audit files, checkpoints and run folders (the sample runs if none are named).

    Without a terminal it prints what `fa-tui show` prints. Thresholds that are not given are those of the
    settings file (`fa-tui schema settings`), or the protocol's.

    Examples:

        fa-tui

        fa-tui runs/ audit_table.json

        fa-tui open runs/ --frozen-baseline 0.349

        fa-tui runs/ --show growth --columns lam --filter method:dfa

        fa-tui nets/ --data cifar10:/data/cifar   # so that bare checkpoints can be measured from the explorer

        fa-tui runs/ --engine ray --address auto   # m measures on the cluster
    """
    placement.check()
    given = {
        name: getattr(thresholds, name)
        for name in thresholds.__struct_fields__
        if (source := context.get_parameter_source(name)) is not None and source.name != "DEFAULT"
    }
    raise typer.Exit(
        open_explorer(
            paths or [],
            given=given,
            look=Look(show, rows, columns, filter, sort, long),
            baseline=baseline if baseline != options.FrozenBaseline() else None,
            setup=Setup(placement, MeasureOptions(data=data, model=model, taps=options.split_list(taps))),
        )
    )
