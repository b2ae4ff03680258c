"""Input runs of commands: read, given a baseline, filtered."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fa_core.analysis.difference import mark_unlike
from fa_core.errors import UnreadableInput, UsageError
from fa_core.formats import scan
from fa_core.formats.checkpoint_file import marked_changed
from fa_core.formats.frozen_runs import with_baselines_at_hand
from fa_core.formats.rows import AuditRow, Problem
from fa_core.formats.scan import twins_of
from fa_core.formats.table import AuditTable
from fa_core.formats.trace import without_copies
from fa_core.report.names import canonical_method
from fa_core.report.numbers import count_text, listed
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.reporting.blocks import Block, bullets
from fa_tui.commands.output import complain
from fa_tui.options import Chosen, numbers, split_list
from fa_tui.samples import default_paths
from fa_tui.views.epochs import traces_of
from fa_tui.views.filters import ViewState, arranged
from fa_tui.views.words import left_out_words, runs_words

if TYPE_CHECKING:
    from fa_core.formats import Scan, Trace

TRACES_HINT = "`fa-tui timeline` reads traces"
_PROBLEMS_SHOWN = 20


def open_paths(paths: Sequence[Path] | None, *, as_recorded: bool = False, **how: Any) -> Scan:
    """Scan the paths (the sample runs for none); problems are reported on stderr. A run of which
    files changed, or two records are not alike, is marked (`ReportFacts.changed`).

    Args:
        paths: files and folders.
        as_recorded: whether every record of a measurement is left as its file has it, instead of
            the last one, with (d) judged by a frozen run at hand.
        how: as for `scan`.
    """
    found = scan(list(paths or default_paths()), **how)
    rows: Sequence[AuditRow] = found.rows
    if not as_recorded:
        rows = with_baselines_at_hand(rows)
    rows = [*marked_changed(rows)]
    twins = {} if as_recorded else twins_of(rows)
    report_problems(mark_unlike(rows, twins))
    report_problems(found.problems)
    found.rows[:] = (row for place, row in enumerate(rows) if place not in twins)
    return found


def report_problems(problems: Iterable[Problem]) -> None:
    """Report problems on stderr, one line per path or part of a file, and one line for equal
    problems; at most `_PROBLEMS_SHOWN`, and the number of further ones: a folder may hold
    thousands of other files.
    """
    counts = Counter(problem.message for problem in problems)
    left = counts.total()
    for message, times in islice(counts.items(), _PROBLEMS_SHOWN):
        left -= times
        complain(message + f" ({times} runs)" * (times > 1))
    if left:
        complain(f"and {count_text(left, 'more problem')}; the explorer lists them all (P)")


def report_failures(failures: Iterable[Problem]) -> None:
    """Report the runs that could not be measured on stderr, one line per reason."""
    alike: defaultdict[str, list[Problem]] = defaultdict(list)
    for failure in failures:
        alike[cause_of(failure.message, failure.path)].append(failure)
    for cause, failed in alike.items():
        paths = listed([one.path for one in failed], 4)
        if len(failed) == 1:
            complain(failed[0].message)
        else:
            complain(f"{cause} ({runs_words(len(failed))}: {paths})")


def cause_of(error: str, path: str) -> str:
    """An error without the parts that differ between runs: path and worker log.

    >>> cause_of("/runs/dfa_s1: exited with status 1; log: /tmp/worker-1-cpu.log", "/runs/dfa_s1")
    'exited with status 1; log: …'
    """
    return re.sub(r"\b(log:|traceback in) \S+", r"\1 …", error.removeprefix(f"{path}: "))


class Runs(msgspec.Struct, frozen=True):
    """The chosen runs under some paths.

    Attributes:
        rows: audits and unmeasured checkpoints.
        traces: runs over epochs.
        thresholds: what judges them.
        exit_code: 3 if a path could not be read, else 0.
        unfiltered: the rows of the methods and seeds before the filter.
        sources: the files and folders that were read, or could not be.
    """

    rows: list[AuditRow]
    traces: list[Trace]
    thresholds: DiagnosticThresholds
    exit_code: int
    unfiltered: list[AuditRow]
    sources: set[str]

    @property
    def table(self) -> AuditTable:
        """The rows as a table."""
        return AuditTable.from_rows(self.rows)

    def left_out(self, groups: Mapping[str, str]) -> Iterator[Block]:
        """Bullets on runs the filter leaves out; nothing if it keeps whole methods.

        Args:
            groups: method → its group, if the analysis sets one group against the other.
        """
        kept, every = ((row.method for row in rows) for rows in (self.rows, self.unfiltered))
        return bullets(left_out_words(kept, every, groups))


def open_runs(paths: Sequence[Path], chosen: Chosen, *, audits: bool = False) -> Runs:
    """Open the paths.

    Args:
        paths: files and folders.
        chosen: selects and judges the runs.
        audits: whether audits are required, not only traces.

    Raises:
        UnreadableInput: no run in these paths, or only traces if audits are required.
        UsageError: a method or seed without runs, a malformed seed or filter, or a filter that no
            run passes.
    """
    found = open_paths(paths, columns=chosen.log.given)
    if not found.rows and (audits or not found.traces):
        raise nothing_to_analyse(paths, found.traces)
    rows, traces = of_methods_and_seeds(found, chosen)
    look, thresholds = ViewState(filter=chosen.filter), chosen.criteria.thresholds
    kept = arranged(look, rows, thresholds)
    if chosen.filter and traces:
        alone = [
            AuditRow(
                source=one.source, key=one.key, method=one.method, seed=one.seed, axes=one.axes
            )
            for one in traces
        ]
        traces = traces_of([*kept, *arranged(look, alone, thresholds)], traces)
    if not kept and (audits or not traces):
        raise none_passes(chosen)
    sources = {problem.path for problem in found.problems}
    sources |= {row.source for row in found.rows} | {trace.source for trace in found.traces}
    return Runs(kept, traces, thresholds, 3 if found.problems else 0, rows, sources)


def selected(
    found: Scan,
    chosen: Chosen,
    look: ViewState = ViewState(),  # noqa: B008 (immutable)
    *,
    may_be_none: bool = False,
) -> Sequence[AuditRow]:
    """The chosen audits, as in `open_runs`; all of them if nothing is chosen.

    Args:
        found: the scanned paths.
        chosen: selects the audits.
        look: their order; its filter is that of `chosen`.
        may_be_none: whether an empty choice is allowed.

    Raises:
        UsageError: as `open_runs`.
    """
    rows, _ = of_methods_and_seeds(found, chosen)
    look = look._replace(filter=chosen.filter)
    kept = arranged(look, rows, chosen.criteria.thresholds)
    if found.rows and not kept and not may_be_none:
        raise none_passes(chosen)
    return kept


def none_passes(chosen: Chosen) -> UsageError:
    """The error where no run is chosen."""
    given = {
        "methods": ",".join(chosen.methods or ()),
        "seeds": ",".join(chosen.seeds or ()),
        "filter": chosen.filter,
    }
    where = " ".join(f"--{name} {shlex.quote(text)}" for name, text in given.items() if text)
    return UsageError("no run passes it", where=where, hint="`fa-tui show` lists the runs")


def of_methods_and_seeds(found: Scan, chosen: Chosen) -> tuple[list[AuditRow], list[Trace]]:
    """Audits and traces of the chosen methods and seeds, before the filter."""
    everything: list[AuditRow | Trace] = [*found.rows, *found.traces]
    chosen.criteria.baseline.check(run.method for run in everything)
    methods = list(map(canonical_method, split_list(chosen.methods)))
    seeds = numbers("--seeds", chosen.seeds, int)
    _check("--methods", methods, [run.method for run in everything])
    _check("--seeds", seeds, [run.seed for run in everything])

    def wanted(run: AuditRow | Trace) -> bool:
        return (not methods or run.method in methods) and (not seeds or run.seed in seeds)

    completed = chosen.log.apply(filter(wanted, found.rows))
    rows = [row.judged_by(chosen.criteria.baseline) for row in completed]
    traces = filter(wanted, without_copies(found.traces))
    return rows, chosen.log.apply_to_traces(traces)


def nothing_to_analyse(paths: Sequence[Path], traces: Sequence[Trace]) -> UnreadableInput:
    """The error for paths without audits; names the command for traces, if there are any."""
    where = ", ".join(map(str, paths))
    if traces:
        return UnreadableInput("only traces over epochs, no audit", where=where, hint=TRACES_HINT)
    return UnreadableInput("no run to analyse", where=where, hint="name audits or traces")


def _check(option: str, wanted: Sequence[object], present: Sequence[object]) -> None:
    for one in wanted:
        if one not in present:
            known = sorted({str(value) for value in present if value is not None})
            raise UsageError(
                f"no run has {one}", where=option, hint=f"present: {', '.join(known) or 'none'}"
            )
