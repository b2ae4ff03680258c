"""A report as Markdown (GitHub tables), ready to paste."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from fa_core.reporting.blocks import Block, Bullets, Figure, Grid, Heading, Paragraph


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
        yield f"{'#' * block.level} {block.text}"
    elif isinstance(block, Paragraph):
        yield block.text
    elif isinstance(block, Bullets):
        yield from (f"{f'{number}.' if block.numbered else '-'} {item}" for number, item in enumerate(block.items, 1))
    elif isinstance(block, Figure):
        if block.name in paths:
            yield f"![{_cell(block.caption)}](<{paths[block.name]}>)"
            yield ""
        yield f"*{block.caption}*"
    else:
        yield from _grid(block)


def _grid(grid: Grid) -> Iterator[str]:
    if grid.caption:
        yield f"**{grid.caption}**"
        yield ""
    yield _row(grid.headings)
    yield "|" + "|".join("---" if i < grid.words else "---:" for i in range(len(grid.headings))) + "|"
    yield from (_row(row) for row in grid.rows)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(words: str) -> str:
    return " ".join(words.replace("|", "\\|").split())
