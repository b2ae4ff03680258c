"""Help texts in lines: options stay whole, examples can be copied."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from typer._click.formatting import HelpFormatter

_HYPHEN = "\ue000"
"""Stands for a hyphen while lines are broken, as they are broken at hyphens too."""

_EXAMPLE = re.compile(r"^( +)(fa-tui .*(?:\n\1.*)*)", re.MULTILINE)
_WORD = re.compile(r"(?:'[^']*'|\"[^\"]*\"|\S)+")
_READABLE = 48
"""Columns that the text beside an option gets at least."""


class Formatter(HelpFormatter):
    """Lays out a help text."""

    def write(self, string: str) -> None:
        super().write(string.replace(_HYPHEN, "-"))

    def write_text(self, text: str) -> None:
        super().write_text(copyable(text, self.width - self.current_indent).replace("-", _HYPHEN))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        whole = [(name, text.replace("-", _HYPHEN)) for name, text in rows]
        super().write_dl(whole, min(col_max, max(self.width - _READABLE, 4)), col_spacing)


def copyable(text: str, width: int) -> str:
    """A help text whose examples are broken between words, with the shell's mark at line ends."""

    def lines(found: re.Match[str]) -> str:
        margin = found[1]
        room = width - len(margin)
        line = " ".join(found[2].split())
        command, mark, comment = line.partition(" # ")
        if len(line) <= room:
            broken = [line]
        elif mark:
            broken = [f"# {comment}", *_lines_of(_WORD.findall(command), room)]
        else:
            broken = [*_lines_of(_WORD.findall(command), room)]
        # the mark that keeps click from breaking a paragraph again
        return "\n".join([f"{margin}\b", *broken])

    return _EXAMPLE.sub(lines, text)


def _lines_of(words: Iterable[str], width: int) -> Iterator[str]:
    """A command in lines; an option stays beside its value."""
    line = ""
    for part in _parts(words):
        if not line:
            line = part
        elif len(line) + len(part) + 3 > width:
            yield f"{line} \\"
            line = f"    {part}"
        else:
            line = f"{line} {part}"
    yield line


def _parts(words: Iterable[str]) -> Iterator[str]:
    """Words, and options together with the word after them."""
    option = ""
    for word in words:
        if word.startswith("-"):
            if option:
                yield option
            option = word
        else:
            yield f"{option} {word}".lstrip()
            option = ""
    if option:
        yield option
