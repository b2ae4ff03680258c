"""What the explorer's App is put together from.

A part is a plain class while the program runs: Textual goes through all attributes of each class of App that it is told
of, which for five parts costs a start as much as reading the sample runs. So it may have handlers by name (`on_…`),
but neither bindings nor `@on`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.app import App

    class AppPart(App[int]):
        """A part of an App, made before it: ``class ExplorerApp(Part, OtherPart, App[int])``."""

else:

    class AppPart:
        """A part of an App, made before it: ``class ExplorerApp(Part, OtherPart, App[int])``."""
