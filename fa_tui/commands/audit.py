"""`fa-tui audit` measures checkpoints and run folders; `fa-tui verify` measures them again."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from typer import Exit, Option

from fa_core.analysis.record_comparison import MOST_NAMED
from fa_core.audit.audit import Measuring, audit, measurable
from fa_core.audit.jobs import AUTO, DECIDE_AT, GAMMA, MeasureOptions, check_options
from fa_core.audit.verify import verify
from fa_core.errors import UsageError
from fa_core.files.decode import Json
from fa_core.files.opening import exists, real_path
from fa_core.formats.rows import AuditRow, with_given_baseline
from fa_core.report.method_style import FROZEN
from fa_core.report.notes import other_data
from fa_core.report.numbers import joined, listed
from fa_core.report.report_facts import PROTOCOL
from fa_tui import options
from fa_tui.commands import inputs, output
from fa_tui.commands.progress import AuditProgress, stoppable
from fa_tui.commands.verdict_table import judged, print_rows
from fa_tui.options import Chosen, Criteria, CriteriaOptions, ExecutionOptions
from fa_tui.views.words import names_of

if TYPE_CHECKING:
    from fa_core.audit.verify import Verification


def audit_command(  # noqa: PLR0913 (options of a command)
    out: Annotated[
        Path,
        Option(
            metavar="FILE",
            help="The audit table to write (JSON).",
            parser=options.typed_path,
        ),
    ],
    paths: options.NamedPaths,
    data: options.DataOption = None,
    model: options.ModelOption = None,
    weights: options.WeightsOption = None,
    taps: options.TapsOption = None,
    logits: options.LogitsOption = None,
    loss: options.LossOption = None,
    batches: Annotated[
        str | None,
        Option(
            metavar="K|auto",
            help="Batches behind (c); auto: 8, 16, 32 or 64, until (c) is decided.",
            show_default="the manifest's, else 10",
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        Option(metavar="B", help="Samples in each.", show_default="the manifest's, else 128"),
    ] = None,
    norm_batches: Annotated[int, Option(help="How many of them (a) and (b) use.")] = 1,
    dtype: Annotated[
        Literal["auto", "float32", "float64", "as-is"],
        Option(help="Arithmetic; auto: half precision in float32, others as they are."),
    ] = "auto",
    credit: Annotated[
        str,
        Option(
            metavar="none|gamma|full|MODULE:CALLABLE",
            help="Credit quality: none, Γ per layer with its null, or also ρ; or your function "
            "(model, x, y) -> [a_0..a_L].",
        ),
    ] = "gamma",
    precision: Annotated[
        bool,
        Option(
            "--precision",
            help="Compare the gradients with float64 ones, per layer, also where (b) does not "
            "fire: is the reference itself right?",
        ),
    ] = False,
    ablate: Annotated[
        bool,
        Option("--ablate", help="Measure accuracy without each block: passes per block."),
    ] = False,
    *,
    workers: ExecutionOptions,
    resume: Annotated[
        bool,
        Option(
            "--resume",
            help="Skip what FILE holds already, measured from the same files, settings and data.",
        ),
    ] = False,
    replace: Annotated[
        bool,
        Option("--replace", help="Measure all again; what FILE holds is kept as FILE.~1~."),
    ] = False,
    notes: Annotated[
        str, Option(metavar="TEXT", help="What the reports are to say of these runs.")
    ] = "",
    format: options.FormOption = "table",
    shard: Annotated[
        str,
        Option(metavar="I/N", help="The I-th of N parts of the runs, each with a FILE of its own."),
    ] = "1/1",
    filter: options.FilterOption = "",
    judged_by: CriteriaOptions,
) -> None:
    """Measure checkpoints and run folders.

    A FILE that is there already is only written to with --resume or --replace, and never by two
    audits at once.

    Prints the verdict table, and writes FILE as runs finish; its field verdict is the published
    rule by numbers, show --format json has the judgement. A run that fails is named and costs no
    other; Ctrl-C, SIGTERM and SIGHUP keep what is finished, --resume goes on from there. Exits with
    3 if some run could not be measured or saved, 130 if interrupted, 143 or 129 if signalled.

    Examples:

        fa-tui audit runs/ --out audit.json

        fa-tui audit runs/ --out audit.json --credit full --precision --ablate

    \b
        fa-tui audit nets/ --model my_lab.nets:build --credit my_lab.nets:credit \\
            --data digits --out audit.json

        fa-tui audit dfa_s42.pt --data cifar10:/data/cifar --out dfa.json

    \b
        fa-tui audit nets/ --model my_lab.nets:build --taps 'embed,blocks.*' \\
            --data my_lab.data:load --out audit.json

    \b
        fa-tui audit nets/ --model my_lab.nets:build --loss bce \\
            --data digits --out audit.json

        fa-tui audit runs/ --out audit.json --notes 'd = 256, CIFAR-10'

        fa-tui audit runs/ --out audit.json --engine ray --address auto

    \b
        fa-tui audit runs/ --shard $SLURM_ARRAY_TASK_ID/8 \\
            --out part-$SLURM_ARRAY_TASK_ID.json
    """
    found = inputs.open_paths(paths, run_traces=False)
    criteria = judged_by.criteria()
    criteria.baseline.check(row.method for row in found.rows)
    settings = MeasureOptions(
        data=data,
        model=model,
        weights=weights,
        taps=options.split_list(taps),
        logits=logits,
        loss=loss,
        batches=number_of_batches(batches),
        decide_at=criteria.thresholds.stability_drift_ceiling if batches == AUTO else DECIDE_AT,
        batch_size=batch_size,
        norm_batches=norm_batches,
        dtype=None if dtype == "auto" else dtype,
        credit=credit,
        precision=precision,
        ablate=ablate,
    )

    def adjust(rows: Iterable[AuditRow]) -> list[AuditRow]:
        own = [_noted(with_given_baseline(row, criteria.baseline), notes) for row in rows]
        return list(judged(own, criteria.thresholds))

    rows = inputs.selected(found, Chosen(Criteria(criteria.thresholds), filter=filter))
    targets = in_part(measurable(rows), shard)
    names = dict(zip([str(row.checkpoint) for row in targets], names_of(targets), strict=True))
    with stoppable() as stop, AuditProgress(names, criteria.thresholds) as progress:
        how = Measuring(workers.execution(), progress, progress.plan, progress.notice)
        result = audit(
            targets, out, settings, how, resume=resume, replace_old=replace, adjust=adjust
        )
    inputs.report_failures(result.failures)
    print_rows(result.rows, format, criteria.thresholds)
    if result.interrupted:
        kept = "no run was finished"
        if exists(out):
            kept = f"{out} holds what is finished, --resume goes on"
        output.complain(f"{stop}; {kept}")
        raise Exit(stop.exit_code)
    if exists(out) and sys.stderr.isatty():
        output.complain(f"wrote {out}")
    raise Exit(3 if result.failures or found.problems else 0)


def number_of_batches(text: str | None) -> int | Literal["auto"] | None:
    """``--batches`` as a number, or ``"auto"``.

    >>> number_of_batches("auto"), number_of_batches("8")
    ('auto', 8)
    """
    if text is None:
        return None
    if text == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--batches {text}", hint="give a number of batches, or auto") from None


def _noted(row: AuditRow, notes: str) -> AuditRow:
    """The row with the notes of --notes in its report, unless they are there."""
    recorded = row.report.notes
    if notes in recorded:
        return row
    report = msgspec.structs.replace(row.report, notes=joined(notes, recorded))
    return msgspec.structs.replace(row, report=report)


def in_part(rows: Sequence[AuditRow], shard: str) -> Sequence[AuditRow]:
    """The rows of shard I of N, ``"I/N"``, dealt out in turn; runs of a seed with a frozen baseline
    stay in one shard.

    Raises:
        UsageError: no such shard, or no row in it.
    """
    numbers = re.fullmatch(r"(\d{1,9})/(\d{1,9})", shard)
    first, parts = map(int, numbers.groups()) if numbers else (0, 0)
    if not 1 <= first <= parts:
        raise UsageError(
            f"--shard {shard!r} is no part", hint="write 1/8 for the first of eight, to 8/8"
        )
    seeds = {row.seed for row in rows if row.method == FROZEN}
    units = [str(row.seed) if row.seed in seeds else str(row.checkpoint) for row in rows]
    mine = set(list(dict.fromkeys(units))[first - 1 :: parts])
    if rows and not mine:
        raise UsageError(
            f"--shard {shard}: no run is left for this part",
            hint=f"write I/{len(set(units))} at most",
        )
    return [row for row, unit in zip(rows, units, strict=True) if unit in mine]


def verify_command(
    paths: options.NamedPaths,
    data: options.DataOption = None,
    model: options.ModelOption = None,
    weights: options.WeightsOption = None,
    logits: options.LogitsOption = None,
    loss: options.LossOption = None,
    credit: Annotated[
        str | None,
        Option(
            metavar="MODULE:CALLABLE",
            help="The function that gave the credit.",
        ),
    ] = None,
    filter: options.FilterOption = "",
    *,
    workers: ExecutionOptions,
    format: options.FormOption = "table",
) -> None:
    """Measure recorded audits again and compare their quantities.

    Weights, data, settings, accuracies and the verdict must be the same, and so must every number
    on the same processor with the same versions. Elsewhere norms and cosines may differ by what
    rounding can do in a network of that depth and width. What differs of the machine is shown, and
    so is what could not be compared and why, and the names of what is not compared.

    The frozen run beside a run folder, which judges its (d), is verified too.

    Exits with 1 if a run differs or its record lacks something, 3 if a run could not be measured
    again, 4 if a value could not be compared, 0 if all was.

    Examples:

        fa-tui verify runs/dfa_s42

        fa-tui verify audit.json --format json
    """
    found = inputs.open_paths(paths, as_recorded=True)
    rows = inputs.selected(found, Chosen(Criteria(PROTOCOL), filter=filter))
    with AuditProgress() as progress:
        how = Measuring(workers.execution(), progress, progress.plan, progress.notice)
        typed = MeasureOptions(
            data=data,
            model=model,
            weights=weights,
            logits=logits,
            loss=loss,
            credit=credit or GAMMA,
        )
        check_options(typed)
        result = verify(rows, how, typed)
    inputs.report_failures([*result.skipped, *result.failures])
    names = names_of([run.row for run in result.runs])
    lines = chain.from_iterable(map(verification_lines, result.runs, names))
    apart = dict.fromkeys(name for run in result.runs for name in run.comparison.not_compared)
    if apart:
        lines = chain(lines, [f"not compared: {listed([*apart], MOST_NAMED)}"])
    output.print_result(format, list(map(verification_record, result.runs)), lines)
    if result.interrupted:
        raise Exit(130)
    if result.failures or found.problems:
        raise Exit(3)
    if not all(run.comparison.agrees for run in result.runs):
        raise Exit(1)
    unchecked = any(run.comparison.unchecked for run in result.runs)
    raise Exit(4 if unchecked or result.skipped else 0)


def verification_lines(run: Verification, name: str) -> Iterator[str]:
    """The outcome for a run (`names_of`) as text: agreement, then all differences."""
    row = run.row
    where, place = row.source, real_path(str(row.checkpoint))
    folder = real_path(where).parent
    known = real_path(folder / str(row.report.provenance.get("checkpoint")))
    if known != place or folder not in place.parents:
        where += f", measured {place}"
    yield f"{name} ({where}): {run.comparison.headline}"
    for line in chain(run.comparison.lines(), other_data(row.report)):
        yield f"  {line}"


def verification_record(run: Verification) -> Json:
    """The outcome for a run as JSON."""
    comparison = run.comparison
    return {
        "source": run.row.source,
        "checkpoint": run.row.checkpoint,
        "method": run.row.method,
        "seed": run.row.seed,
        "axes": run.row.axes,
        "agrees": comparison.agrees,
        "compared": comparison.compared,
        "largest_over_tolerance": comparison.largest,
        "differences": msgspec.to_builtins(comparison.differences),
        "unchecked": comparison.unchecked,
        "not_compared": comparison.not_compared,
    }
