"""`fa-tui replicate`: the published experiments as commands, and what came out compared with the published figures."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from fa_core.reporting.blocks import Block, Grid, Heading, Paragraph
from fa_core.reporting.numbers import brief, factor_spread, spread
from fa_tui import options
from fa_tui.commands import inputs, output

if TYPE_CHECKING:
    from fa_core.replication import Compared, Experiment


def replicate_command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Which experiment; default: lists them.", show_default=False)
    ] = None,
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
    evidence: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write every published claim, its command and what came out (.md, .html, .tex)."
        ),
    ] = None,
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

        fa-tui replicate --evidence evidence.md --out replication
    """
    from fa_core.replication import experiment, experiments

    if evidence is not None:
        from fa_core.reporting.form import write_blocks

        print(*write_blocks(evidence, list(evidence_blocks(out))), sep="\n")
        return
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
    figures = [] if quick else _figures(chosen, out)
    lines = [shlex.join(["fa-tui", *command]) for command in commands]
    record = {"commands": lines, "figures": list(map(msgspec.structs.asdict, figures))}
    output.print_result(format, lambda: record, experiment_blocks(chosen, lines, figures))
    raise typer.Exit(1 if any(figure.agrees is False for figure in figures) else 0)


def _figures(chosen: Experiment, out: Path) -> list[Compared]:
    """An experiment's published figures with those of its runs, if there are any."""
    from fa_core.formats import Scan
    from fa_core.replication import compared

    folder = Path(chosen.runs(str(out)))
    published = inputs.open_paths([options.sample_runs() / chosen.table]) if chosen.table else None
    return compared(chosen, inputs.open_paths([folder]) if folder.is_dir() else Scan(), published)


def evidence_blocks(out: Path) -> Iterator[Block]:
    """Every published claim, the command that checks it, and what came out here; the commands on files are run now.

    Args:
        out: folder of the experiments' run folders, where some were trained.
    """
    from fa_core.replication import claims, experiments, source

    samples = options.sample_runs()
    files = {"{table}": "audit_table_s42_s123_s456.json", "{cnn}": "audit_cnn_3seed.json"}
    yield Heading("Evidence summary", 1)
    yield Paragraph(f"Claims and figures: {source().words()}")
    yield Heading("What follows from the published files")
    printed: dict[str, Any] = {}
    rows = []
    for claim in claims():
        if claim.command not in printed:
            words = [str(samples / files[word]) if word in files else word for word in claim.command.split()]
            command = [sys.executable, "-m", "fa_tui", *words, "--format", "json"]
            printed[claim.command] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        here = claim.found_in(printed[claim.command])
        said = " ".join(files.get(word, word) for word in claim.command.split())
        outcome = "agrees" if claim.agrees(here) else "differs"
        rows.append((claim.text, f"fa-tui {said}", brief(claim.published, 7), brief(here, 7), outcome))
    yield Grid(headings=("claim", "command", "published", "here", "outcome"), rows=tuple(rows), words=2)
    yield Heading("What training gives")
    figures = [(one.name, figure) for one in experiments() for figure in _figures(one, out)]
    yield Grid(
        headings=("command", *_COLUMNS),
        rows=tuple((f"fa-tui replicate {x} --run", *(cell(one) for cell in _COLUMNS.values())) for x, one in figures),
        caption=f"Runs in {out}; the commands need CIFAR-10 or CIFAR-100 in a folder (docs/cifar.md).",
        words=3,
        marked=frozenset(i for i, (_, one) in enumerate(figures) if one.agrees is False),
    )


def experiment_blocks(chosen: Experiment, lines: Sequence[str], figures: Sequence[Compared]) -> Iterator[Block]:
    """An experiment for reading: its commands, the published figures, and what came out."""
    yield Heading(chosen.title)
    yield from map(Paragraph, lines)
    if chosen.notes:
        yield Paragraph(chosen.notes)
    # nothing was trained yet: the page of published figures
    shown = [*_COLUMNS] if any(one.here for one in figures) else [*_COLUMNS][:4]
    if figures:
        columns = {name: _COLUMNS[name] for name in shown}
        yield Grid.of(figures, columns, words=2, marked=lambda one: one.agrees is False)


def _band(one: Compared) -> str:
    return f"×/÷ {one.band:g}" if one.by_factor else f"± {one.band:.3g}" if one.band else f"the same of {one.judged}"


_COLUMNS: Mapping[str, Callable[[Compared], str]] = {
    "run": lambda one: one.run,
    "number": lambda one: one.number,
    "published": lambda one: _words(one, one.published),
    "band": _band,
    "here": lambda one: _words(one, one.here),
    "outcome": lambda one: {None: "no figure yet", True: "agrees", False: "differs"}[one.agrees],
}
"""Of a table of figures."""


def _words(one: Compared, figures: Sequence[Any]) -> str:
    """Figures as papers print them: 0.306 ± 0.008, 5.2e8 ×/÷ 1.5, 4/4/3 and – for never, letters or – for none."""
    if one.number == "fires" or one.number.startswith("first_"):
        return "/".join(str(figure or "–") for figure in figures)
    mean, std, *_ = (*figures, None, None)
    return factor_spread(mean, std) if one.by_factor else spread(mean, std)
