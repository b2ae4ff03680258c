"""What a report is made of, whatever it is written as: headings, paragraphs, lists, tables, figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class Heading(msgspec.Struct, frozen=True, tag=True):
    """A heading; level 1 is the report's title."""

    text: str
    level: int = 2


class Paragraph(msgspec.Struct, frozen=True, tag=True):
    """Running text."""

    text: str


class Bullets(msgspec.Struct, frozen=True, tag=True):
    """A list of short statements, numbered from 1 where their order counts."""

    items: tuple[str, ...]
    numbered: bool = False


class Grid(msgspec.Struct, frozen=True, tag=True):
    """A table.

    Attributes:
        headings: one per column.
        rows: cells as they are shown.
        caption: above the table.
        words: how many leading columns hold words, set left; the others hold numbers, set right.
        marked: rows to set apart (walk-backs, say).
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    words: int = 1
    marked: frozenset[int] = frozenset()


class Figure(msgspec.Struct, frozen=True, tag=True):
    """A figure.

    Attributes:
        name: a file name's stem for forms that keep figures next to the text.
        draw: makes it, a figure of Matplotlib's; called where it is shown.
        caption: below the figure.
    """

    name: str
    draw: Callable[[], Any]
    caption: str


Block = Heading | Paragraph | Bullets | Grid | Figure
