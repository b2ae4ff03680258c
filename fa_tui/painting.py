"""Fewer bytes for the same picture: what a terminal is sent when some cells changed.

Textual 8.2 sends a changed region from the left edge of its widget on, and for each piece of text all
of its colours and a reset. Over SSH that is most of a slider step. Here a region begins where the change
does, and only the colours that differ from those before are sent.
"""

from __future__ import annotations

from functools import lru_cache

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate
from textual.app import App, ReturnType
from textual.screen import Screen
from textual.strip import Strip

_RESET = "\x1b[0m"
_SHOWN_ON_BLANKS = ("4", "7", "9", "21", "53")
"""Underline, reverse, strike, double underline, overline: attributes that a blank shows too."""


class FrugalApp(App[ReturnType]):
    """An App that paints changed cells with `NarrowUpdate`."""

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if type(renderable) is ChopsUpdate:
            renderable = NarrowUpdate(renderable.chops, renderable.spans, renderable.chop_ends)
        super()._display(screen, renderable)


class NarrowUpdate(ChopsUpdate):
    """The changed spans of the screen, each from its first cell to its last."""

    def render_segments(self, console: Console) -> str:
        colours = console._color_system or ColorSystem.TRUECOLOR
        pen = _Pen(colours)
        for y, x1, x2 in self.spans:
            pen.move(x1, y)
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= x2 or end <= x1:
                    continue
                if x > pen.x:
                    pen.move(x, y)
                part: Strip = strip.crop(max(0, x1 - x), min(end, x2) - x)
                for segment in part:
                    pen.write(segment)
                pen.x += part.cell_length
        return pen.finish()


class _Pen:
    """Writes styled text, remembering which colours and attributes the terminal already has."""

    def __init__(self, colours: ColorSystem) -> None:
        self._colours = colours
        self._out: list[str] = []
        self._now: tuple[str, str, str] = ("", "39", "49")
        self._started = False
        self.x = 0

    def move(self, x: int, y: int) -> None:
        self._out.append(f"\x1b[{y + 1};{x + 1}H")
        self.x = x

    def write(self, segment: Segment) -> None:
        text, style, control = segment
        if control or not text:
            return
        if style is not None and style._link:
            self._out.append(Strip.render_style(style, text, self._colours))
            self._started = False
            return
        wanted = _codes(style, self._colours) if style is not None else ("", "39", "49")
        if not (self._started and wanted[2] == self._now[2] and _only_background(text, wanted, self._now)):
            self._change(wanted)
        self._out.append(text)

    def finish(self) -> str:
        self._out.append(_RESET)
        return "".join(self._out)

    def _change(self, wanted: tuple[str, str, str]) -> None:
        attributes, foreground, background = wanted
        if not self._started or attributes != self._now[0]:
            sent = ["0", attributes, foreground if foreground != "39" else "", background if background != "49" else ""]
        else:
            sent = [new for new, old in zip(wanted[1:], self._now[1:], strict=True) if new != old]
        codes = ";".join(code for code in sent if code)
        if codes:
            self._out.append(f"\x1b[{codes}m")
        self._now, self._started = wanted, True


def _only_background(text: str, wanted: tuple[str, str, str], now: tuple[str, str, str]) -> bool:
    """Whether nothing but the background shows: blanks without underline and the like."""
    return not text.strip(" ") and not any(
        code in _SHOWN_ON_BLANKS for attributes in (wanted[0], now[0]) for code in attributes.split(";")
    )


@lru_cache(maxsize=1024)
def _codes(style: Style, colours: ColorSystem) -> tuple[str, str, str]:
    """SGR codes of attributes, foreground and background."""
    attributes = style._attributes & style._set_attributes
    names = [code for bit, code in style._style_map.items() if attributes & (1 << bit)]
    foreground = style.color.downgrade(colours).get_ansi_codes() if style.color else ("39",)
    background = style.bgcolor.downgrade(colours).get_ansi_codes(foreground=False) if style.bgcolor else ("49",)
    return ";".join(names), ";".join(foreground), ";".join(background)
