"""The command palette: everything a key can do, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from textual.command import DiscoveryHit, Hit, Hits, Provider

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


class Command(NamedTuple):
    """One entry: what it is called, what it does, and the key that does it too."""

    name: str
    explains: str
    run: Callable[[], Awaitable[None] | None]


class ExplorerCommands(Provider):
    """The bindings of the screen with a tooltip, what the matrix can show, and the themes."""

    async def discover(self) -> Hits:
        for command in self._commands():
            yield DiscoveryHit(command.name, command.run, help=command.explains)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in self._commands():
            score = matcher.match(command.name)
            if score:
                yield Hit(score, matcher.highlight(command.name), command.run, help=command.explains)

    def _commands(self) -> Iterator[Command]:
        yield from self._bindings()
        yield from self._quantities()
        app = self._explorer_app
        yield from self._presets()
        own = app.settings.themes
        for name in (theme for theme in app.available_themes if theme.startswith("fa-") or theme in own):
            yield Command(f"Theme: {name}", "change the colours", partial(setattr, app, "theme", name))

    def _bindings(self) -> Iterator[Command]:
        app, seen = self._explorer_app, set[str]()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if not binding.tooltip or not active.enabled or binding.action in seen:
                continue
            seen.add(binding.action)
            key = binding.key_display or app.get_key_display(binding)

            async def run(action: str = binding.action, node: object = active.node) -> None:
                await app.run_action(action, node)  # type: ignore[arg-type]

            yield Command(binding.description, f"{binding.tooltip} ({key})", run)

    def _quantities(self) -> Iterator[Command]:
        from fa_tui.screens.explorer import ExplorerScreen
        from fa_tui.views.quantities import QUANTITIES

        if not isinstance(self.screen, ExplorerScreen):
            return
        matrix = self.screen.matrix
        yield Command("Show verdicts", "letters in the matrix", lambda: matrix.show(None))
        for quantity in QUANTITIES:
            yield Command(
                f"Show {quantity.label}",
                "a number per run instead of letters",
                partial(matrix.show, quantity),
            )

    def _presets(self) -> Iterator[Command]:
        from fa_tui.config.presets import Presets
        from fa_tui.screens.dialogs import use_preset

        app = self._explorer_app
        for name, thresholds in Presets().read().items():
            yield Command(f"Thresholds: {name}", "move all sliders", partial(use_preset, app, name, thresholds))

    @property
    def _explorer_app(self) -> ExplorerApp:
        from fa_tui.app import ExplorerApp

        assert isinstance(self.app, ExplorerApp)
        return self.app
