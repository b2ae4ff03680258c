"""Pictures of a screen: in which terminals it is looked at, and SVGs that hold little more than what is seen."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.fa_tui.conftest import COLOURFUL, PLAIN

SIZES = {"80x24": (80, 24), "120x40": (120, 40), "200x60": (200, 60)}
LOOKS = {"colour": COLOURFUL, "ascii": PLAIN}


class Picture(NamedTuple):
    """How a scene is looked at: the terminal, its size and the theme."""

    look: str
    size: str
    theme: str


SMALLEST = Picture("colour", "80x24", "fa-dark")
"""Every scene is looked at where it has the least room."""

OTHER_PICTURES = (
    Picture("ascii", "80x24", "fa-ansi"),
    Picture("colour", "120x40", "fa-light"),
    Picture("colour", "200x60", "fa-dark"),
)
SEEN_IN_EVERY_PICTURE = ("matrix", "compare")
"""Scenes that show every character, colour and width at which the layout changes."""


def pictures_of(scene: str) -> tuple[Picture, ...]:
    """The pictures that are taken of a scene."""
    if scene in SEEN_IN_EVERY_PICTURE:
        return (SMALLEST, *OTHER_PICTURES)
    return (SMALLEST,)


_RECT = re.compile(
    r'<rect fill="(.+?)" x="(.+?)" y="(.+?)" width="(.+?)" height="24.65" shape-rendering="crispEdges"/>'
)
_LINE_CLIP = re.compile(r'\s*<clipPath id="[^"]*line-\d+">.*?</clipPath>', re.DOTALL)
_LINE_END = re.compile(r'<text class="[^"]*" x="[^"]*" y="[^"]*" textLength="12.2"[^>]*>\n</text>')


def compact(svg: str) -> str:
    """The same picture in a third of the bytes, with a line per piece of text.

    Rich paints a rectangle behind every word and clips every line; here neighbours of one colour are one
    rectangle, and a line is as long as its text.
    """
    svg = _LINE_END.sub("", _LINE_CLIP.sub("", svg))
    svg = re.sub(r' clip-path="url\(#[^"]*line-\d+\)"', "", svg)
    rectangles = list(_RECT.finditer(svg))
    if not rectangles:
        return svg
    begin, end = rectangles[0].start(), rectangles[-1].end()
    svg = svg[:begin] + "\n".join(_merged([found.groups() for found in rectangles])) + svg[end:]
    return svg.replace("</text><text", "</text>\n<text")


def _merged(rectangles: list[tuple[str, ...]]) -> list[str]:
    """One rectangle for all of one colour that touch on a line."""
    merged: list[tuple[str, str, float, float]] = []
    for fill, x, y, width in rectangles:
        left, right = float(x), float(x) + float(width)
        if merged and merged[-1][:2] == (fill, y) and abs(merged[-1][3] - left) < 0.1:
            left = merged.pop()[2]
        merged.append((fill, y, left, right))
    return [
        f'<rect fill="{fill}" x="{left:g}" y="{y}" width="{right - left:.6g}" height="24.65"/>'
        for fill, y, left, right in merged
    ]
