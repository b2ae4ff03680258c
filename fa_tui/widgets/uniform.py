"""Widgets with nothing in them: a place for others."""

from __future__ import annotations

from textual.containers import Vertical
from textual.geometry import Region
from textual.strip import Strip


class Uniform:
    """Made before a class of widgets, has one line of it made for all: they are alike, and mostly covered."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a region."""
        first = Region(crop.x, crop.y, crop.width, min(1, crop.height))
        lines: list[Strip] = super().render_lines(first)  # type: ignore[misc]  # the widget's
        return lines * crop.height


class Place(Uniform, Vertical):
    """A container without content, title, or border above or below."""
