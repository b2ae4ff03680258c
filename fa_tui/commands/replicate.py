"""`fa-tui replicate`: published experiments as commands, compared with published figures."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from fa_core.children import start_python
from fa_core.decode import Json
from fa_core.numbers import brief, spread
from fa_core.reporting.blocks import Block, Bullets, Grid, Heading, Paragraph
from fa_tui import options
from fa_tui.commands import inputs, output
from fa_tui.samples import sample_runs

if TYPE_CHECKING:
    from fa_core.training.experiments import Experiment
    from fa_core.training.replication import Compared


_NAME = typer.Argument(
    metavar="[NAME]", help="Which experiment; default: lists them.", show_default=False
)
_QUICK_HELP = (
    "One epoch of one seed, into OUT/quick: whether everything works; nothing is compared."
)
_EVIDENCE_HELP = "Write every published claim, its command and what came out (.md, .html, .tex)."
_DEVICE_HELP = "Where --run trains: auto, cpu, cuda:all, cuda:1, or several with commas."
_JOBS = typer.Option(metavar="N", help="Runs at a time.", show_default="one per device")
_EVIDENCE = typer.Option(metavar="FILE", help=_EVIDENCE_HELP, parser=options.typed_path)
_OUT = typer.Option(metavar="PATH", help="Folder of the run folders.", parser=options.typed_path)


def replicate_command(
    name: Annotated[str | None, _NAME] = None,
    cifar10: Annotated[str, typer.Option(metavar="DIR", help="Folder of CIFAR-10.")] = "DIR",
    cifar100: Annotated[str, typer.Option(metavar="DIR", help="Folder of CIFAR-100.")] = "DIR",
    out: Annotated[Path, _OUT] = Path("replication"),
    run: Annotated[
        bool, typer.Option("--run", help="Run the commands; finished runs are not trained again.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help=_QUICK_HELP)] = False,
    evidence: Annotated[Path | None, _EVIDENCE] = None,
    device: Annotated[str, typer.Option(metavar="LIST", help=_DEVICE_HELP)] = "auto",
    jobs: Annotated[int | None, _JOBS] = None,
    format: options.FormOption = "table",
) -> None:
    """Print the commands of a published experiment, or run them.

    Finished runs of all its seeds are compared with the published figures.
    Exits with 1 if a figure lies outside its band. docs/cifar.md lists all experiments.

    Examples:

        fa-tui replicate

        fa-tui replicate audit --cifar10 /data/cifar-10-batches-bin

        fa-tui replicate audit --cifar10 /data/cifar-10-batches-bin --quick --run

        fa-tui replicate audit --cifar10 /data/cifar-10-batches-bin --out replication --run

        fa-tui replicate --evidence evidence.md --out replication
    """
    from fa_core.training.experiments import experiment, experiments

    if evidence is not None:
        from fa_core.reporting.form import write_blocks

        print(*map(output.link, write_blocks(evidence, list(evidence_blocks(out)))), sep="\n")
        return
    if name is None:
        known = [(one.name, one.title) for one in experiments()]
        listed = Grid(headings=("name", "experiment"), rows=tuple(known), words=2)
        output.print_result(format, dict(known), [listed])
        return
    chosen = experiment(name)
    if quick:
        out = out / "quick"
    commands = chosen.commands(cifar10, cifar100, str(out), quick)
    place = ["--device", device]
    if jobs is not None:
        place += ["--jobs", str(jobs)]
    for command in commands if run else ():
        print(f"fa-tui: {shlex.join(command)}", file=sys.stderr)
        if code := start_python("fa_tui", *command, *place).wait():
            raise typer.Exit(code)
    figures, notes = ([], [QUICK]) if quick else _figures(chosen, out)
    lines = [shlex.join(["fa-tui", *command]) for command in commands]
    shown = [{**msgspec.structs.asdict(figure), "outcome": figure.outcome} for figure in figures]
    record = {"commands": lines, "figures": shown, "notes": notes}
    output.print_result(format, record, experiment_blocks(chosen, lines, figures, notes))
    raise typer.Exit(1 if any(map(_differs, figures)) else 0)


QUICK = (
    "One epoch of one seed, to see whether everything works: nothing is compared with the "
    "published figures."
)


def _figures(chosen: Experiment, out: Path) -> tuple[list[Compared], list[str]]:
    """An experiment's published figures with those of its finished runs, and notes on other
    runs."""
    from fa_core.facts.manifest import is_run
    from fa_core.formats import Scan
    from fa_core.training.replication import compared, finished

    folders = [
        folder for name in chosen.plans() if is_run(folder := Path(chosen.runs(str(out)), name))
    ]
    runs, left_out = finished(chosen, inputs.open_paths(folders) if folders else Scan())
    if chosen.table:
        published = inputs.open_paths([sample_runs() / chosen.table])
    else:
        published = None
    return compared(chosen, runs, published), left_out


def evidence_blocks(out: Path) -> Iterator[Block]:
    """All published claims with their commands and results here; commands on files are run now.

    Args:
        out: folder of the experiments' run folders, if any were trained.
    """
    from fa_core.training.experiments import document, experiments

    samples = sample_runs()
    yield Heading("Evidence summary", 1)
    yield Paragraph(f"Claims and figures: {document().source.citation()}")
    yield Heading("What follows from the published files")
    printed: Json = {}
    rows = []
    for claim in document().claim:
        words = [
            str(samples / word) if word.endswith(".json") else word
            for word in claim.command.split()
        ]
        as_json = [*words, "--format", "json"]
        if claim.command not in printed:
            with start_python("fa_tui", *as_json, stdout=subprocess.PIPE) as child:
                printed[claim.command] = json.loads(child.communicate()[0])
        here = claim.found_in(printed[claim.command])
        if claim.agrees(here):
            outcome = "agrees"
        else:
            outcome = "differs"
        # only the table form prints the number of runs
        shown, place = (words, "the table") if claim.place.endswith("#") else (as_json, claim.place)
        figures = brief(claim.published, 7), brief(here, 7)
        rows.append((claim.text, shlex.join(["fa-tui", *shown]), place, *figures, outcome))
    yield Grid(
        headings=("claim", "command", "where", "published", "here", "outcome"),
        rows=tuple(rows),
        words=3,
    )
    yield Heading("What training gives")
    yield Paragraph(
        f"Runs in {out}; with --run and --cifar10 DIR or --cifar100 DIR each command trains its "
        "own."
    )
    for chosen in experiments():
        line = shlex.join(["fa-tui", "replicate", chosen.name, "--out", str(out)])
        yield from experiment_blocks(chosen, [line], *_figures(chosen, out))


def experiment_blocks(
    chosen: Experiment, lines: Sequence[str], figures: Sequence[Compared], notes: Sequence[str] = ()
) -> Iterator[Block]:
    """An experiment for reading: commands, published figures, results and notes."""
    yield Heading(chosen.title)
    yield from map(Paragraph, lines)
    if chosen.notes:
        yield Paragraph(chosen.notes)
    # before training: the page of published figures
    columns = _PUBLISHED
    if any(one.outcome != "no figure yet" for one in figures):
        columns = {**_PUBLISHED, **_HERE}
    if figures:
        records = [{name: say(one) for name, say in columns.items()} for one in figures]
        yield Grid.of(records, words=2, marked=[_differs(one) for one in figures])
    if notes:
        yield Bullets(tuple(notes))


def _differs(one: Compared) -> bool:
    return one.agrees is False


def _band(one: Compared) -> str:
    if one.unchecked:
        return one.unchecked
    if not one.band:
        return "the same"
    return " … ".join(brief(end, 3) for end in one.band)


def _published(one: Compared) -> str:
    if len(one.published) == 2:
        return spread(*one.published)
    return _listed(one.published)


def _here(one: Compared) -> str:
    return _listed(one.here)


def _mean(one: Compared) -> str:
    if one.mean is None:
        return ""
    return brief(one.mean)


def _listed(values: Sequence[object]) -> str:
    """Values by seed, e.g. 4/4/3; – for never or no letter, ? for a missing seed."""
    return "/".join(map(_one_seed, values))


def _one_seed(value: object) -> str:
    if value is None:
        return "?"
    if isinstance(value, float):
        return brief(value)
    return str(value or "–")


_PUBLISHED: Mapping[str, Callable[[Compared], str]] = {
    "run": attrgetter("run"),
    "number": attrgetter("number"),
    "published": _published,
    "band": _band,
}
"""Columns of published figures."""

_HERE: Mapping[str, Callable[[Compared], str]] = {
    "here": _here,
    "mean": _mean,
    "outcome": attrgetter("outcome"),
}
"""Columns of the runs here."""
