"""What every page of the screen offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Vertical
from textual.widget import Widget

from fa_tui.session import Session
from fa_tui.views.words import walk_back_words
from fa_tui.widgets.painted import Row

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp
    from fa_tui.share import Shared


class Page(Vertical):
    """A page: it shows a snapshot, and the selected run in it.

    Args:
        session: the snapshot.

    Attributes:
        session: the shown snapshot.
    """

    HELP: ClassVar[str] = ""
    """A title line, and what the page shows, for the help."""
    FOLDS_BELOW: ClassVar[int] = 34
    """Lines of the terminal below which the sliders are folded."""

    app: ExplorerApp

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    def show(self, now: Session) -> None:
        """Show another snapshot."""
        raise NotImplementedError

    async def complete(self) -> None:
        """Mount what the first paint does without."""

    @property
    def main(self) -> Widget:
        """The widget that gets the focus."""
        raise NotImplementedError

    @property
    def row(self) -> int | None:
        """The run under the cursor, if the cursor is on a single one."""
        return None

    async def action_go(self) -> None:
        """Go to the run under the cursor, in the matrix."""
        if self.row is None:
            self.app.say("no run here", "dim")
        else:
            self.app.explorer.row = self.row
            await self.app.explorer.open("Matrix")

    def go_to(self, row: int) -> None:
        """Put the cursor on a run, if the page has it."""

    def title(self) -> Row:
        """The line above the page."""
        raise NotImplementedError

    def legend(self) -> Row:
        """What the status line says where there is no message."""
        return [(" a b c d: a slider   z: all four, or none   esc: back", "dim")]

    def counts(self) -> Sequence[str]:
        """What is counted of the runs above the sliders, the most important first."""
        return walk_back_words(self.session).split(", ")

    def back(self) -> bool:
        """Close what is open on the page; False if nothing is."""
        return False

    def shared(self) -> Shared:
        """What can be copied and exported."""
        raise NotImplementedError
