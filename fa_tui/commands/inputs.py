"""The runs that an analysis command works on: opened, given a baseline, and chosen by method and seed.

What the filter of an analysis leaves out, below its table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from fa_core.errors import UnreadableInput, UsageError
from fa_core.reporting.blocks import Block, Bullets
from fa_core.rows import AuditRow, canonical_method
from fa_tui import options
from fa_tui.views.analysed import left_out_words

if TYPE_CHECKING:
    from fa_core.formats import Trace
    from fa_core.table import AuditTable


MethodsOption = Annotated[
    list[str] | None,
    typer.Option("--methods", metavar="LIST", help="Only runs of these methods.", show_default=False),
]
SeedsOption = Annotated[
    list[str] | None, typer.Option("--seeds", metavar="LIST", help="Only runs of these seeds.", show_default=False)
]

TRACES_HINT = "`fa-tui timeline` reads traces"


class Runs(msgspec.Struct, frozen=True):
    """What the paths hold, chosen.

    Attributes:
        rows: audits (and checkpoints nobody measured yet).
        traces: runs over epochs.
        exit_code: 3 if a named path could not be opened, else 0.
    """

    rows: list[AuditRow]
    traces: list[Trace]
    exit_code: int

    def table(self) -> AuditTable:
        """The rows as columns."""
        from fa_core.table import AuditTable

        return AuditTable.from_rows(self.rows)


def runs(
    paths: Sequence[Path] | None,
    baseline: options.FrozenBaseline | None = None,
    methods: Sequence[str] | None = None,
    seeds: Sequence[str] | None = None,
    *,
    audits: bool = False,
) -> Runs:
    """Open the paths (the sample runs for none).

    Args:
        paths: files and folders.
        baseline: to judge the rows by.
        methods: only runs of these.
        seeds: only runs of these.
        audits: whether traces alone are not enough.

    Raises:
        UnreadableInput: no run at all in these paths, or traces where audits are needed.
        UsageError: a method or seed that no run has, or a seed that is no number.
    """
    found = options.open_paths(paths)
    if not found.rows and (audits or not found.traces):
        raise nothing_to_analyse(paths, found.traces)
    if baseline is not None:
        baseline.check([*(row.method for row in found.rows), *(trace.method for trace in found.traces)])
    rows = list(found.rows) if baseline is None else baseline.apply(found.rows)
    wanted_methods = [canonical_method(name) for name in options.split_list(methods)]
    wanted_seeds = [_seed(word) for word in options.split_list(seeds)]
    everything: list[AuditRow | Trace] = [*rows, *found.traces]
    _check("--methods", wanted_methods, [run.method for run in everything])
    _check("--seeds", wanted_seeds, [run.seed for run in everything])

    def wanted(run: AuditRow | Trace) -> bool:
        return (not wanted_methods or run.method in wanted_methods) and (not wanted_seeds or run.seed in wanted_seeds)

    return Runs(
        rows=[row for row in rows if wanted(row)],
        traces=[trace for trace in found.traces if wanted(trace)],
        exit_code=3 if options.named_path_failed(paths, found.problems) else 0,
    )


def nothing_to_analyse(paths: Sequence[Path] | None, traces: Sequence[Trace]) -> UnreadableInput:
    """The error for paths without a single audit; if they hold traces, it says which command reads them."""
    where = ", ".join(map(str, paths or ()))
    if traces:
        return UnreadableInput("only traces over epochs, no audit", where=where, hint=TRACES_HINT)
    return UnreadableInput("no run to analyse", where=where, hint="name audits or traces")


def _seed(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise UsageError(f"seed {word!r} is not a whole number", where="--seeds", hint="write --seeds 42,123") from None


def _check(option: str, wanted: Sequence[object], present: Sequence[object]) -> None:
    for one in wanted:
        if one not in present:
            listed = ", ".join(sorted({str(value) for value in present if value is not None})) or "none"
            raise UsageError(f"no run has {one}", where=option, hint=f"present: {listed}")


def left_out_blocks(
    kept: Sequence[AuditRow], rows: Sequence[AuditRow], healthy: Collection[str] | None = None
) -> Iterator[Block]:
    """A list of it; nothing where a filter leaves every run of the methods that it leaves.

    Args:
        kept: the runs that pass.
        rows: all runs.
        healthy: methods that the analysis sets against the others, if it does.
    """
    analysed, every = (Counter(row.method for row in each) for each in (kept, rows))
    words = tuple(left_out_words({name: (analysed[name], count) for name, count in every.items()}, healthy))
    if words:
        yield Bullets(words)
