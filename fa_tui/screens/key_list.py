"""Every key of every screen: what `?` searches."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen

from fa_tui.screens.application import ExplorerApplication
from fa_tui.widgets.line import offered


class KeyLine(NamedTuple):
    """A key and what it does.

    Attributes:
        key: as it is shown.
        does: what it does, in the words of its tooltip.
        name: the action in a word or two.
        where: the screen that it belongs to, ``""`` for the one that is open.
        action: does it; of another screen, opens that from the main one.
        node: what the action belongs to; None = the main screen.
    """

    key: str
    does: str
    name: str
    where: str
    action: str
    node: DOMNode | None = None

    def matches(self, words: str) -> bool:
        """Whether every word that was typed is in it, in any case."""
        text = f"{self.key} {self.name} {self.does} {self.where}".lower()
        return all(word in text for word in words.lower().split())


class Place(NamedTuple):
    """A screen and the widgets on it.

    Attributes:
        name: as it is shown.
        action: of the main screen, opens it.
        classes: ``module:class`` of each.
    """

    name: str
    action: str
    classes: tuple[str, ...]


_PLACES = (
    Place(
        "matrix",
        "",
        (
            "widgets.matrix:Matrix",
            "widgets.run_cells:RunsView",
            "widgets.sliders_panel:SlidersPanel",
            "widgets.slider:ThresholdSlider",
            "screens.explorer:ExplorerScreen",
        ),
    ),
    Place("table", "toggle_table", ("widgets.run_table:RunTable",)),
    Place(
        "compare",
        "lens('compare')",
        ("screens.compare:CompareScreen", "widgets.compare_view:CompareView"),
    ),
    Place(
        "timeline",
        "lens('timeline')",
        ("screens.timeline:TimelineScreen",),
    ),
    Place(
        "before and after",
        "lens('differences')",
        ("screens.differences:DifferencesScreen",),
    ),
    Place("analysis", "lens('analysis')", ("screens.analysis:AnalysisScreen",)),
    Place("jobs", "app.show_jobs", ("screens.jobs:JobsScreen",)),
)


def keys_here(screen: Screen[object]) -> Iterator[KeyLine]:
    """The keys that work on a screen now."""
    for active, key in offered(screen, attrgetter("tooltip")):
        binding = active.binding
        name = binding.description
        yield KeyLine(key, binding.tooltip, name, "", binding.action, active.node)


def keys_elsewhere(app: ExplorerApplication, screen: Screen[object]) -> Iterator[KeyLine]:
    """The keys of all screens that do not work on this one; each once."""
    known = {(line.key, line.does) for line in keys_here(screen)}
    for place in _PLACES:
        for binding in _bindings_of(place):
            key = binding.key_display or app.get_key_display(binding)
            if (key, binding.tooltip) in known:
                continue
            known.add((key, binding.tooltip))
            name = binding.description
            yield KeyLine(key, binding.tooltip, name, place.name, place.action)


def _bindings_of(place: Place) -> Iterator[Binding]:
    """The bindings with a tooltip that the classes of a place declare themselves."""
    for name in place.classes:
        module, _, kind = name.partition(":")
        declared = vars(getattr(importlib.import_module(f"fa_tui.{module}"), kind))
        for binding in declared.get("BINDINGS", ()):
            if isinstance(binding, Binding) and binding.tooltip:
                yield binding
