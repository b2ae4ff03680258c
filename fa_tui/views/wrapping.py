"""Text fitted to the width of a pane: paragraphs, and lists of keys with what they do beside them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from fa_tui.views.fitting import cut, width_of

_LEAST = 10
_ITEM = re.compile(r" *\S.*?  +(?=\S)")
"""The part of a list's line before its second column."""


def reflowed(text: str) -> Iterator[str]:
    """The lines of a text with those joined that were only broken to fit the source code.

    A line goes on in the next one if both are of a paragraph, or if the next one begins under the second column.

    >>> list(reflowed("One sentence,\\nbroken.\\n\\n  a b   two keys, and\\n        what they do"))
    ['One sentence, broken.', '', '  a b   two keys, and what they do']
    """
    line = ""
    for part in text.rstrip().splitlines():
        if line and part and _goes_on(line, part):
            # an indented paragraph is set flush, so that it wraps as one
            line = f"{line if _ITEM.match(line) else line.strip()} {part.strip()}"
            continue
        if line:
            yield line
        if not part:
            yield ""
        line = part
    if line:
        yield line


def _goes_on(line: str, part: str) -> bool:
    """Whether a line is the continuation of the one before."""
    indent = _indent(part)
    if _ITEM.match(line) and line.startswith(" "):
        return indent >= _hanging(line)
    return not (_ITEM.match(part) and indent) and (indent == _indent(line) or not _indent(line))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def wrapped(line: str, width: int) -> list[str]:
    """A line in pieces of at most a width; what goes on stands under the second column, or a little to the right.

    >>> wrapped("  a b   two keys and what they do", 20)
    ['  a b   two keys and', '        what they do']
    """
    indent = _indent(line)
    hanging = _hanging(line)
    if hanging > width // 2:
        hanging = min(indent + 2, width // 2)
    return folded(line, max(_LEAST, width), lead=" " * indent, indent=" " * hanging) or [""]


def folded(text: str, width: int, *, lead: str = "", indent: str = "") -> list[str]:
    """A text in lines of at most a width, broken between words, and within a word that is wider than a line.

    Args:
        text: words.
        width: cells.
        lead: stands before the first line.
        indent: stands before the others.

    >>> folded("方法 很长的名字 dfa", 8)
    ['方法', '很长的名', '字 dfa']
    """
    if width_of(text) == len(text):
        # what has a hyphen is mostly a name, or an option
        return textwrap.wrap(text.strip(), width, initial_indent=lead, subsequent_indent=indent, break_on_hyphens=False)
    lines: list[str] = []
    line, empty = lead, True
    for word in text.split():
        while word:
            blank = "" if empty else " "
            if width_of(line) + len(blank) + width_of(word) <= width:
                line, word, empty = line + blank + word, "", False
                continue
            if empty:
                # at least a character, or it would never end
                piece = cut(word, width - width_of(line)) or word[0]
                line, word = line + piece, word[len(piece) :]
            lines.append(line)
            line, empty = indent, True
    return lines if empty else [*lines, line]


def _hanging(line: str) -> int:
    """Where the second column begins; a little right of the indent where there is none; 0 in a paragraph.

    >>> wrapped("- one point of several", 14)
    ['- one point of', '  several']
    """
    if line.startswith("- "):
        return 2
    if not line.startswith(" "):
        return 0
    item = _ITEM.match(line)
    return item.end() if item else _indent(line) + 2
