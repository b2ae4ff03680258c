"""A small explorer made of the real widgets and a mock matrix, for measuring them without the rest.

python -m tests.bench.mock_explorer [--runs N] [--ascii] [--theme NAME]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from textual.app import ComposeResult
from textual.containers import Horizontal

from fa_core.report import DiagnosticReport, DiagnosticThresholds
from fa_core.rows import AuditRow, split_key
from fa_tui.terminal.abilities import detect
from fa_tui.terminal.painting import FrugalApp
from fa_tui.terminal.themes import THEMES
from fa_tui.widgets.detail import DetailPane
from fa_tui.widgets.diagnostics import DIAGNOSTICS
from fa_tui.widgets.glyphs import ASCII, UNICODE, Glyphs
from fa_tui.widgets.painted import PaintedWidget, Row
from fa_tui.widgets.sliders_panel import SlidersPanel, ThresholdsChanged

SAMPLE = Path(__file__).parents[2] / "sample_runs" / "audit_table_s42_s123_s456.json"


def sample_rows(count: int = 15) -> list[AuditRow]:
    """The published audits, repeated up to `count` runs."""
    reports = json.loads(SAMPLE.read_bytes())["reports"]
    rows = []
    for index in range(count):
        key = list(reports)[index % len(reports)]
        method, seed, _ = split_key(key)
        report = DiagnosticReport.from_dict(reports[key])
        rows.append(AuditRow(source=SAMPLE.name, key=key, method=method, seed=seed, report=report))
    return sorted(rows, key=lambda row: row.method)


class MockMatrix(PaintedWidget):
    """One cell per run: its glyph and letters, three to a line."""

    DEFAULT_CSS = """
    MockMatrix { width: 1fr; & > .mock--passes { color: $success; } & > .mock--fires { color: $error; } }
    """
    COMPONENT_CLASSES = {"mock--passes", "mock--fires"}

    def __init__(self, rows: Sequence[AuditRow], glyphs: Glyphs) -> None:
        super().__init__()
        self._runs, self._glyphs = rows, glyphs
        self._thresholds = DiagnosticThresholds()

    def judge(self, thresholds: DiagnosticThresholds) -> int:
        """Show other verdicts; how many runs are walked back."""
        self._thresholds = thresholds
        self.repaint()
        return sum(1 for run in self._runs if run.report.with_thresholds(thresholds).flags)

    def draw(self, width: int, height: int) -> Sequence[Row]:
        lines: list[Row] = []
        for start in range(0, min(len(self._runs), 3 * height), 3):
            line: Row = [(self._runs[start].method[:14].ljust(16), "")]
            for run in self._runs[start : start + 3]:
                flags = run.report.with_thresholds(self._thresholds).flags
                text = self._glyphs.fires + "".join(sorted(flags)) if flags else self._glyphs.passes
                line.append((text.ljust(9), "mock--fires" if flags else "mock--passes"))
            lines.append(line)
        return lines


class MockExplorer(FrugalApp[None]):
    """Matrix, detail, sliders."""

    CSS = "MockMatrix { width: 1fr; } DetailPane { width: 1fr; }"
    BINDINGS = [("q", "quit", "Quit")]

    def __init__(self, rows: Sequence[AuditRow], glyphs: Glyphs, theme: str, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self.runs = rows
        self._first_theme = theme
        self.matrix = MockMatrix(rows, glyphs)
        self.detail = DetailPane(glyphs=glyphs)
        self.sliders = SlidersPanel(glyphs=glyphs)

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield self.matrix
            yield self.detail
        yield self.sliders

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = self._first_theme
        for diagnostic in DIAGNOSTICS:
            measured = [diagnostic.measured(run.report) for run in self.runs]
            self.sliders.set_runs(diagnostic.letter, [value for value in measured if value is not None])
        self.detail.show(self.runs[1], DiagnosticThresholds())
        self.sliders.slider("a").focus()
        self._judge(DiagnosticThresholds())

    def on_thresholds_changed(self, message: ThresholdsChanged) -> None:
        self._judge(message.thresholds)

    def _judge(self, thresholds: DiagnosticThresholds) -> None:
        walked_back = self.matrix.judge(thresholds)
        self.detail.show(self.runs[1], thresholds)
        self.sliders.set_summary(f"{walked_back} of {len(self.runs)} need walk-back")


def main(argv: Sequence[str] | None = None) -> None:
    terminal = detect()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--ascii", action="store_true")
    parser.add_argument("--theme", default=terminal.theme)
    options: Any = parser.parse_args(argv)
    glyphs = ASCII if options.ascii else terminal.glyphs if not options.ascii else UNICODE
    MockExplorer(sample_rows(options.runs), glyphs, options.theme, terminal.ansi_color).run()


if __name__ == "__main__":
    main()
