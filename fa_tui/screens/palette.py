"""The command palette: everything a key can do, by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.app import SystemCommand
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider

from fa_tui.screens.questions import Question

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


class Palette(CommandPalette, Question[None]):
    """Textual's palette in the explorer's clothes: a line to type in, no sign that fonts or ASCII lack."""

    DEFAULT_CSS = """
    Palette {
        &:ansi { background: transparent; }
        & > Vertical {
            width: 100; max-width: 100%; margin-top: 1; background: $surface;
            &:dark { background: $surface; }
        }
        & SearchIcon { display: none; }
        & #--input { height: 1; border: none; background: $panel; }
        & CommandInput, & CommandInput:focus { height: 1; border: none; padding: 0 2; }
        & #--results { background: $surface; padding: 0; }
        &:ansi #--results { border-bottom: ascii $accent; }
        & CommandList { padding: 0; scrollbar-size-vertical: 1; border: none; background: $surface; }
        & CommandList > .option-list--option-highlighted {
            background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold;
        }
        /* Textual's lists cannot turn a line round */
        &:ansi CommandList > .option-list--option-highlighted { text-style: bold underline; }
        & LoadingIndicator { border-bottom: none; }
        & > .command-palette--help-text { color: $text-muted; text-style: not bold; }
    }
    """

    def __init__(self) -> None:
        super().__init__(placeholder="type what to do; enter does it, esc leaves", id="--command-palette")


_LESS = 0.9
"""What is found in a command's explanation counts a little less than what is found in its name."""


class ExplorerCommands(Provider):
    """The bindings of the screen with a tooltip, what the matrix can show, and the themes."""

    async def discover(self) -> Hits:
        say = self._explorer_app.terminal.glyphs.say
        for command in self._commands():
            yield DiscoveryHit(say(command.title), command.callback, help=say(command.help))

    async def search(self, query: str) -> Hits:
        matcher, say = self.matcher(query), self._explorer_app.terminal.glyphs.say
        for command in self._commands():
            name, explains = say(command.title), say(command.help)
            score = max(matcher.match(name), _LESS * matcher.match(explains))
            if score:
                yield Hit(score, matcher.highlight(name), command.callback, help=explains)

    def _commands(self) -> Iterator[SystemCommand]:
        yield from self._bindings()
        yield from self._quantities()
        app = self._explorer_app
        yield from self._presets()
        for name in app.themes_here:
            yield SystemCommand(f"Theme: {name}", "change the colours, now and from now on", partial(app.dress, name))

    def _bindings(self) -> Iterator[SystemCommand]:
        app, seen = self._explorer_app, set[str]()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if not binding.tooltip or not active.enabled or binding.action in seen:
                continue
            seen.add(binding.action)
            key = binding.key_display or app.get_key_display(binding)

            async def run(action: str = binding.action, node: object = active.node) -> None:
                await app.run_action(action, node)  # type: ignore[arg-type]

            yield SystemCommand(binding.description, f"{binding.tooltip} ({key})", run)

    def _quantities(self) -> Iterator[SystemCommand]:
        from fa_tui.screens.explorer import ExplorerScreen
        from fa_tui.views.columns import QUANTITIES

        if not isinstance(self.screen, ExplorerScreen):
            return
        matrix = self.screen.matrix
        yield SystemCommand("Show verdicts", "letters in the matrix", lambda: matrix.show(None))
        for quantity in QUANTITIES:
            yield SystemCommand(
                f"Show {quantity.label}",
                "a number per run instead of letters",
                partial(matrix.show, quantity),
            )

    def _presets(self) -> Iterator[SystemCommand]:
        from fa_tui.screens.dialogs import use_preset
        from fa_tui.settings import Presets

        app = self._explorer_app
        for name, thresholds in Presets().read().items():
            yield SystemCommand(f"Thresholds: {name}", "move all sliders", partial(use_preset, app, name, thresholds))

    @property
    def _explorer_app(self) -> ExplorerApp:
        return cast("ExplorerApp", self.app)
