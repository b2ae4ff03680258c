"""Building blocks of a report, and their Markdown and self-contained HTML forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from fa_core.report.numbers import listed
from fa_core.sanitize import one_line, short_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


class Heading(msgspec.Struct, frozen=True):
    """A heading; level 1 is the report's title."""

    text: str
    level: int = 2


class Paragraph(msgspec.Struct, frozen=True):
    """Running text."""

    text: str


class Bullets(msgspec.Struct, frozen=True):
    """A list of short statements, optionally numbered from 1."""

    items: tuple[str, ...]
    numbered: bool = False


def bullets(items: Iterable[str]) -> Iterator[Bullets]:
    """A list of some items, if there are any."""
    found = tuple(items)
    if found:
        yield Bullets(found)


def by_note(said: Iterable[tuple[str, Iterable[str]]], form: str = "{}: {}") -> list[str]:
    """Every note once, with the names it applies to.

    Args:
        said: pairs of a name and its notes.
        form: of the names and a note.

    >>> by_note([("bp", ["one seed", "no Γ"]), ("dfa", ["one seed"])])
    ['bp, dfa: one seed', 'bp: no Γ']
    """
    concerned: dict[str, dict[str, None]] = {}
    for name, notes in said:
        for note in notes:
            concerned.setdefault(note, {})[name] = None
    return [form.format(listed(names), note) for note, names in concerned.items()]


Record: TypeAlias = dict[str, str]
"""A row of a table: heading → cell."""


class Grid(msgspec.Struct, frozen=True):
    """A table.

    Attributes:
        headings: one per column.
        rows: cells as text.
        caption: above the table.
        words: number of leading columns with words, set left; the others hold numbers, set right.
        marked: highlighted rows (walk-backs, for example).
        ends_in_words: whether the last column holds words, too.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    words: int = 1
    marked: frozenset[int] = frozenset()
    ends_in_words: bool = False

    @property
    def left(self) -> list[bool]:
        """Whether each column is set left."""
        columns = len(self.headings)
        last = columns - self.ends_in_words
        return [place < self.words or place >= last for place in range(columns)]

    @classmethod
    def of(
        cls,
        records: Sequence[Record],
        caption: str = "",
        words: int = 1,
        marked: Iterable[object] = (),
    ) -> Grid:
        """A table of one or more records.

        Args:
            records: heading → cell, with the same headings in each.
            caption: above the table.
            words: number of leading columns with words.
            marked: per record, whether its row is highlighted.
        """
        return cls(
            headings=tuple(records[0]),
            rows=tuple(tuple(record.values()) for record in records),
            caption=caption,
            words=words,
            marked=frozenset(row for row, mark in enumerate(marked) if mark),
        )


class Figure(msgspec.Struct, frozen=True):
    """A figure.

    Attributes:
        name: stem of its file, in forms with figures next to the text.
        draw: draws it with Matplotlib.
        caption: below the figure.
    """

    name: str
    draw: Callable[[], Drawing]
    caption: str


Block = Heading | Paragraph | Bullets | Grid | Figure


STYLE = Path(__file__).with_name("report.css")
"""Style sheet of HTML reports."""

_EMBEDDED = "data:image/svg+xml;base64,"

_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_MARKUP = re.compile(
    r"[`*~$]|\\(?=[!-/:-@\[-`{-~]|$)"
    # links, images, references
    r"|\](?=[(\[:])"
    # emphasis; an underscore within a word is none
    r"|(?<![^\W_])_|_(?![^\W_])|~(?=~)"
    # addresses, people and issues, which become links of themselves
    r"|:(?=//)|(?<=www)\.|@|#(?=\d)"
    # headings, quotes, lists, boxes
    r"|^[#>+=\[-](?!\d)"
)
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
_OPTION = re.compile(r" \((?:give|choose) [^()]*--[\w-]+\)")
"""A hint for the command line, left out of reports."""


def to_markdown(blocks: Iterable[Block], figure_paths: Mapping[str, str] = {}) -> str:
    """Markdown text, ending in a newline.

    Args:
        blocks: the report.
        figure_paths: figure name → relative path of its SVG; other figures show their caption only.
    """
    parts = ["\n".join(_lines(block, figure_paths)) for block in blocks]
    return "\n\n".join(parts) + "\n"


def _lines(block: Block, paths: Mapping[str, str]) -> Iterator[str]:
    if isinstance(block, Heading):
        yield f"{'#' * block.level} {inline(block.text)}"
    elif isinstance(block, Paragraph):
        yield inline(block.text)
    elif isinstance(block, Bullets):
        for number, item in enumerate(block.items, 1):
            mark = f"{number}." if block.numbered else "-"
            yield f"{mark} {inline(_OPTION.sub('', item))}"
    elif isinstance(block, Figure):
        if block.name in paths:
            yield f"![{inline(block.caption)}](<{paths[block.name]}>)"
            yield ""
        yield f"*{inline(block.caption)}*"
    else:
        if block.caption:
            yield f"**{inline(block.caption)}**"
            yield ""
        yield _row(block.headings)
        yield f"|{''.join('---|' if left else '---:|' for left in block.left)}"
        yield from map(_row, block.rows)


LONGEST_NAME = 120
"""Letters of a row's first cell, its name; longer ones are cut in the middle."""


def _row(cells: Sequence[str]) -> str:
    first, *others = cells
    return f"| {' | '.join(map(cell, [short_line(first, LONGEST_NAME), *others]))} |"


def to_html(blocks: Iterable[Block]) -> str:
    """A whole page: `to_markdown` rendered, with embedded figures; titled by the first heading."""
    # imported late to keep the start of the explorer fast
    from base64 import b64encode

    from markdown_it import MarkdownIt

    from fa_core.reporting.panels import rendered

    class OwnFigures(MarkdownIt):
        """Markdown whose only links are embedded figures."""

        def validateLink(self, url: str) -> bool:
            return url.startswith(_EMBEDDED)

    parts = list(blocks)
    title = next((block.text for block in parts if isinstance(block, Heading)), "Audit")
    figures = {
        block.name: _EMBEDDED + b64encode(rendered(block.draw())).decode()
        for block in parts
        if isinstance(block, Figure)
    }
    markdown = OwnFigures("commonmark", {"html": False, "xhtmlOut": False}).enable("table")
    return (
        "<!doctype html>\n"
        f"<html lang='en'><head><meta charset='utf-8'><title>{escape(one_line(title))}</title>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<style>\n{STYLE.read_text(encoding='utf-8')}</style></head>\n"
        f"<body>\n{markdown.render(to_markdown(parts, figures))}</body></html>\n"
    )


def cell(words: str) -> str:
    r"""Text as the cell of a table: `inline`, with escaped bars.

    >>> print(cell("a|b"))
    a\|b
    """
    return inline(words).replace("|", "\\|")


def inline(words: str) -> str:
    r"""Text on one line without markup, as names come from files.

    >>> print(inline("<b>\x1b[1m R&amp;D, Γ < 1"))
    &lt;b>\x1b[1m R&amp;amp;D, Γ < 1
    >>> print(inline("[x](javascript:y) ![i](http://z) dfa_s42 *_"))
    \[x\](javascript:y) ![i\](http\://z) dfa_s42 \*\_
    """
    text = _TAG.sub("&lt;", _ENTITY.sub("&amp;", one_line(words)))
    return _NUMBERED.sub(r"\1\\\2", _MARKUP.sub(r"\\\g<0>", text))
