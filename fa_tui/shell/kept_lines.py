"""The lines of a long table in little memory: a hundred thousand take 8 MB, and not 60."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fa_tui.shell.verdict_rows import HEADINGS
from fa_tui.views.fitting import width_of

_TOGETHER = 500
_CELLS, _LINES = "\0", "\n"
"""Neither stands in a cell: names are escaped before they are shown (`fa_core.errors.printable`)."""


class KeptLines:
    """Lines under `HEADINGS`, kept as text.

    Attributes:
        widest: the widest cell of every column, headings included.
    """

    def __init__(self) -> None:
        self.widest = list(HEADINGS)
        self._widths = list(map(width_of, HEADINGS))
        self._packed: list[bytes] = []
        self._open: list[str] = []
        self._endings: dict[tuple[str, str], int] = {}

    def add(self, style: str, cells: Sequence[str]) -> None:
        """Keep one more line.

        Args:
            style: of the line.
            cells: under the headings; the last is one of a few texts, each kept once.
        """
        for place, cell in enumerate(cells):
            if (width := width_of(cell)) > self._widths[place]:
                self.widest[place], self._widths[place] = cell, width
        ending = self._endings.setdefault((style, cells[-1]), len(self._endings))
        self._open.append(_CELLS.join((*cells[:-1], str(ending))))
        if len(self._open) == _TOGETHER:
            self._packed.append(_LINES.join(self._open).encode())
            self._open.clear()

    def __iter__(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Every line's style and cells."""
        endings = list(self._endings)
        for packed in self._packed:
            yield from (_line(text, endings) for text in packed.decode().split(_LINES))
        yield from (_line(text, endings) for text in self._open)


def _line(text: str, endings: Sequence[tuple[str, str]]) -> tuple[str, tuple[str, ...]]:
    *cells, ending = text.split(_CELLS)
    style, last = endings[int(ending)]
    return style, (*cells, last)
