"""Interfaces of the application and its main screen for other screens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from textual.binding import Binding
from textual.screen import Screen

from fa_tui.application import Application
from fa_tui.share import Shared
from fa_tui.widgets.line import TABS

if TYPE_CHECKING:
    from fa_core.report.thresholds import DiagnosticThresholds
    from fa_tui.screens.explorer_panes import RunsShown
    from fa_tui.session import Flip
    from fa_tui.threshold_history import ThresholdHistory
    from fa_tui.widgets.matrix import Matrix
    from fa_tui.widgets.run_table import RunTable
    from fa_tui.widgets.sliders_panel import SlidersPanel


ResultT = TypeVar("ResultT")


class MainScreen(Protocol):
    """The main screen: views of the runs, marks and flips."""

    shown_runs: RunsShown
    matrix: Matrix

    @property
    def runs(self) -> Matrix | RunTable:
        """The visible view of the runs."""

    @property
    def chosen(self) -> list[int]:
        """The marked runs, else the one under the cursor."""

    @property
    def turned(self) -> list[Flip]:
        """The runs whose letters changed with the last step."""

    @property
    def moved(self) -> str:
        """The thresholds that the last step moved, with their values, as text."""

    def action_lens(self, name: str) -> None:
        """Open a screen of the same runs."""


class ExplorerApplication(Application):
    """Application with screens.

    Attributes:
        removed_presets: name → thresholds of removed presets; the last can be restored.
    """

    removed_presets: list[tuple[str, DiagnosticThresholds]]

    @property
    def explorer(self) -> MainScreen:
        """The main screen."""
        raise NotImplementedError

    @property
    def history(self) -> ThresholdHistory:
        """Undo history of the thresholds, shared by all screens."""
        raise NotImplementedError

    @property
    def themes_here(self) -> list[str]:
        """Themes that the terminal can show."""
        raise NotImplementedError

    def dress(self, theme: str) -> None:
        """Change the theme and save it."""
        raise NotImplementedError

    def baseline_changed(self, flips: Sequence[Flip]) -> None:
        """Show the rows judged by another frozen baseline."""
        raise NotImplementedError

    def action_ask(self, name: str) -> None:
        """Open a dialog."""
        raise NotImplementedError


class ApplicationScreen(Screen[ResultT]):
    """Base of the explorer's screens, except questions.

    Attributes:
        judges: whether thresholds can be changed here.
        tab: its name in the tab bar.
        sliders: threshold sliders; None until they are on screen.
    """

    # the keys of the tab bar; the main screen has them with their tooltips
    BINDINGS = [
        Binding(tab.key, f"app.go({tab.name!r})", tab.name, show=False)
        for tab in TABS
        if tab.key != "escape"
    ]

    app: ExplorerApplication
    judges: ClassVar[bool] = True
    tab: ClassVar[str] = ""
    sliders: SlidersPanel | None = None

    def shared(self) -> Shared:
        """What can be copied and exported."""
        return Shared()
