"""A comparison of runs as a table, to be pasted or opened in a spreadsheet."""

from __future__ import annotations

from collections.abc import Sequence

from fa_core.reporting.blocks import Grid
from fa_core.reporting.numbers import MISSING, brief
from fa_tui.views.comparison import ComparedLine

_OF = {"h": "‖h_{}‖", "g": "‖g_{}‖", "growth": "growth {}"}


def compared_grid(names: Sequence[str], lines: Sequence[ComparedLine], verdicts: Sequence[str]) -> Grid:
    """One line per layer and number, one column per run, then the ratio of the largest to the smallest.

    Args:
        names: of the runs.
        lines: of the comparison.
        verdicts: of the runs.
    """
    rows = [
        ("verdict", *verdicts, "")
        if line.spread is None
        else (
            _OF.get(line.kind, "{}").format(line.label),
            *(
                MISSING if value is None else brief(value, 6) + (" (assumed)" if place in line.assumed else "")
                for place, value in enumerate(line.spread.values)
            ),
            "" if line.spread.ratio is None else brief(line.spread.ratio, 4),
        )
        for line in lines
        if line.kind != "heading"
    ]
    return Grid(headings=("", *names, "max/min"), rows=tuple(rows))
