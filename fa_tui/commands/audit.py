"""`fa-tui audit`: measure checkpoints and run folders."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from fa_core.report import DiagnosticThresholds
from fa_tui.commands.show import Format, FormatOption
from fa_tui.shell import options
from fa_tui.shell.judging import judging

MOST_RESAMPLES = 10_000
"""Each is kept in FILE, four numbers long."""


class Credit(str, enum.Enum):
    """How much of the credit quality to measure, where a run saved what its credit needs."""

    none = "none"
    gamma = "gamma"
    full = "full"


class Engine(str, enum.Enum):
    """Where measuring happens."""

    local = "local"
    ray = "ray"


class Dtype(str, enum.Enum):
    """The arithmetic to measure in."""

    auto = "auto"
    float32 = "float32"
    float64 = "float64"
    as_is = "as-is"


DataOption = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="SPEC",
        help="Data to measure on: synthetic[:…], cifar10:DIR, cifar100:DIR, digits, npz:FILE or module:callable. "
        "Default: the one in the run's manifest.",
        show_default=False,
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODULE:CALLABLE",
        help="Your own network: called without arguments, returns the module that the weights belong to.",
        show_default=False,
    ),
]
TapsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--taps",
        metavar="LIST",
        help="Modules whose outputs are the stream h_0..h_L, e.g. 'embed,blocks.*'.",
        show_default=False,
    ),
]
DeviceOption = Annotated[
    str, typer.Option("--device", help="auto, cpu, cuda:all, cuda:1, or several with commas: one worker each.")
]
JobsOption = Annotated[
    int | None, typer.Option("--jobs", metavar="N", help="Workers at a time.", show_default="one per device")
]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("audit")(judging(audit_command))


def audit_command(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The audit table to write (JSON).")],
    paths: options.PathsArgument = None,
    device: DeviceOption = "auto",
    data: DataOption = None,
    model: ModelOption = None,
    taps: TapsOption = None,
    batches: Annotated[
        int | None,
        typer.Option("--batches", metavar="K", help="Batches behind (c).", show_default="the manifest's, else 10"),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option("--batch-size", metavar="B", help="Samples in each.", show_default="the manifest's, else 128"),
    ] = None,
    norm_batches: Annotated[int, typer.Option("--norm-batches", help="How many of them (a) and (b) use.")] = 1,
    dtype: Annotated[
        Dtype, typer.Option("--dtype", help="Arithmetic; auto: half precision in float32, others as they are.")
    ] = Dtype.auto,
    credit: Annotated[
        Credit, typer.Option("--credit", help="Credit quality: none, Γ per layer, or also ρ, nudge and the null.")
    ] = Credit.gamma,
    resamples: Annotated[
        int,
        typer.Option(
            "--resamples",
            metavar="N",
            min=0,
            max=MOST_RESAMPLES,
            help="Bootstrap over batches and samples: an interval for each diagnostic, and how often the verdict is "
            "the same. 1000 are plenty; 0: none.",
        ),
    ] = 0,
    precision: Annotated[
        bool,
        typer.Option(
            "--precision", help="Compare the gradients with float64 ones, per layer: is the reference itself right?"
        ),
    ] = False,
    jobs: JobsOption = None,
    group: Annotated[
        int | None,
        typer.Option(
            "--group",
            metavar="N",
            min=1,
            help="Networks of one architecture measured at once by a worker; 1: one by one. The numbers are the same.",
            show_default="as memory allows on a GPU, 1 on a CPU",
        ),
    ] = None,
    engine: Annotated[
        Engine, typer.Option("--engine", help="Where: worker processes of this machine, or a Ray cluster (extra ray).")
    ] = Engine.local,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="The Ray cluster's head, or auto: the one that runs here (RAY_ADDRESS).",
            show_default="auto; if there is none, Ray on this machine",
        ),
    ] = None,
    patience: Annotated[
        float | None,
        typer.Option(
            "--patience",
            metavar="SECONDS",
            min=1,
            help="On a cluster: a run is tried on another node too after this long without a word.",
            show_default="10 times the longest pause so far, at least 30",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Skip what FILE holds already, measured from the same files and settings.")
    ] = False,
    format: FormatOption = Format.table,
    *,
    thresholds: DiagnosticThresholds,
    baseline: options.FrozenBaseline,
) -> None:
    """Measure checkpoints and run folders, print the verdict table, write FILE after every finished run.

    A run that fails is named and costs no other; Ctrl-C keeps what is finished, --resume goes on from there.
    Exits with 3 if some run could not be measured, 130 if interrupted.

    Examples:

        fa-tui audit runs/ --out audit.json

        fa-tui audit runs/ --out audit.json --credit full --resamples 1000 --precision

        fa-tui audit dfa_s42.pt --data cifar10:/data/cifar --out dfa.json

        fa-tui audit nets/ --model my_lab.nets:build --taps 'embed,blocks.*' --data my_lab.data:load --out audit.json

        fa-tui audit runs/ --out audit.json --engine ray --address auto
    """
    from fa_core.engine.audit import audit, measurable
    from fa_core.engine.jobs import MeasureOptions
    from fa_core.rows import AuditRow
    from fa_tui.commands.show import judged, print_rows
    from fa_tui.shell.audit_progress import AuditProgress
    from fa_tui.views.names import labels, with_seed

    found = options.open_paths(paths)
    settings = MeasureOptions(
        data=data,
        model=model,
        taps=options.split_list(taps),
        batches=batches,
        batch_size=batch_size,
        norm_batches=norm_batches,
        dtype=None if dtype is Dtype.auto else dtype.value,
        credit=credit.value,
        resamples=resamples,
        precision=precision,
    )

    def adjust(rows: Iterable[AuditRow]) -> list[AuditRow]:
        return judged(baseline.apply(rows), thresholds)

    targets = measurable(found.rows)
    names = {str(row.checkpoint): with_seed(label, row) for label, row in zip(labels(targets), targets, strict=True)}
    with AuditProgress(names) as progress:
        result = audit(
            found.rows,
            out,
            settings,
            resume=resume,
            device=device,
            jobs=jobs,
            group=group,
            engine=engine.value,
            address=address,
            patience=patience,
            adjust=adjust,
            on_event=progress,
            on_plan=progress.plan,
            on_notice=progress.say,
        )
    options.tell_problems(result.failures)
    print_rows(result.rows, format.value)
    if result.interrupted:
        kept = f"{out} holds what is finished, --resume goes on" if out.exists() else "no run was finished"
        print(f"fa-tui: interrupted; {kept}", file=sys.stderr)
        raise typer.Exit(130)
    raise typer.Exit(3 if result.failures or options.named_path_failed(paths, found.problems) else 0)
