"""Lines kept as text come back as they were."""

from __future__ import annotations

import tracemalloc

from fa_tui.commands.verdict_rows import HEADINGS
from fa_tui.commands.verdict_table import KeptLines

LINES = [
    ("bold", ("dfa λ=0.1", str(seed), "✗ab·d", *(f"{seed}.5",) * 6, "needs walk-back: " + "why " * (seed % 3)))
    for seed in range(1201)
]


def test_lines_come_back_in_order_and_the_widest_cells_are_known() -> None:
    kept = KeptLines()
    for style, cells in LINES:
        kept.add(style, cells)
    assert list(kept) == list(kept) == LINES
    assert kept.widest == ["dfa λ=0.1", "seed", "✗ab·d", "1000.5", *HEADINGS[4:8], "1000.5", LINES[2][1][-1]]


def test_they_take_the_memory_of_their_text() -> None:
    text = sum(len("".join(cells[:-1]).encode()) for _, cells in LINES)
    kept = KeptLines()
    tracemalloc.start()
    for style, cells in LINES:
        kept.add(style, (*(cell + "" for cell in cells[:-1]), cells[-1]))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # what is not packed yet, and two bytes more per line and cell
    assert taken < 2 * text + 100_000
