"""`fa-tui timeline`: when diagnostics first fire over training, and what stopping there saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fa_core.baseline import FrozenBaseline
from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import UsageError
from fa_core.naming import diagnostic_letters
from fa_tui import options
from fa_tui.commands import inputs, output

StopOnOption = Annotated[
    str, typer.Option("--stop-on", metavar="LETTERS", help="Diagnostics that would end a run, e.g. b or ab.")
]
EpochsOption = Annotated[
    int | None,
    typer.Option("--epochs", metavar="N", help="Planned length of the runs, if the traces are not complete."),
]
FollowOption = Annotated[bool, typer.Option("--follow", help="Print again whenever a trace grows, until Ctrl-C.")]


def timeline_command(
    paths: options.PathsArgument = None,
    stop_on: StopOnOption = "ab",
    epochs: EpochsOption = None,
    follow: FollowOption = False,
    methods: options.MethodsOption = None,
    seeds: options.SeedsOption = None,
    format: options.FormOption = "table",
    *,
    thresholds: DiagnosticThresholds,
    baseline: FrozenBaseline,
) -> None:
    """Print the first epoch at which each diagnostic fires, per run and per method, and what an early stop saves.

    Examples:

        fa-tui timeline runs/

        fa-tui timeline trace.jsonl --stop-on b --epochs 100 --format json

        fa-tui timeline runs/ --follow
    """
    from fa_core.analysis.timeline import timelines
    from fa_core.reporting.records import timeline_record
    from fa_core.reporting.sections.analyses import timeline_blocks

    letters = "".join(sorted(diagnostic_letters(stop_on, "--stop-on")))
    if not letters:
        raise UsageError("--stop-on names no diagnostic", hint="write b or ab")

    def once() -> int:
        runs = inputs.open_runs(paths, baseline, methods, seeds)
        found = timelines(runs.traces, runs.table, thresholds, letters, epochs, baseline)
        output.print_result(format, lambda: timeline_record(found), lambda: timeline_blocks(found))
        return runs.exit_code

    raise typer.Exit(_following(paths, once) if follow else once())


def _following(paths: Sequence[Path] | None, once: Callable[[], int]) -> int:
    """Print now, and again after every change under the paths."""
    from watchfiles import watch

    code = once()
    try:
        for _ in watch(*(paths or [options.sample_runs()])):
            code = once()
    except KeyboardInterrupt:
        pass
    return code
