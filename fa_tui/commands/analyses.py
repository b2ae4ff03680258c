"""`fa-tui seeds`, `sweep`, `utility`, `timeline`, and `fa-tui report`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, NoReturn

from typer import Exit, Option
from watchfiles import watch

from fa_core.analysis.claims import check_claims, read_claims
from fa_core.analysis.method_groups import published_groups
from fa_core.analysis.seeds import over_seeds
from fa_core.analysis.threshold_sweep import sensitivities
from fa_core.analysis.timeline import Replay
from fa_core.analysis.utility import decision_utility
from fa_core.errors import UsageError
from fa_core.files.atomic import prepared
from fa_core.files.opening import real_path
from fa_core.formats.table import AuditTable
from fa_core.report.diagnostics import diagnostic_letters
from fa_core.report.names import canonical_method
from fa_core.reporting.blocks import Block
from fa_core.reporting.form import KINDS, Extras, write_report
from fa_core.reporting.records import timeline_record
from fa_core.reporting.sections.analyses import (
    seeds_blocks,
    sensitivity_blocks,
    timeline_blocks,
    utility_blocks,
)
from fa_tui import options
from fa_tui.commands import inputs, output
from fa_tui.commands.verdict_table import judged
from fa_tui.options import ChosenOptions


def seeds_command(
    paths: options.NamedPaths,
    format: options.FormOption = "table",
    *,
    selection: ChosenOptions,
) -> None:
    """Print each method over its seeds, and where seeds disagree.

    Mean, sample standard deviation, range, number of seeds, and verdict counts; of norms and growth
    the geometric mean.

    Examples:

        fa-tui seeds audit_table.json

        fa-tui seeds penalty_logs/ --frozen-baseline 0.349 --h0 8.7 --blocks 4

        fa-tui seeds audit_table.json --methods dfa,ep --format json
    """
    runs = inputs.open_runs(paths, selection.chosen(), audits=True)
    analysis = over_seeds(runs.table, runs.thresholds)
    _print(runs, format, analysis.to_dict(), seeds_blocks(analysis))


def _print(
    runs: inputs.Runs,
    format: options.Form,
    record: object,
    blocks: Iterable[Block],
    groups: Mapping[str, str] = {},
) -> NoReturn:
    """Print an analysis of runs and a note on filtered-out runs (see `Runs.left_out`); then exit.

    Args:
        runs: the analysed runs.
        format: how to print it.
        record: its JSON record.
        blocks: its blocks for reading, created lazily.
        groups: method → its group, if the analysis compares groups.
    """
    output.print_result(format, record, chain(blocks, runs.left_out(groups)))
    raise Exit(runs.exit_code)


def _group(values: list[str] | None) -> list[str] | None:
    """The methods of a group: None for the default, an empty list for ``none``."""
    methods = options.split_list(values)
    if methods == ["none"]:
        return []
    return methods or None


def sweep_command(
    paths: options.NamedPaths,
    healthy: Annotated[
        list[str] | None,
        Option(
            metavar="LIST",
            help="Methods that should pass, or none; default: bp, ep of the published audit.",
        ),
    ] = None,
    degenerate: Annotated[
        list[str] | None,
        Option(
            metavar="LIST",
            help="Methods that should fire, or none; default: dfa, state_bridge, credit_bridge of "
            "that audit.",
        ),
    ] = None,
    format: options.FormOption = "table",
    *,
    selection: ChosenOptions,
) -> None:
    """Print how far each threshold may move.

    Of two groups also the gap between them: healthy methods should pass, degenerate ones fire. Only
    the published audit's own runs have groups from the start; all others are in neither. JSON also
    holds all thresholds at which a run's state changes.

    Examples:

        fa-tui sweep audit_table.json

        fa-tui sweep runs/ --healthy bp,ep --degenerate dfa --format json

        fa-tui sweep audit_table.json --frozen-baseline 0.349
    """
    runs = inputs.open_runs(paths, selection.chosen(), audits=True)
    table, thresholds = runs.table, runs.thresholds
    good, bad = _group(healthy), _group(degenerate)
    analysis = sensitivities(table, thresholds, good, bad)
    record = [one.to_dict() for one in analysis]
    blocks = sensitivity_blocks(analysis)
    groups = published_groups(AuditTable.from_rows(runs.unfiltered))
    groups |= dict.fromkeys(map(canonical_method, good or ()), "healthy")
    groups |= dict.fromkeys(map(canonical_method, bad or ()), "degenerate")
    _print(runs, format, record, blocks, groups)


def utility_command(
    paths: options.NamedPaths,
    chance: Annotated[
        float | None,
        Option(
            metavar="ACC",
            help="Accuracy of guessing, a fraction (S0 withdraws it); default 1/classes.",
        ),
    ] = None,
    format: options.FormOption = "table",
    *,
    selection: ChosenOptions,
) -> None:
    """Print the runs that each reporting habit would walk back.

    The habits: accuracy alone, accuracy with Γ, and each diagnostic.

    Examples:

        fa-tui utility audit_table.json --seeds 42

        fa-tui utility audit_table.json --format json
    """
    if chance is not None and not 0.0 <= chance <= 1.0:
        raise UsageError(
            f"--chance {chance:g} lies outside [0, 1]", hint="write 0.1 for ten classes"
        )
    runs = inputs.open_runs(paths, selection.chosen(), audits=True)
    analysis = decision_utility(runs.table, runs.thresholds, chance)
    _print(runs, format, analysis.to_dict(), utility_blocks(analysis))


def timeline_command(
    paths: options.NamedPaths,
    stop_on: Annotated[
        str,
        Option(metavar="LETTERS", help="Diagnostics that would end a run, e.g. b or ab."),
    ] = "ab",
    follow: Annotated[
        bool, Option("--follow", help="Print again whenever a trace grows, until Ctrl-C.")
    ] = False,
    format: options.FormOption = "table",
    *,
    selection: ChosenOptions,
) -> None:
    """Print the first epoch at which each diagnostic fires.

    It is given per run and per method, with what an early stop saves.

    Examples:

        fa-tui timeline runs/

        fa-tui timeline trace.jsonl --stop-on b --format json

        fa-tui timeline runs/ --follow
    """
    letters = "".join(sorted(diagnostic_letters(stop_on, "--stop-on")))
    if not letters:
        raise UsageError("--stop-on names no diagnostic", hint="write b or ab")

    def once() -> int:
        chosen = selection.chosen()
        runs, (thresholds, baseline) = inputs.open_runs(paths, chosen), chosen.criteria
        found = Replay(runs.traces, runs.table, baseline).timelines(thresholds, letters)
        output.print_result(format, timeline_record(found), timeline_blocks(found))
        return runs.exit_code

    code = once()
    if follow:
        with contextlib.suppress(KeyboardInterrupt):
            for _ in watch(*paths):
                code = once()
    raise Exit(code)


def report_command(
    out: Annotated[
        Path,
        Option(
            metavar="FILE",
            help="A name ending in .md, .html, .tex, .svg, .pdf, .png or .csv.",
            parser=options.typed_path,
        ),
    ],
    paths: options.NamedPaths,
    card: Annotated[
        bool, Option("--card", help="The form's first page alone, as .html or .md.")
    ] = False,
    claims: options.ClaimsOption = None,
    *,
    protocol: options.ProtocolOption = "v1",
    figure: Annotated[
        str,
        Option(
            metavar="NAME",
            help="What .svg, .pdf and .png show: methods, rescue (by the penalty), timeline or "
            "gamma (over epochs).",
        ),
    ] = "methods",
    selection: ChosenOptions,
) -> None:
    """Write the reporting form: what goes into a paper's appendix.

    Its first page holds claims, verdicts with intervals, what was measured beside them, provenance
    and the command that verifies it; then come figures, seeds, sensitivity, layers and pitfalls.

    Numbers in .md, .html and .tex are rounded; .csv holds every digit; .tex holds a table of the
    methods over their seeds that fits a column, to be \\input. Prints the files it wrote.

    In .csv `coverage` names what was measured, and `evidence` what of it is not exact:
    (d) by an assumed frozen baseline is d=assumed and never in `coverage`, but in `flags` where it
    fires.

    Examples:

        fa-tui report audit_table.json --out report.html

        fa-tui report runs/ --out appendix.md

        fa-tui report audit_table.json --out table.tex

        fa-tui report audit_table.json --out figure.pdf --methods bp,dfa

        fa-tui report runs/ --out card.html --card --claims claims.toml

        fa-tui report penalty_runs/ --out rescue.pdf --figure rescue
    """
    if out.suffix.lower() in KINDS:
        prepared(out)
    chosen = selection.chosen()
    stated = read_claims(claims) if claims else []
    runs = inputs.open_runs(paths, chosen)
    if real_path(out) in map(real_path, [claims or "", *runs.sources]):
        raise UsageError("was read for this report", where=out, hint="choose another --out")
    results = check_claims(stated, list(judged(runs.rows, runs.thresholds)))
    before = {*out.parent.glob("*")}
    files = write_report(
        out,
        runs.table,
        runs.thresholds,
        runs.traces,
        figure,
        Extras(protocol == "v2", results, card),
    )
    for path in before.intersection(files):
        output.complain(f"{path} was there already: it is written over")
    for file in files:
        output.say(str(file))
    if not runs.rows and figure not in ("timeline", "gamma"):
        output.complain("no audited run in these paths: the report says so")
    raise Exit(runs.exit_code)
