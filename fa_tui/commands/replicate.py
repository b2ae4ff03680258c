"""`fa-tui replicate`: the published experiments as commands, and what came out compared with the published figures."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from fa_core.reporting.blocks import Block, Grid, Heading, Paragraph
from fa_core.reporting.numbers import factor_spread, spread
from fa_tui import options
from fa_tui.commands import inputs, output

if TYPE_CHECKING:
    from fa_core.replication import Compared, Experiment

NameArgument = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Which experiment; default: lists them.", show_default=False)
]


def replicate_command(
    name: NameArgument = None,
    cifar10: Annotated[str, typer.Option(metavar="DIR", help="Folder of CIFAR-10.")] = "DIR",
    cifar100: Annotated[str, typer.Option(metavar="DIR", help="Folder of CIFAR-100.")] = "DIR",
    out: Annotated[Path, typer.Option(help="Folder of the run folders.")] = Path("replication"),
    run: Annotated[bool, typer.Option("--run", help="Run the commands; finished runs are not trained again.")] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="One epoch of one seed, into OUT/quick: whether everything works; nothing is compared."
        ),
    ] = False,
    format: options.FormOption = "table",
) -> None:
    """Print the commands of a published experiment, or run them.

    What comes out is compared with the published figures.
    Exits with 1 if a figure lies outside its band. docs/cifar.md lists all experiments.

    Examples:

        fa-tui replicate

        fa-tui replicate audit --cifar10 /data/cifar-10-batches-bin

        fa-tui replicate audit --cifar10 /data/cifar-10-batches-bin --quick --run

        fa-tui replicate audit --cifar10 /data/cifar-10-batches-bin --out replication --run
    """
    from fa_core.formats import Scan
    from fa_core.replication import compared, experiment, experiments

    if name is None:
        known = [(one.name, one.title) for one in experiments()]
        output.print_result(
            format, lambda: dict(known), [Grid(headings=("name", "experiment"), rows=tuple(known), words=2)]
        )
        return
    chosen = experiment(name)
    out = out / "quick" if quick else out
    commands = chosen.commands(cifar10, cifar100, str(out), quick)
    for command in commands if run else ():
        print(f"fa-tui: {shlex.join(command)}", file=sys.stderr)
        if code := subprocess.run([sys.executable, "-m", "fa_tui", *command], check=False).returncode:
            raise typer.Exit(code)
    folder = Path(chosen.runs(str(out)))
    published = inputs.open_paths([options.sample_runs() / chosen.table]) if chosen.table else None
    found = inputs.open_paths([folder]) if folder.is_dir() and not quick else Scan()
    figures = [] if quick else compared(chosen, found, published)
    lines = [shlex.join(["fa-tui", *command]) for command in commands]
    record = {"commands": lines, "figures": list(map(msgspec.structs.asdict, figures))}
    output.print_result(format, lambda: record, experiment_blocks(chosen, lines, figures))
    raise typer.Exit(1 if any(figure.agrees is False for figure in figures) else 0)


def experiment_blocks(chosen: Experiment, lines: Sequence[str], figures: Sequence[Compared]) -> Iterator[Block]:
    """An experiment for reading: its commands, the published figures, and what came out."""
    yield Heading(chosen.title)
    yield from map(Paragraph, lines)
    if chosen.notes:
        yield Paragraph(chosen.notes)
    headings = ("run", "number", "published", "band", "here", "outcome")
    # nothing was trained yet: the page of published figures
    shown = len(headings) if any(one.here for one in figures) else headings.index("here")
    if figures:
        yield Grid(
            headings=headings[:shown],
            rows=tuple((one.run, one.number, *_cells(one))[:shown] for one in figures),
            words=2,
            marked=frozenset(i for i, one in enumerate(figures) if one.agrees is False),
        )


def _cells(one: Compared) -> tuple[str, ...]:
    outcome = {None: "no figure yet", True: "agrees", False: "differs"}[one.agrees]
    band = f"×/÷ {one.band:g}" if one.by_factor else f"± {one.band:.3g}" if one.band else f"the same of {one.judged}"
    return _words(one, one.published), band, _words(one, one.here), outcome


def _words(one: Compared, figures: Sequence[Any]) -> str:
    """Figures as papers print them: 0.306 ± 0.008, 5.2e8 ×/÷ 1.5, 4/4/3 and – for never, letters or – for none."""
    if one.number == "fires" or one.number.startswith("first_"):
        return "/".join(str(figure or "–") for figure in figures)
    mean, std, *_ = (*figures, None, None)
    return factor_spread(mean, std) if one.by_factor else spread(mean, std)
