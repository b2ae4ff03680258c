"""The least a Textual app can be: what the explorer's start is measured against."""

from textual.app import App
from textual.widgets import Static


class BareApp(App[None]):
    """One line of text."""

    def compose(self):
        yield Static("walk-back")


if __name__ == "__main__":
    BareApp().run()
