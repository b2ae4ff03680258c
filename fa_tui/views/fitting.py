"""Text fitted into cells: a Chinese character takes two of them, an accent that follows its letter none. Pure."""

from __future__ import annotations

import re

from rich.cells import cell_len, get_character_cell_size

_ONE_CELL_EACH = re.compile(r"[ -~\xa0-\xac\xae-\u02ff\u0370-\u0482]*").fullmatch
"""Latin, Greek and some Cyrillic text: a quarter of the time of `cell_len`."""


def width_of(text: str) -> int:
    r"""How many cells a text takes.

    >>> width_of("dfa"), width_of("方法"), width_of("e\u0301p")
    (3, 4, 2)
    """
    return len(text) if text.isascii() or _ONE_CELL_EACH(text) else cell_len(text)


def padded(text: str, width: int) -> str:
    """The text with blanks behind it up to a width; one that is wider stays as it is.

    >>> padded("dfa", 5), padded("方法", 5)
    ('dfa  ', '方法 ')
    """
    return text.ljust(width) if text.isascii() else text + " " * (width - cell_len(text))


def padded_left(text: str, width: int) -> str:
    """The text with blanks before it up to a width.

    >>> padded_left("dfa", 5), padded_left("方法", 5)
    ('  dfa', ' 方法')
    """
    return text.rjust(width) if text.isascii() else " " * (width - cell_len(text)) + text


def cut(text: str, width: int, mark: str = "") -> str:
    """The text; of one that is wider its beginning and a mark. No character is halved: it may be a cell short.

    >>> cut("credit_bridge", 8, "…"), cut("方法很长", 6, "…"), cut("方法", 4, "…")
    ('credit_…', '方法…', '方法')
    """
    if width_of(text) <= width:
        return text
    mark = mark[: max(0, width)]
    room = max(0, width - width_of(mark))
    if text.isascii():
        return text[:room] + mark
    end = used = 0
    for character in text:
        used += get_character_cell_size(character)
        if used > room:
            break
        end += 1
    # a variation selector may widen what stands before it
    while cell_len(text[:end]) > room:
        end -= 1
    return text[:end] + mark


def cut_start(text: str, width: int, mark: str = "") -> str:
    r"""The text; of one that is wider a mark and its end.

    >>> cut_start("runs/2025/dfa", 8, "…"), cut_start("方法很长", 6, "…"), cut_start("abe\u0301p", 2)
    ('…025/dfa', '…很长', 'e\u0301p')
    """
    if width_of(text) <= width:
        return text
    mark = mark[: max(0, width)]
    room = max(0, width - width_of(mark))
    start, used = len(text), 0
    while start:
        used += get_character_cell_size(text[start - 1])
        if used > room:
            break
        start -= 1
    while cell_len(text[start:]) > room or (start < len(text) and not get_character_cell_size(text[start])):
        # what is left of a letter is no letter
        start += 1
    return mark + text[start:]


def cut_middle(text: str, width: int, mark: str) -> str:
    """The text; of one that is wider its beginning, a mark and its end.

    >>> cut_middle("credit_bridge", 8, "…"), cut_middle("方法很长的名字", 8, "…")
    ('cre…idge', '方…名字')
    """
    if width_of(text) <= width:
        return text
    left = cut(text, max(0, width - width_of(mark)) // 2)
    return left + cut_start(text, width - width_of(left), mark)
