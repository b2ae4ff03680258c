"""Text measured in terminal cells: cutting, padding, wrapping, short paths, columns. Pure.

A Chinese character takes two cells, a combining accent none.
"""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from os.path import commonprefix
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len, chop_cells, get_character_cell_size
from rich.console import Console
from rich.text import Text

from fa_core.formats.rows import Problem
from fa_core.report.numbers import listed


def width_of(text: str) -> int:
    r"""How many cells a text takes.

    >>> width_of("dfa"), width_of("方法"), width_of("e\u0301p")
    (3, 4, 2)
    """
    if text.isascii():
        return len(text)
    return cell_len(text)


def widest(texts: Iterable[str]) -> int:
    """Cells of the widest text; 0 without one."""
    return max(map(width_of, texts), default=0)


def padded(text: str, width: int) -> str:
    """The text with trailing blanks up to a width; a wider one is unchanged.

    >>> padded("dfa", 5), padded("方法", 5)
    ('dfa  ', '方法 ')
    """
    return text + " " * (width - width_of(text))


def padded_left(text: str, width: int) -> str:
    """The text with leading blanks up to a width; a wider one is unchanged.

    >>> padded_left("dfa", 5), padded_left("方法", 5)
    ('  dfa', ' 方法')
    """
    return " " * (width - width_of(text)) + text


def as_many(texts: Iterable[str], width: int, gap: str) -> str:
    """The first of some texts, as many whole ones as fit, with gaps.

    >>> as_many(["9 of 15 need walk-back", "2 controls"], 30, ", ")
    '9 of 15 need walk-back'
    """
    kept = ""
    for text in texts:
        longer = f"{kept}{gap}{text}" if kept else text
        if width_of(longer) > width:
            break
        kept = longer
    return kept


def cut(text: str, width: int, mark: str = "") -> str:
    """The text, cut at its end and marked if it is too wide; it may end up a cell short, as no
    character is halved.

    >>> cut("credit_bridge", 8, "…"), cut("方法很长", 6, "…"), cut("方法", 4, "…")
    ('credit_…', '方法…', '方法')
    """
    if width_of(text) <= width:
        return text
    mark = mark[: max(0, width)]
    room = width - width_of(mark)
    if room <= 0:
        return mark
    return (text[:room] if text.isascii() else chop_cells(text, room)[0]) + mark


def cut_start(text: str, width: int, mark: str = "") -> str:
    r"""The text, cut at its start and marked if it is too wide.

    >>> cut_start("runs/2025/dfa", 8, "…"), cut_start("方法很长", 6, "…")
    ('…025/dfa', '…很长')
    >>> cut_start("abe\u0301p", 2)
    'e\u0301p'
    """
    if width_of(text) <= width:
        return text
    mark = mark[: max(0, width)]
    room = max(0, width - width_of(mark))
    start = bisect_left(range(len(text)), -room, key=lambda at: -width_of(text[at:]))
    # an accent never stands without its letter
    while start < len(text) and not get_character_cell_size(text[start]):
        start += 1
    return mark + text[start:]


_PATH = re.compile(r"[^\s'\"(,;:]+/[^\s'\"),;:]+")


def cut_paths(text: str, width: int, mark: str) -> str:
    """A sentence that is too wide with its paths cut at their starts, the longest first, down to
    their last parts; it may still be too wide.

    >>> cut_paths("the frozen run /tmp/runs/2025/frozen_s1 has epochs 2", 39, "…")
    'the frozen run …/frozen_s1 has epochs 2'
    """
    for path in sorted(_PATH.findall(text), key=len, reverse=True):
        room = width - width_of(text) + width_of(path)
        least = width_of(mark) + width_of(path[path.rindex("/") :])
        text = text.replace(path, cut_start(path, max(room, least), mark))
    return text


def cut_middle(text: str, width: int, mark: str) -> str:
    """The text, cut in its middle and marked if it is too wide.

    >>> cut_middle("credit_bridge", 8, "…"), cut_middle("方法很长的名字", 8, "…")
    ('cre…idge', '方…名字')
    """
    if width_of(text) <= width:
        return text
    left = cut(text, max(0, width - width_of(mark)) // 2)
    return left + cut_start(text, width - width_of(left), mark)


def told_apart(names: Iterable[str], width: int, mark: str) -> dict[str, str]:
    """Name → it cut to a width (`cut_middle`); those that this makes alike keep what differs of
    them.

    >>> told_apart({"dfa arch=mlp lr=0.003", "dfa arch=cnn lr=0.003", "bp"}, 12, "…") == {
    ...     "dfa arch=mlp lr=0.003": "dfa…mlp….003",
    ...     "dfa arch=cnn lr=0.003": "dfa…cnn….003",
    ...     "bp": "bp",
    ... }
    True
    """
    found = {name: cut_middle(name, width, mark) for name in {*names}}
    alike: dict[str, list[str]] = {}
    for name, short in found.items():
        alike.setdefault(short, []).append(name)
    for several in alike.values():
        if len(several) > 1 and (shared := commonprefix(several)):  # noqa: RUF071 (of characters)
            left = cut(shared, width // 3, mark)
            ends = told_apart([name[len(shared) :] for name in several], width - len(left), mark)
            found.update((shared + end, left + short) for end, short in ends.items())
    return found


_CONSOLE = Console()
_LEAST = 10
_ITEM = re.compile(r" *\S.*?  +(?=\S)")
"""The first column of a list's line."""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def wrapped(line: str, width: int) -> list[str]:
    """A line folded to a width; later lines begin under its second column, or slightly indented.

    >>> wrapped("  a b   two keys and what they do", 20)
    ['  a b   two keys and', '        what they do']
    """
    indent = _indent(line)
    hanging = _hanging(line)
    if hanging > width // 2:
        hanging = min(indent + 2, width // 2)
    return folded(line, max(_LEAST, width), lead=" " * indent, indent=" " * hanging) or [""]


def folded(text: str, width: int, *, lead: str = "", indent: str = "") -> list[str]:
    """A text in lines of at most a width, broken between words, or within a word that is too wide.

    Args:
        text: words.
        width: cells.
        lead: start of the first line.
        indent: start of the others.

    >>> folded("方法 很长的名字 dfa", 8)
    ['方法', '很长的名', '字 dfa']
    """
    whole = lead + text.strip()
    first = Text(whole).wrap(_CONSOLE, width)[0].plain.rstrip()
    rest = Text(whole[len(first) :].strip())
    lines = [first]
    for line in rest.wrap(_CONSOLE, width - width_of(indent)):
        lines.append(indent + line.plain.rstrip())
    return [line for line in lines if line.strip()]


def _hanging(line: str) -> int:
    """Start of the second column; slightly right of the indent without one; 0 in a paragraph.

    >>> wrapped("- one point of several", 14)
    ['- one point of', '  several']
    """
    if line.startswith("- "):
        return 2
    if not line.startswith(" "):
        return 0
    item = _ITEM.match(line)
    if item:
        return item.end()
    return _indent(line) + 2


def short_paths(paths: Sequence[str | Path], width: int = 60) -> str:
    """Paths in one line, from the current folder or home: as many as fit, and the number of the
    others; a single one is cut at its start.

    >>> short_paths(["runs", "more/audits.json", "third"], 24)
    'runs and 2 more'
    >>> short_paths(["/data/experiments/2025/autumn/ablations/dfa_s42"], 20)
    '…n/ablations/dfa_s42'
    """
    names, line = [_from_here(str(path)) for path in paths], ""
    for count in range(len(names), 0, -1):
        line = listed(names, count)
        if width_of(line) <= width:
            break
    return cut_start(line, width, "…")


def briefly(problem: Problem) -> str:
    """A problem's message with the file's name instead of its path, to fit in one line.

    >>> briefly(Problem("/home/me/.config/fa-tui/settings.toml",
    ...     "/home/me/.config/fa-tui/settings.toml: no TOML"))
    'settings.toml: no TOML'
    """
    return problem.message.replace(problem.path, Path(problem.path).name, 1)


def _from_here(path: str) -> str:
    """The path relative to the current folder, or to home as ``~``, if it lies there."""
    at = Path(path)
    if not at.is_absolute():
        return path
    with contextlib.suppress(ValueError, OSError):
        return str(at.relative_to(Path.cwd()))
    with contextlib.suppress(ValueError, RuntimeError):
        return str("~" / at.relative_to(Path.home()))
    return path


class Fitted(NamedTuple):
    """The columns that fit.

    Attributes:
        name: cells of the first column, which names the line.
        shown: indices of the other columns that are shown, rising.
    """

    name: int
    shown: list[int]


def fitted(
    name: int,
    widths: Sequence[int],
    room: int,
    *,
    least: int = 0,
    order: Sequence[int] | None = None,
) -> Fitted:
    """Fit columns beside a name.

    A column is shown if all that are more important are, and it fits beside the shortest name. What
    is left belongs to the name.

    Args:
        name: cells of the whole name.
        widths: of the other columns, their gaps included.
        room: cells for all of them.
        least: the name is not shortened below this; 0: never shortened.
        order: the columns, the most important first; by default from the left.

    >>> fitted(10, [12, 12, 5], 30), fitted(10, [12, 12, 5], 30, least=6)
    (Fitted(name=10, shown=[0]), Fitted(name=6, shown=[0, 1]))
    >>> fitted(10, [12, 12, 5], 30, order=[2, 1, 0])
    Fitted(name=10, shown=[1, 2])
    """
    shortest = min(name, least or name)
    left = room - shortest
    shown = []
    for column in range(len(widths)) if order is None else order:
        left -= widths[column]
        if left < 0:
            break
        shown.append(column)
    taken = sum(widths[column] for column in shown)
    return Fitted(max(shortest, min(name, room - taken)), sorted(shown))
