"""The sizes of terminal that the main screen tells apart, as classes for its style sheet."""

from __future__ import annotations

from collections.abc import Iterator

from textual.geometry import Size

WIDTHS = [(0, "-tiny"), (40, "-slim"), (60, "-narrow"), (100, "-wide"), (168, "-widest")]
HEIGHTS = [(0, "-flat"), (10, "-short"), (16, "-low"), (34, "-high")]
"""From so many cells on, the class."""


def classes_at(size: Size) -> Iterator[str]:
    """The classes of a size.

    >>> list(classes_at(Size(80, 24)))
    ['-narrow', '-low']
    """
    for length, classes in ((size.width, WIDTHS), (size.height, HEIGHTS)):
        yield [name for least, name in classes if length >= least][-1]


def is_too_small(size: Size) -> bool:
    """Whether nothing can be shown there."""
    return not {"-tiny", "-flat"}.isdisjoint(classes_at(size))
