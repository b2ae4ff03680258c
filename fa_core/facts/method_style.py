"""The colour and the marker of every method: the same in every figure and on every screen."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec


class MethodStyle(NamedTuple):
    """How a method is drawn.

    Attributes:
        colour: as #rrggbb.
        marker: one of `MARKERS`.
    """

    colour: str
    marker: str


MARKERS = "os^Dv><PXp"
"""Matplotlib's filled markers, so that no method is known by its colour alone."""

METHOD_STYLES = msgspec.json.decode(
    Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, MethodStyle]
)
"""Okabe and Ito's colours, which differ with any colour vision (yellow darkened to show on white),
grey and wine; then shades that show on white and on black: so many differ by the marker too."""

_COLOURS = tuple(style.colour for style in METHOD_STYLES.values())[: len(MARKERS)]


def method_style(method: str) -> MethodStyle:
    """A method's own style, whatever else is drawn.

    A variant of a known method, such as ``dfa_penalty``, has its colour and another marker; any
    other name has the style that its checksum gives.

    >>> method_style("dfa").colour == method_style("dfa_penalty").colour
    True
    >>> method_style("dfa").marker == method_style("dfa_penalty").marker
    False
    """
    if method in METHOD_STYLES:
        return METHOD_STYLES[method]
    checksum = crc32(method.encode(errors="backslashreplace"))
    if not (known := known_method(method)):
        return MethodStyle(
            _COLOURS[checksum % len(_COLOURS)], MARKERS[checksum // len(_COLOURS) % len(MARKERS)]
        )
    base = METHOD_STYLES[known]
    others = MARKERS.replace(base.marker, "")
    return MethodStyle(base.colour, others[checksum % len(others)])


def known_method(method: str) -> str:
    """The known method that this is, or is a variant of; ``""`` if there is none.

    >>> known_method("dfa_penalty"), known_method("dfa"), known_method("dfax")
    ('dfa', 'dfa', '')
    """
    bases = [
        name
        for name in METHOD_STYLES
        if f"{method} ".startswith(tuple(f"{name}{end}" for end in "_- +"))
    ]
    return max(bases, key=len, default="")


def method_styles(methods: Iterable[str]) -> dict[str, MethodStyle]:
    """The styles of methods that are drawn together: colours are their own, a marker moves on where
    two are the same.

    >>> len(set(method_styles(f"m{i}" for i in range(20)).values()))
    20
    """
    names = list(dict.fromkeys(methods))
    taken: set[MethodStyle] = set()
    found: dict[str, MethodStyle] = {}
    for name in sorted(names, key=lambda name: (name not in METHOD_STYLES, name)):
        style = method_style(name)
        first = MARKERS.index(style.marker)
        free = (
            MethodStyle(style.colour, (MARKERS * 2)[first + step]) for step in range(len(MARKERS))
        )
        found[name] = next((one for one in free if one not in taken), style)
        taken.add(found[name])
    return {name: found[name] for name in names}
