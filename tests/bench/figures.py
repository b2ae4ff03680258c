"""Figures against their budgets, as tables for a terminal or for docs/performance.md."""

from __future__ import annotations

import os
from dataclasses import dataclass

MARKDOWN = "FA_BENCH_MARKDOWN"
"""Set by `--markdown`: the benchmarks, processes of their own, print what docs/performance.md holds."""


HEAD = ("what", "figure", "floor or peer", "ratio", "budget", "")


@dataclass(frozen=True)
class Figure:
    """One measured number.

    Attributes:
        what: what was measured.
        figure: the number with its unit.
        against: the floor or peer it is compared with, with its number.
        ratio: the figure over that, the median of paired runs.
        budget: what it may be at most.
        held: whether it is; None = no budget.
    """

    what: str
    figure: str
    against: str = ""
    ratio: float | None = None
    budget: str = ""
    held: bool | None = None


def within(what, value, unit, budget):
    """A figure whose budget is in its own unit."""
    held = None if budget is None else value <= budget
    shown = "" if budget is None else f"≤ {amount(budget, unit)}"
    return Figure(what, amount(value, unit), budget=shown, held=held)


def ratio_within(what, ratio, budget, figure, against):
    """A figure whose budget is a ratio to its floor or peer."""
    held = None if budget is None else ratio <= budget
    return Figure(what, figure, against, ratio, "" if budget is None else f"≤ {budget:g}×", held)


def amount(value, unit):
    """A number with its unit, to three digits.

    >>> amount(0.1234, "s"), amount(20115, "B"), amount(7.77, "ms")
    ('0.123 s', '20,115 B', '7.77 ms')
    """
    return f"{value:,.0f} {unit}" if abs(value) >= 100 else f"{value:.3g} {unit}"


def report(title, figures):
    """Print figures as a table."""
    verdicts = {None: "", True: "held", False: "missed"}
    table(
        HEAD,
        [
            (
                f.what,
                f.figure,
                f.against,
                "" if f.ratio is None else f"{f.ratio:.2f}×",
                f.budget,
                verdicts[f.held],
            )
            for f in figures
        ],
        title,
    )


def table(head, rows, title=""):
    """Print a table, the first column left, the others right."""
    lines = [tuple(head), *map(tuple, rows)]
    if os.environ.get(MARKDOWN):
        rule = ("---", *["---:"] * (len(head) - 1))
        text = ["| " + " | ".join(line) + " |" for line in (lines[0], rule, *lines[1:])]
        print("\n".join([f"**{title}**\n", *text, ""] if title else [*text, ""]), flush=True)
        return
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    if title:
        print(title)
    for first, *others in lines:
        cells = [
            first.ljust(widths[0]),
            *(text.rjust(width) for text, width in zip(others, widths[1:], strict=True)),
        ]
        print("  " + "  ".join(cells).rstrip(), flush=True)
