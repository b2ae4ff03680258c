"""`fa-tui open`: the explorer, or the verdict table where there is no terminal."""

from __future__ import annotations

import sys
from typing import Annotated

from msgspec.structs import asdict
from typer import Context, Exit, Option

from fa_core.audit.jobs import MeasureOptions, check_options
from fa_tui import options
from fa_tui.jobs.measuring import Setup
from fa_tui.options import Chosen, CriteriaOptions, ExecutionOptions, Log
from fa_tui.terminal import abilities
from fa_tui.views.columns import CELLS
from fa_tui.views.filters import CELL_LETTERS, ViewState

_NO_SCREEN = (
    "fa-tui: the explorer needs stdin, stdout and stderr on a terminal that can draw; "
    "here is the table"
)


def open_command(  # noqa: PLR0913 (options of a command)
    context: Context,
    paths: options.PathsArgument = None,
    data: options.DataOption = None,
    model: options.ModelOption = None,
    taps: options.TapsOption = None,
    logits: options.LogitsOption = None,
    loss: options.LossOption = None,
    show: Annotated[
        str,
        Option(
            metavar="WHAT",
            help=f"What the matrix shows: {', '.join((CELL_LETTERS, *CELLS))}.",
            show_default="what the settings say",
        ),
    ] = "",
    filter: options.FilterOption = "",
    sort: options.SortOption = "",
    long: Annotated[
        bool, Option("--long", help="Begin on the Table page, as --sort does.")
    ] = False,
    *,
    workers: ExecutionOptions,
    log: Log,
    judged_by: CriteriaOptions,
) -> None:
    """Open the explorer on audit files, checkpoints and run folders.

    It opens on the sample runs if none are named. Without a terminal it prints what `fa-tui show`
    prints. Thresholds that are not given are those of the settings file, which `fa-tui doctor`
    names, or the protocol's.

    Examples:

        fa-tui

        fa-tui runs/ audit_table.json

        fa-tui open runs/ --frozen-baseline 0.349

        fa-tui runs/ --show growth --filter method:dfa

        fa-tui nets/ --data cifar10:/data/cifar   # to measure checkpoints

        fa-tui runs/ --engine ray --address auto   # m measures on the cluster
    """
    execution = workers.execution()
    execution.check()
    criteria = judged_by.criteria()
    look = ViewState(show, filter, sort, long)
    if not abilities.on_a_terminal():
        from fa_tui.commands.verdict_table import print_paths  # imports NumPy

        if sys.stdout.isatty():
            print(_NO_SCREEN, file=sys.stderr)
        chosen = Chosen(criteria, filter=filter, log=log)
        raise Exit(print_paths(paths, chosen, "table", look))
    given = {
        name: limit
        for name, limit in asdict(criteria.thresholds).items()
        if (source := context.get_parameter_source(name)) is not None and source.name != "DEFAULT"
    }
    measured = MeasureOptions(
        data=data, model=model, taps=options.split_list(taps), logits=logits, loss=loss
    )
    check_options(measured)
    setup = Setup(execution, measured)
    from fa_tui.opening import open_explorer  # Textual, which `fa-tui --help` does without

    code = open_explorer(
        paths or [], given=given, look=look, baseline=criteria.baseline, log=log, setup=setup
    )
    raise Exit(code)
