"""`fa-tui replicate`: published experiments as commands."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fa_core.files.atomic import refuse_link
from fa_core.reporting.blocks import Grid
from fa_core.training.plan import experiment, experiments
from fa_tui import options
from fa_tui.commands import output

_NAME = typer.Argument(
    metavar="[NAME]", help="Which experiment; default: lists them.", show_default=False
)
_DEVICE = typer.Option(
    metavar="LIST", help="Where --run trains and measures.", show_default="as `train` and `audit`"
)
_JOBS = typer.Option(metavar="N", help="Runs at a time.", show_default="one per device")
_OUT = typer.Option(metavar="PATH", help="Folder of the run folders.", parser=options.typed_path)


def replicate_command(
    name: Annotated[str | None, _NAME] = None,
    cifar10: Annotated[str, typer.Option(metavar="DIR", help="Folder of CIFAR-10.")] = "DIR",
    cifar100: Annotated[str, typer.Option(metavar="DIR", help="Folder of CIFAR-100.")] = "DIR",
    out: Annotated[Path, _OUT] = Path("replication"),
    run: Annotated[
        bool, typer.Option("--run", help="Run the commands; finished runs are not trained again.")
    ] = False,
    device: Annotated[str | None, _DEVICE] = None,
    jobs: Annotated[int | None, _JOBS] = None,
) -> None:
    """Print the commands of a published experiment, or run them.

    They train its runs, and measure them into OUT/NAME.json. docs/cifar.md lists all experiments
    with their published figures.

    Examples:

        fa-tui replicate

        fa-tui replicate audit --cifar10 /data/cifar-10-batches-bin

    \b
        fa-tui replicate audit --cifar10 /data/cifar-10-batches-bin \\
            --out replication --run
    """
    if name is None:
        known = tuple((one.name, one.title) for one in experiments())
        output.print_blocks([Grid(("name", "experiment"), known, words=2)])
        return
    refuse_link(out)
    place: list[str] = []
    for option, value in (("--device", device), ("--jobs", jobs)):
        if value is not None:
            place += [option, str(value)]
    for command in experiment(name).commands(cifar10, cifar100, str(out)):
        words = [*command, *place]
        line = shlex.join(["fa-tui", *words])
        if not run:
            output.say(line)
            continue
        output.complain(line)
        code = _run(words)
        if code:
            raise typer.Exit(code)


def _run(words: list[str]) -> int:
    """Run another command in this process; its exit code."""
    from fa_tui.typer_app import command_of  # imports the commands

    code: int | None = command_of(words[:1])(words, standalone_mode=False)
    return code or 0
