"""The process that writes an export: `python -m fa_tui.sharing.writer`.

It reads an `Order` from stdin, which only the explorer that started it writes. It prints ``3 12``
after 3 of 12 figures, and ``! TEXT`` for what went wrong.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from fa_core.errors import FaError
from fa_core.formats.rows import AuditRow
from fa_core.report.thresholds import DiagnosticThresholds
from fa_core.reporting.blocks import Block, Figure
from fa_tui.sharing.export import Kind, export
from fa_tui.sharing.pieces import Shared

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from fa_core.formats import Trace
    from fa_tui.widgets.chart import Chart


class Order(NamedTuple):
    """What to write, with everything that it is made of.

    Attributes:
        kind: of the file.
        path: of the file.
        rows: the runs.
        thresholds: judge them.
        traces: of the runs.
        charts: of the screen, with titles.
    """

    kind: Kind
    path: str
    rows: Sequence[AuditRow]
    thresholds: DiagnosticThresholds
    traces: Sequence[Trace]
    charts: Sequence[tuple[str, Chart]]


def order_of(kind: Kind, shared: Shared, path: Path) -> bytes:
    """The order to write some of a screen's content."""
    traces = shared.traces() if kind.ending in (".md", ".html") else ()
    rows = shared.rows or ()
    return pickle.dumps(Order(kind, str(path), rows, shared.thresholds, traces, shared.charts))


def counted(blocks: list[Block]) -> list[Block]:
    """The blocks, whose figures print how many of them are drawn."""
    total = sum(isinstance(block, Figure) for block in blocks)
    found: list[Block] = []
    drawn = 0
    for block in blocks:
        if isinstance(block, Figure):
            block = replace(block, draw=partial(_draw, block.draw, drawn, total))
            drawn += 1
        found.append(block)
    return found


def _draw(draw: Callable[[], Drawing], drawn: int, total: int) -> Drawing:
    print(drawn, total, flush=True)
    return draw()


def main() -> int:
    """Write what stdin orders."""
    order: Order = pickle.load(sys.stdin.buffer)
    traces = order.traces
    shared = Shared([], order.rows, "", order.thresholds, lambda: traces, charts=order.charts)
    try:
        export(order.kind, order.path, shared, counted)
    except FaError as error:
        print(f"! {' '.join(str(error).split())}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
