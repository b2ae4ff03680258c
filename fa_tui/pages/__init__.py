"""The pages of the screen, each imported when it is opened.

A page is a module here, with its keys, help and CSS, and a line in `PAGES`: it defines the class
`XPage` for the page called X.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from fa_tui.pages.page import Page


class Tab(NamedTuple):
    """A page in the tab bar.

    Attributes:
        name: of the page.
        key: opens it; pressed again it goes back to the first page, whose key is only shown.
        about: what the page shows.
    """

    name: str
    key: str
    about: str

    def load(self) -> type[Page]:
        """The class of the page."""
        module = importlib.import_module(f"{__name__}.{self.name.lower()}")
        return cast("type[Page]", getattr(module, f"{self.name}Page"))


PAGES = (
    Tab("Matrix", "esc", "methods × seeds, and the run under the cursor"),
    Tab("Table", "t", "all columns of all runs"),
    Tab("Compare", "C", "marked runs, or those on this line, by layer"),
    Tab("Timeline", "T", "the runs over their epochs"),
    Tab("Analysis", "A", "sweep, seeds"),
    Tab("Jobs", "J", "queue, progress, logs, cancel, retry"),
    Tab("Diff", "D", "before and after: two files or folders, run by run"),
)
