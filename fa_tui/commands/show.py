"""`fa-tui show`: the verdict table."""

from __future__ import annotations

import typer

from fa_core.diagnostics import DiagnosticThresholds
from fa_tui import options
from fa_tui.commands.verdict_table import print_paths
from fa_tui.views.filters import Look


def show_command(
    paths: options.PathsArgument = None,
    format: options.RowFormOption = options.RowForm.table,
    h0: options.H0Option = None,
    blocks: options.BlocksOption = None,
    filter: options.FilterOption = "",
    sort: options.SortOption = "",
    *,
    thresholds: DiagnosticThresholds,
    baseline: options.FrozenBaseline,
) -> None:
    """Print the verdict of every run under the given thresholds.

    In JSON and CSV `coverage` names what was measured, and `evidence` what of it is not exact: (d) by an assumed frozen
    baseline is d=assumed and never in `coverage`, but in `flags` where it fires.

    Examples:

        fa-tui show audit_table.json

        fa-tui show runs/ --h-norm-explosion-ratio 12 --format markdown

        fa-tui show audit_table.json --filter 'flag:b growth>100' --sort -growth

        fa-tui show audit_table.json --frozen-baseline 0.349 --format json

        fa-tui show dfa_pen_lam0.01_s42.json --h0 8.7 --blocks 4 --frozen-baseline 0.349
    """
    raise typer.Exit(print_paths(paths, thresholds, baseline, format.value, h0, blocks, Look(filter=filter, sort=sort)))
