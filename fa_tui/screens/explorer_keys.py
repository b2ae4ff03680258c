"""The keys of the main screen; those of its panes are with the panes."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from fa_core.report import LETTERS

EXPLORER_KEYS: list[BindingType] = [
    Binding("m", "measure", "Measure", tooltip="measure the marked runs, or the one under the cursor"),
    *(
        Binding(letter, f"slider('{letter}')", f"Slider {letter}", show=False, tooltip="go to this threshold")
        for letter in LETTERS
    ),
    Binding("t", "toggle_table", "Table", tooltip="the long view: all columns of all runs; again: the matrix"),
    Binding("slash", "filter", "Filter", key_display="/", tooltip="show only the runs that match what you type"),
    Binding("S", "order", "Sort by", show=False, tooltip="sort the long view by any column"),
    Binding("x", "axis('columns')", "Columns", show=False, tooltip="other columns: seeds, λ, sources, ..."),
    Binding("X", "axis('lines')", "Lines", show=False, tooltip="other lines: methods, λ, sources, ..."),
    Binding(
        "escape", "back", "Back", show=False, tooltip="from the sliders to the runs, from the long view to the matrix"
    ),
    Binding("C", "app.show_lens('compare')", "Compare", key_display="C", tooltip="marked runs, or seeds, by layer"),
    Binding("T", "app.show_lens('timeline')", "Timeline", key_display="T", tooltip="the runs over their epochs"),
    Binding("A", "app.show_lens('analysis')", "Analysis", key_display="A", tooltip="sweep, utility, seeds"),
    Binding("J", "app.show_jobs", "Jobs", key_display="J", tooltip="queue, progress, logs, cancel, retry"),
    Binding(
        "P",
        "app.show_problems",
        "Problems",
        key_display="P",
        tooltip="files and settings that were not read, or only in part, and why",
    ),
]
