"""`fa-tui show`, the verdict table."""

from __future__ import annotations

from typer import Exit

from fa_core.report.verdict_text import second_reading, verdict_words
from fa_tui import options
from fa_tui.commands.verdict_table import print_paths
from fa_tui.options import ChosenOptions
from fa_tui.views.filters import ViewState


def show_command(
    paths: options.PathsArgument = None,
    format: options.RowFormOption = "table",
    sort: options.SortOption = "",
    protocol: options.ProtocolOption = "v1",
    *,
    selection: ChosenOptions,
) -> None:
    """Print the verdict of every run under the given thresholds.

    In JSON and CSV `flags` names what fires and `undecided` what neither fires nor passes: its
    95 % interval (`intervals`) holds the threshold, or it is a lower bound that does not fire, or
    (a) where the stream is 0. `judgement` is walk-back, undecided, trustworthy, not measured, or
    control (frozen, shallow, random_init, random_targets), which claims nothing; `verdict` is the
    same in words; `by_numbers` are the letters by the published rule, which knows no intervals.
    `coverage` names what was measured, and `evidence` what of it is not exact: (d) by an assumed
    frozen baseline is d=assumed and never in `coverage`, but in `flags` where it fires. `flips`
    (JSON) are the thresholds that would change the judgement.

    Examples:

        fa-tui show audit_table.json

        fa-tui show runs/ --h-norm-explosion-ratio 12 --format markdown

        fa-tui show audit_table.json --filter 'flag:b growth>100' --sort -growth

        fa-tui show audit_table.json --frozen-baseline 0.349 --format json

    \b
        fa-tui show dfa_pen_lam0.01_s42.json --h0 8.7 --blocks 4 \\
            --frozen-baseline 0.349
    """
    verdict = second_reading if protocol == "v2" else verdict_words
    raise Exit(print_paths(paths, selection.chosen(), format, ViewState(sort=sort), verdict))
