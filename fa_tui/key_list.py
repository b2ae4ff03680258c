"""Every key of every page: what the palette searches."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from fa_tui.pages import BEFORE_AFTER, PAGES
from fa_tui.widgets.line import offered

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


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
    "": ("app:ExplorerApp", "explorer:ExplorerScreen"),
    SLIDERS: ("widgets.sliders_panel:SlidersPanel", "widgets.slider:ThresholdSlider"),
    "Matrix": ("widgets.matrix:Matrix", "widgets.run_cells:RunsView", "pages.runs:RunsPage"),
    "Table": ("widgets.run_table:RunTable",),
    "Compare": ("widgets.compare_view:CompareView",),
}
"""Page → ``module:class`` of its widgets with keys; ``""``: of every page."""


def every_key(app: ExplorerApp, screen: Screen[object]) -> list[KeyLine]:
    """The keys that work on a screen, then those of the pages."""
    return [*keys_here(screen), *keys_elsewhere(app, screen)]


def keys_here(screen: Screen[object]) -> Iterator[KeyLine]:
    """The keys that work on a screen now."""
    for active, key in offered(screen, attrgetter("tooltip")):
        binding = active.binding
        name = binding.description
        yield KeyLine(key, binding.tooltip, name, "", binding.action, active.node)


def keys_elsewhere(app: ExplorerApp, screen: Screen[object]) -> Iterator[KeyLine]:
    """The keys of all pages that do not work on this one; each once."""
    known = {(line.key, line.does) for line in keys_here(screen)}
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
    pages = {tab.name: tab.load() for tab in (*PAGES, BEFORE_AFTER)}
    for page in ("", SLIDERS, *pages):
        kinds = [*map(_class_of, _WIDGETS.get(page, ()))]
        if page in pages:
            kinds.append(pages[page])
        for binding in chain.from_iterable(map(_bindings_of, kinds)):
            yield page, binding


def _class_of(name: str) -> type:
    module, _, kind = name.partition(":")
    found: type = getattr(importlib.import_module(f"fa_tui.{module}"), kind)
    return found


def _bindings_of(kind: type) -> Iterator[Binding]:
    """The bindings with a tooltip that a class declares itself."""
    for binding in vars(kind).get("BINDINGS", ()):
        if isinstance(binding, Binding) and binding.tooltip:
            yield binding
