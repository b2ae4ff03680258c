"""A report as one HTML file that needs nothing else: styles and figures inside, no script, no network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from fa_core.errors import printable
from fa_core.reporting.blocks import Block, Bullets, Figure, Grid, Heading, Paragraph

LONG = 48
"""Cells of more characters than this wrap."""

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; color: #1b1f24;
  background: #fff; max-width: 74rem; margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-bottom: .25rem; border-bottom: 1px solid #d0d7de; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p, ul, ol { margin: .5rem 0; max-width: 52rem; } li { margin: .15rem 0; }
figure { margin: 1.2rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption, caption { color: #57606a; font-size: .87rem; text-align: left; padding: .3rem 0; }
.wide { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .84rem; font-variant-numeric: tabular-nums; }
th, td { padding: .22rem .6rem; white-space: nowrap; }
td.long { white-space: normal; min-width: 16rem; }
thead th { border-top: 1.5px solid #1b1f24; border-bottom: 1px solid #1b1f24; font-weight: 600; }
tbody tr:last-child td { border-bottom: 1.5px solid #1b1f24; }
tr.marked td { background: #fdf1ef; }
.number { text-align: right; } .words { text-align: left; }
@media print { body { margin: 0; max-width: none; font-size: 10pt; } h2 { break-after: avoid; }
  figure, tr { break-inside: avoid; } .wide { overflow: visible; }
  td, th { white-space: normal; padding: .15rem .4rem; } }
"""


def to_html(blocks: Iterable[Block]) -> str:
    """The whole page; its title is the first heading."""
    parts = list(blocks)
    title = next((block.text for block in parts if isinstance(block, Heading)), "Audit")
    body = "\n".join(line for block in parts for line in _lines(block))
    return (
        "<!doctype html>\n"
        f"<html lang='en'><head><meta charset='utf-8'><title>{_plain(title)}</title>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _lines(block: Block) -> Iterator[str]:
    if isinstance(block, Heading):
        yield f"<h{block.level}>{_plain(block.text)}</h{block.level}>"
    elif isinstance(block, Paragraph):
        yield f"<p>{_plain(block.text)}</p>"
    elif isinstance(block, Bullets):
        tag = "ol" if block.numbered else "ul"
        yield f"<{tag}>" + "".join(f"<li>{_plain(item)}</li>" for item in block.items) + f"</{tag}>"
    elif isinstance(block, Figure):
        yield f"<figure>{block.svg}<figcaption>{_plain(block.caption)}</figcaption></figure>"
    else:
        yield from _grid(block)


def _grid(grid: Grid) -> Iterator[str]:
    kinds = ["words" if i < grid.words else "number" for i in range(len(grid.headings))]
    yield "<div class='wide'><table>"
    if grid.caption:
        yield f"<caption>{_plain(grid.caption)}</caption>"
    cells = "".join(f"<th class='{kind}'>{_plain(h)}</th>" for kind, h in zip(kinds, grid.headings, strict=True))
    yield f"<thead><tr>{cells}</tr></thead><tbody>"
    for number, row in enumerate(grid.rows):
        cells = "".join(_cell(cell, kind) for kind, cell in zip(kinds, row, strict=True))
        yield f"<tr class='marked'>{cells}</tr>" if number in grid.marked else f"<tr>{cells}</tr>"
    yield "</tbody></table></div>"


def _cell(words: str, kind: str) -> str:
    wraps = " long" if len(words) > LONG else ""
    return f"<td class='{kind}{wraps}'>{_plain(words)}</td>"


def _plain(words: str) -> str:
    """Words that are neither markup nor control characters: names come from files."""
    return escape(printable(words))
