"""SGR codes of colours and attributes, and the shortest change between two sets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.color import ColorSystem
from rich.style import Style

Codes = tuple[str, str, str]
"""SGR codes of attributes, foreground and background; ``39`` and ``49`` are the default colours."""

PLAIN: Codes = ("", "39", "49")
_SHOWN_ON_BLANKS = frozenset(("4", "7", "9", "21", "53"))
"""Attributes visible on blanks: underline, reverse, strike, double underline, overline."""
_OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}
"""Codes that end bold, dim, italic, underline, reverse and strike."""


@lru_cache(maxsize=64)
def shows_on_blanks(attributes: str) -> bool:
    """Whether some attribute is visible on a blank."""
    return not _SHOWN_ON_BLANKS.isdisjoint(attributes.split(";"))


@lru_cache(maxsize=1024)
def codes_of(style: Style, colours: ColorSystem) -> Codes:
    """The SGR codes of a style on a terminal with these colours."""
    attributes = style._attributes & style._set_attributes
    names = [code for bit, code in style._style_map.items() if attributes & (1 << bit)]
    _, foreground, background = PLAIN
    if style.color:
        foreground = ";".join(style.color.downgrade(colours).get_ansi_codes())
    if style.bgcolor:
        background = ";".join(style.bgcolor.downgrade(colours).get_ansi_codes(foreground=False))
    return ";".join(names), foreground, background


def same_blank(blank: Codes, other: Codes) -> bool:
    """Whether a blank looks the same in two sets of colours."""
    return blank[2] == other[2] and not shows_on_blanks(blank[0]) and not shows_on_blanks(other[0])


@lru_cache(maxsize=4096)
def change_of_colours(now: Codes | None, wanted: Codes) -> str:
    """The shortest SGR sequence from one set of colours and attributes (None: unknown) to another.

    >>> change_of_colours(("1", "31", "40"), ("", "32", "40"))
    '\\x1b[22;32m'
    """
    shortest = ";".join(["0", *_differing(wanted, PLAIN)])
    if now is not None:
        old = _attributes(now)
        new = _attributes(wanted)
        ended = old - new
        if ended <= _OFF.keys():
            off = sorted({_OFF[code] for code in ended})
            # one code ends both bold and dim
            on = sorted(new if off else new - old)
            from_now = ";".join([*off, *on, *_differing(wanted[1:], now[1:])])
            shortest = min(shortest, from_now, key=len)
    return f"\x1b[{shortest}m"


def _attributes(codes: Codes) -> set[str]:
    return set(codes[0].split(";")) - {""}


def _differing(codes: Sequence[str], other: Sequence[str]) -> list[str]:
    return [code for code, had in zip(codes, other, strict=True) if code != had]
