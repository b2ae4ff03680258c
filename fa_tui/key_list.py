"""Every key of every page, and the text of help: what the palette and help search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

import msgspec.toml
from textual.binding import Binding
from textual.command import Hit, Hits, SimpleProvider
from textual.dom import DOMNode
from textual.screen import Screen

from fa_core.report.quantities import QUANTITIES
from fa_tui.pages import PAGES
from fa_tui.screens.help import HelpScreen, Palette
from fa_tui.widgets.line import KeyBar, offered

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


class Commands(SimpleProvider):
    """Finds what is typed, in one piece; first where it stands first, as a name does."""

    async def search(self, query: str) -> Hits:
        async for hit in super().search(query):
            place = str(hit.text).casefold().find(query.casefold())
            if place >= 0 and isinstance(hit, Hit):
                yield replace(hit, score=1 / (1 + place))


class KeyLine(NamedTuple):
    """A key and what it does.

    Attributes:
        key: as it is shown.
        does: what it does, in the words of its tooltip.
        name: the action in a word or two.
        where: the page that it belongs to, ``""`` for the one that is open.
        action: does it; of another page, opens that.
        node: what the action belongs to; None = the main screen.
    """

    key: str
    does: str
    name: str
    where: str
    action: str
    node: DOMNode | None = None


SLIDERS = "Sliders"
_WIDGETS = {
    "": ("fa_tui.app:ExplorerApp", "fa_tui.explorer:ExplorerScreen"),
    SLIDERS: ("fa_tui.widgets.sliders_panel:SlidersPanel", "fa_tui.widgets.slider:ThresholdSlider"),
    "Matrix": (
        "fa_tui.widgets.matrix:Matrix",
        "fa_tui.widgets.run_cells:RunsView",
        "fa_tui.pages.runs:RunsPage",
    ),
    "Table": ("fa_tui.widgets.run_table:RunTable",),
    "Compare": ("fa_tui.widgets.compare_view:CompareView",),
}
"""Page → ``module:class`` of its widgets with keys; ``""``: of every page."""


def keys_here(screen: Screen[object]) -> Iterator[KeyLine]:
    """The keys that work on a screen now."""
    for active, key in offered(screen, attrgetter("tooltip")):
        binding = active.binding
        yield KeyLine(key, binding.tooltip, binding.description, "", binding.action, active.node)


def every_key(app: ExplorerApp, screen: Screen[object]) -> Iterator[KeyLine]:
    """The keys that work on a screen, then those of all pages that do not; each once."""
    here = [*keys_here(screen)]
    yield from here
    known = {(line.key, line.does) for line in here}
    for page, binding in bindings():
        key = binding.key_display or app.get_key_display(binding)
        if not page or (key, binding.tooltip) in known:
            continue
        known.add((key, binding.tooltip))
        action = "screen.slider('a')" if page == SLIDERS else f"screen.go({page!r})"
        yield KeyLine(key, binding.tooltip, binding.description, page.lower(), action)


def bindings() -> Iterator[tuple[str, Binding]]:
    """The bindings with a tooltip, each with the name of its page: ``""`` for those of every
    page."""
    pages = {tab.name: tab.load() for tab in PAGES}
    for page in ("", SLIDERS, *pages):
        kinds = [*map(resolve_name, _WIDGETS.get(page, ()))]
        if page in pages:
            kinds.append(pages[page])
        declared = chain.from_iterable(vars(kind).get("BINDINGS", ()) for kind in kinds)
        for binding in declared:
            if isinstance(binding, Binding) and binding.tooltip:
                yield page, binding


def help_lines(
    app: ExplorerApp, screen: Screen[object], *, everywhere: bool = False
) -> Iterator[str]:
    """The help of the focused widget and of what holds it (`help.toml`), then the screen's keys; or
    the help and the keys of all pages."""
    path = Path(__file__).with_name("screens") / "help.toml"
    known = msgspec.toml.decode(path.read_bytes(), type=dict[str, str])
    texts: list[str] = []
    for holder in screen.focused.ancestors_with_self if screen.focused else [screen]:
        # a page has its text itself
        own = ((vars(kind).get("HELP"), known.get(kind.__name__)) for kind in type(holder).__mro__)
        texts += [*filter(None, chain.from_iterable(own))][:1]
    keys: Iterable[KeyLine] = keys_here(screen)
    if everywhere:
        texts += [*(tab.load().HELP for tab in PAGES), *known.values()]
        keys = every_key(app, screen)
    for text in dict.fromkeys(filter(None, texts)):
        yield from f"# {text.strip()}\n".split("\n")
    yield "# Keys" if everywhere else "# Keys that work here"
    does: dict[str, list[str]] = {}
    for line in keys:
        where = f" ({line.where})" if line.where else ""
        is_said = line.does.casefold().startswith(line.name.casefold())
        name = "" if is_said else f"{line.name}: "
        does.setdefault(f"{name}{line.does}{where}", []).append(line.key)
    for text, shown in does.items():
        yield f"  {' '.join(shown):<12} {text}"


def help_screen(app: ExplorerApp) -> HelpScreen:
    """The help of the focused pane."""
    lines = partial(help_lines, app, app.screen)
    return HelpScreen([*lines()], partial(lines, everywhere=True))


def palette(app: ExplorerApp) -> Palette:
    """The keys of all pages, the matrix's contents, and the themes, by their names and what they
    do."""
    here, home, say = app.screen, app.explorer, app.terminal.glyphs.say
    # first the bindings that the key bar has no room for
    left_out = {key for bar in here.query(KeyBar) for key in bar.left_out}
    commands: list[tuple[str, Callable[[], object]]] = []
    for line in sorted(every_key(app, here), key=lambda line: line.key not in left_out):
        where = f"; {line.where}" if line.where else ""
        run = partial(app.run_action, line.action, line.node or home)
        if line.action != "command_palette":
            commands.append((f"{line.name} ({line.key}{where}): {line.does}", run))
    if home.page.id == "Matrix":
        for quantity in (None, *QUANTITIES):
            shown = quantity.title if quantity else "verdicts"
            text = f"Show {shown}: what the cells of the matrix hold"
            commands.append((text, partial(home.matrix.show_quantity, quantity)))
    for theme in app.themes_here:
        text = f"Theme: {theme}, now and from now on"
        commands.append((text, partial(app.dress, theme)))
    return Palette(Commands(here, [(say(text), run) for text, run in commands]))
