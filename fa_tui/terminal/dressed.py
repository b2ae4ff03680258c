"""An App in the colours and characters that its terminal can show and its person prefers."""

from __future__ import annotations

from textual.app import App
from textual.binding import Binding

from fa_tui.settings import Settings
from fa_tui.terminal.abilities import Terminal, forget_empty_no_color
from fa_tui.terminal.painting import FrugalApp
from fa_tui.terminal.themes import THEMES


class DressedApp(FrugalApp):
    """Has the explorer's themes, and begins with the right one.

    Args:
        terminal: what the terminal can show.
        settings: what the person prefers.
    """

    _is_dressed = False

    def __init__(self, terminal: Terminal, settings: Settings) -> None:
        forget_empty_no_color()
        super().__init__(ansi_color=terminal.ansi_color, scrolls=terminal.scrolls)
        self.terminal = terminal
        self.settings = settings
        for theme in THEMES:
            self.register_theme(theme)
        self._begin_with(settings.theme if settings.theme in self.themes_here else terminal.theme)
        if not terminal.unicode:
            from textual.scrollbar import ScrollBar

            from fa_tui.widgets.painted import PlainScrollBar

            self.add_class("-ascii")
            ScrollBar.renderer = PlainScrollBar

    def get_key_display(self, binding: Binding) -> str:
        """The key in words that every terminal's font has."""
        return super().get_key_display(binding).replace("⏎", "enter").replace("⌫", "backspace")

    @property
    def themes_here(self) -> list[str]:
        """The themes that this terminal can show: one that sends no RGB, or all."""
        if self.terminal.ansi_color:
            return [self.terminal.theme]
        return [theme.name for theme in THEMES]

    def choose_theme(self, name: str) -> str:
        """Change the colours, now and from now on; what to tell the person.

        Raises:
            FaError: the settings file cannot be written; the colours are changed all the same.
        """
        from fa_tui.settings import remember_theme

        self.theme = name
        return f"theme {name}, kept in {remember_theme(name)}"

    def get_css_variables(self) -> dict[str, str]:
        # not before the theme is known: those of Textual's own would be made for nothing
        return super().get_css_variables() if self._is_dressed else {}

    def _begin_with(self, theme: str) -> None:
        """Set the theme before the start: an assignment would have every stylesheet parsed a second time."""
        self._is_dressed = True
        self.set_reactive(App.theme, theme)
        dark = self.current_theme.dark
        self.set_class(dark, "-dark-mode")
        self.set_class(not dark, "-light-mode")
        self.add_class(f"-theme-{theme}")
        self.stylesheet.set_variables(self.get_css_variables())
