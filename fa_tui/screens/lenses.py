"""The screens that look at the runs in another way, each imported when it is first opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp
    from fa_tui.screens.threshold_screen import JudgedScreen


def lens(name: str, app: ExplorerApp) -> JudgedScreen:
    """A new screen: ``compare``, ``timeline`` or ``analysis``, on what the explorer shows now."""
    session, glyphs, explorer = app.session, app.terminal.glyphs, app.explorer
    if name == "compare":
        from fa_tui.screens.compare import CompareScreen

        return CompareScreen(session, at=explorer.row, filter=explorer.shown_runs.filter, glyphs=glyphs)
    if name == "timeline":
        from fa_tui.screens.timeline import TimelineScreen

        return TimelineScreen(session, at=explorer.row, glyphs=glyphs)
    from fa_tui.screens.analysis import AnalysisScreen

    return AnalysisScreen(session, filter=explorer.shown_runs.filter, glyphs=glyphs)
