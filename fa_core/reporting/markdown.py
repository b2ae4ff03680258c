"""A report as Markdown (GitHub tables), ready to paste."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from fa_core.errors import printable
from fa_core.reporting.blocks import Block, Bullets, Figure, Grid, Heading, Paragraph

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_BAR = re.compile(r"(\\*)\|")


def to_markdown(blocks: Iterable[Block], figure_paths: Mapping[str, str] | None = None) -> str:
    """Markdown text, ending in a newline.

    Args:
        blocks: the report.
        figure_paths: figure name → relative path of its SVG; figures without one are left to their caption.
    """
    paths = figure_paths or {}
    return "\n\n".join("\n".join(_lines(block, paths)) for block in blocks) + "\n"


def _lines(block: Block, paths: Mapping[str, str]) -> Iterator[str]:
    if isinstance(block, Heading):
        yield f"{'#' * block.level} {inline(block.text)}"
    elif isinstance(block, Paragraph):
        yield inline(block.text)
    elif isinstance(block, Bullets):
        yield from (
            f"{f'{number}.' if block.numbered else '-'} {inline(item)}" for number, item in enumerate(block.items, 1)
        )
    elif isinstance(block, Figure):
        if block.name in paths:
            yield f"![{inline(block.caption)}](<{paths[block.name]}>)"
            yield ""
        yield f"*{inline(block.caption)}*"
    else:
        yield from _grid(block)


def _grid(grid: Grid) -> Iterator[str]:
    if grid.caption:
        yield f"**{inline(grid.caption)}**"
        yield ""
    yield _row(grid.headings)
    yield "|" + "|".join("---" if i < grid.words else "---:" for i in range(len(grid.headings))) + "|"
    yield from (_row(row) for row in grid.rows)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(cell, cells)) + " |"


def cell(words: str) -> str:
    r"""Words as the cell of a table: `inline`, with bars that end no cell.

    >>> print(cell("a|b"))
    a\|b
    """
    # a bar behind a backslash of its own would end the cell after all
    return _BAR.sub(r"\1\1\\|", inline(words))


def inline(words: str) -> str:
    r"""Words on one line, none of them HTML: names come from files.

    >>> print(inline("<b>\x1b[1m R&amp;D, Γ < 1"))
    &lt;b>\x1b[1m R&amp;amp;D, Γ < 1
    """
    return _TAG.sub("&lt;", _ENTITY.sub("&amp;", printable(words)))
