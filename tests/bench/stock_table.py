"""The peer of the explorer's long table: Textual's own DataTable with the same runs and eight columns."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

from textual.app import App, ComposeResult
from textual.widgets import DataTable

COLUMNS = ("run", "walk-back", "growth", "gradient", "drift", "margin", "accuracy", "notes")


class StockTable(App[None]):
    """An audit table as it would be shown without a table of our own."""

    def compose(self) -> ComposeResult:
        yield DataTable[str](cursor_type="row")

    def on_mount(self) -> None:
        reports = json.loads(Path(sys.argv[1]).read_bytes())["reports"]
        table = self.query_one(DataTable)
        table.add_columns(*COLUMNS)
        for key, report in reports.items():
            norms, gradients = report["residual_norms"], report["bp_grad_norms"]
            growth = max(b / a for a, b in pairwise(norms))
            drift, headline = report["cross_batch_stability"], report["headline_acc"]
            margin = 100 * (headline - (report["frozen_baseline_acc"] or 0))
            fires = growth > 50 or gradients[-1] < 1e-7 or drift > 0.3 or margin < 2
            numbers = (
                f"{number:.3g}" for number in (growth, gradients[-1], drift, margin, headline)
            )
            table.add_row(key, "yes" if fires else "no", *numbers, report["notes"])
        table.focus()


if __name__ == "__main__":
    StockTable().run()
