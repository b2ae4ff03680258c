"""Fewer bytes for the same picture, for lines slower than a desk.

Textual 8.2 sends a changed region from the left edge of its widget on, repaints the whole screen (17 to
32 KB) when the focus moves, and gives each piece of text all of its colours and a reset. Here the App
remembers what the terminal shows (`Frame`) and sends only the cells that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from textual import events
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.app import App, ReturnType
from textual.screen import Screen

from fa_tui.frame import Frame, Pen

_Piece = tuple[int, int, Iterable[Segment]]


class FrugalApp(App[ReturnType]):
    """An App that sends the terminal only the cells that changed."""

    _frame: Frame | None = None

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Resize):
            # after a resize, or back from the shell, the terminal shows anything
            self._frame = None
        await super().on_event(event)

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if isinstance(renderable, (ChopsUpdate, LayoutUpdate)) and not self.is_inline:
            renderable = _FrameUpdate(self._frame_for, renderable)
        super()._display(screen, renderable)

    def _frame_for(self, console: Console) -> Frame:
        size = (self.size.width, self.size.height)
        if self._frame is None or self._frame.size != size:
            self._frame = Frame(*size, console._color_system or ColorSystem.TRUECOLOR)
        return self._frame


class _FrameUpdate(CompositorUpdate):
    """An update of the compositor, encoded against the frame at the moment it is sent."""

    def __init__(self, frame_for: Callable[[Console], Frame], update: ChopsUpdate | LayoutUpdate) -> None:
        self._frame_for, self._update = frame_for, update

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._update

    def render_segments(self, console: Console) -> str:
        frame, pen, update = self._frame_for(console), Pen(), self._update
        for x, y, segments in _chops(update) if isinstance(update, ChopsUpdate) else _lines(update):
            frame.put(pen, x, y, segments)
        return pen.text()


def _lines(update: LayoutUpdate) -> Iterator[_Piece]:
    for y, line in enumerate(update.strips, update.region.y):
        yield update.region.x, y, (segment for strip in line for segment in strip)


def _chops(update: ChopsUpdate) -> Iterator[_Piece]:
    for y, x1, x2 in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x < x2 and end > x1:
                yield max(x, x1), y, strip.crop(max(0, x1 - x), min(end, x2) - x)
