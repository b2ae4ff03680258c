"""The least a Textual app can be: what the explorer's start is measured against."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Static


class BareApp(App[None]):
    """One line of text."""

    def compose(self) -> ComposeResult:
        yield Static("walk-back")


if __name__ == "__main__":
    BareApp().run()
