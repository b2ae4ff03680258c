"""Text in cells: characters, cutting, padding, wrapping, short paths. Pure.

There is one Unicode set of characters and one ASCII set, with the same meaning in both. No meaning
hangs on colour alone, so each state has its own character. A Chinese character takes two cells, an
accent that follows its letter none.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec.structs import asdict
from rich.cells import cell_len, chop_cells, get_character_cell_size
from rich.console import Console
from rich.text import Text

from fa_core.errors import printable
from fa_core.rows import Problem

_TO_ASCII = str.maketrans(
    {
        "‖": "|", "Γ": "G", "ρ": "rho", "λ": "lam", "γ": "gain", "×": "x", "·": ".", "…": "..",
        "–": "-", "—": "-", "−": "-", "→": "->", "←": "<-", "↑": "^", "↓": "v", "≤": "<=",
        "≥": ">=", "±": "+-", "∞": "inf", "✓": "+", "✗": "!", "∂": "d", "ε": "eps", "ℓ": "l",
        "₂": "2", "“": '"', "”": '"', "’": "'", "α": "alpha", "⟨": "<", "⟩": ">", "≈": "~=",
        "≠": "!=", "▲": "^", "●": "O", "◆": "@", "◇": "|", "†": "x", "◂": "<", "◦": ":", "▫": "o",
        "▸": ">", "•": "*", "‹": "<", "›": ">", "÷": "/", "┴": "+", "─": "-", "╌": ".", "━": "=",
        "╍": ":", "╸": "-", "│": "|", "┊": ":", "▏": "_", "░": ":",
        **dict(zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True)),
    }
)  # fmt: skip


class Glyphs(msgspec.Struct, frozen=True):
    """One set of characters. Each is one cell wide unless it says otherwise.

    Attributes:
        name: ``"unicode"`` or ``"ascii"``.
        passes: a trustworthy run.
        fires: a run that needs walk-back.
        control: a run that claims nothing.
        unmeasured: in place of a diagnostic's letter.
        undecided: in place of a diagnostic's letter, and on a track where a run's interval lies.
        unknown: a run with nothing measured.
        differs: a recorded verdict that differs from the recomputed one (may be two cells).
        marked: a run marked by the user.
        gone: a run whose file or folder is no longer there.
        ended: a run whose training or measurement failed, was stopped, or died.
        flipped: a run whose letters changed with the last step.
        queued, running: a run that is to be measured, that is being measured.
        agrees, deviates: a run that was measured again, with the recorded numbers or others.
        grows: the block in which growth happens.
        knob: a slider's value.
        knob_home: the value when it is the default.
        default: where the default is.
        tick: a run on a track of one row.
        off_left, off_right: runs beyond the track's ends.
        passing, firing: the track on the side of values that pass, that fire.
        plateau_passing, plateau_firing: the same inside the plateau of unchanged verdicts.
        bars: eight levels, low to high.
        nonfinite: NaN or ±inf in a sparkline.
        zero: zero on a log scale.
        rule: horizontal line.
        divider: vertical line.
        cursor: where typing goes.
        arrow: from → to (may be two cells).
        ellipsis: text was cut here (may be two cells).
        braille: whether 2×4 dots per cell can be drawn.
    """

    name: str = "unicode"
    passes: str = "✓"
    fires: str = "✗"
    control: str = "▫"
    unmeasured: str = "·"
    undecided: str = "~"
    unknown: str = "?"
    differs: str = "≠"
    marked: str = "•"
    gone: str = "†"
    ended: str = "!"
    flipped: str = "◂"
    queued: str = "◦"
    running: str = "▸"
    agrees: str = "="
    deviates: str = "≠"
    grows: str = "▲"
    knob: str = "●"
    knob_home: str = "◆"
    default: str = "◇"
    tick: str = "┴"
    off_left: str = "‹"
    off_right: str = "›"
    passing: str = "─"
    firing: str = "╌"
    plateau_passing: str = "━"
    plateau_firing: str = "╍"
    bars: str = "▁▂▃▄▅▆▇█"
    nonfinite: str = "∞"
    zero: str = "0"
    rule: str = "─"
    divider: str = "│"
    cursor: str = "▏"
    arrow: str = "→"
    ellipsis: str = "…"
    braille: bool = True

    def say(self, text: str) -> str:
        r"""Words in this set's alphabet: as they are in Unicode, transliterated in ASCII.

        What is no character to look at is spelled out in both: line breaks and tabs in a name, but
        also the joiners of an emoji and marks of direction, which make no two terminals agree on
        how wide it is.

        >>> ASCII.say("‖g_L‖ 2× ✗"), UNICODE.say("dfa\x1b[2J")
        ('|g_L| 2x !', 'dfa\\x1b[2J')
        """
        # whether a sign with a variation selector is wider than without it is not agreed on, either
        if not text.isprintable():
            text = printable(text)
        text = text.replace("\ufe0f", "")
        if self.name == "unicode":
            return text
        return text.translate(_TO_ASCII).encode("ascii", "replace").decode("ascii")

    def bar(self, fraction: float) -> str:
        """The bar for a height in [0, 1]; the lowest is still visible."""
        return self.bars[min(len(self.bars) - 1, max(0, int(fraction * len(self.bars))))]


UNICODE = Glyphs()
_ASCII_GLYPHS = {
    name: sign.translate(_TO_ASCII)
    for name, sign in asdict(UNICODE).items()
    if isinstance(sign, str)
}
ASCII = Glyphs(
    **_ASCII_GLYPHS | {"name": "ascii", "deviates": "#", "nonfinite": "!"}, braille=False
)
"""The Unicode set as `say` spells it, but for two signs of one cell that another one has
already."""


def width_of(text: str) -> int:
    r"""How many cells a text takes.

    >>> width_of("dfa"), width_of("方法"), width_of("e\u0301p")
    (3, 4, 2)
    """
    if text.isascii():
        return len(text)
    return cell_len(text)


def padded(text: str, width: int) -> str:
    """The text with blanks behind it up to a width; one that is wider stays as it is.

    >>> padded("dfa", 5), padded("方法", 5)
    ('dfa  ', '方法 ')
    """
    return text + " " * (width - width_of(text))


def padded_left(text: str, width: int) -> str:
    """The text with blanks before it up to a width.

    >>> padded_left("dfa", 5), padded_left("方法", 5)
    ('  dfa', ' 方法')
    """
    return " " * (width - width_of(text)) + text


def cut(text: str, width: int, mark: str = "") -> str:
    """The text; of one that is wider its beginning and a mark. No character is halved: it may be a
    cell short.

    >>> cut("credit_bridge", 8, "…"), cut("方法很长", 6, "…"), cut("方法", 4, "…")
    ('credit_…', '方法…', '方法')
    """
    if width_of(text) <= width:
        return text
    mark = mark[: max(0, width)]
    room = width - width_of(mark)
    if room <= 0:
        return mark
    return chop_cells(text, room)[0] + mark


def cut_start(text: str, width: int, mark: str = "") -> str:
    r"""The text; of one that is wider a mark and its end.

    >>> cut_start("runs/2025/dfa", 8, "…"), cut_start("方法很长", 6, "…")
    ('…025/dfa', '…很长')
    >>> cut_start("abe\u0301p", 2)
    'e\u0301p'
    """
    if width_of(text) <= width:
        return text
    mark = mark[: max(0, width)]
    room = max(0, width - width_of(mark))
    start = max(0, len(text) - 8 * room)
    # an accent without its letter is no letter
    while width_of(text[start:]) > room or (
        start < len(text) and not get_character_cell_size(text[start])
    ):
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


_CONSOLE = Console()
_LEAST = 10
_ITEM = re.compile(r" *\S.*?  +(?=\S)")
"""The part of a list's line before its second column."""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def wrapped(line: str, width: int) -> list[str]:
    """A line in pieces of at most a width; what goes on begins under the second column, or a little
    to the right.

    >>> wrapped("  a b   two keys and what they do", 20)
    ['  a b   two keys and', '        what they do']
    """
    indent = _indent(line)
    hanging = _hanging(line)
    if hanging > width // 2:
        hanging = min(indent + 2, width // 2)
    return folded(line, max(_LEAST, width), lead=" " * indent, indent=" " * hanging) or [""]


def folded(text: str, width: int, *, lead: str = "", indent: str = "") -> list[str]:
    """A text in lines of at most a width, broken between words, and within a word that is wider
    than a line.

    Args:
        text: words.
        width: cells.
        lead: put before the first line.
        indent: put before the others.

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
    """Where the second column begins; a little right of the indent where there is none; 0 in a
    paragraph.

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


_LEAST_METHOD = 6


def abbreviated(labels: Sequence[str], width: int, ellipsis: str = "…") -> list[str]:
    """Labels such as ``dfa arch=vit d=128 λ=0.001`` in at most `width` cells, all shortened in the
    same way.

    First the method's end goes, and only then the middle of a label: an axis is spelled as
    everywhere.

    >>> abbreviated(["bp arch=vit λ=0.01", "credit_bridge arch=vit λ=0.01"], 25)
    ['bp arch=vit λ=0.01', 'credit_b… arch=vit λ=0.01']
    """
    return [_with_short_method(label, width, ellipsis) for label in labels]


def lengths(labels: Sequence[str]) -> list[int]:
    """The longest label as it is, and with its method cut.

    >>> lengths(["credit_bridge arch=vit λ=0.01"])
    [29, 22]
    """
    longest = max(map(width_of, labels), default=0)
    return [longest, max(map(_least_width, labels), default=0)]


def _least_width(label: str) -> int:
    method, _, axes = label.partition(" ")
    if axes:
        return width_of(label) - max(0, width_of(method) - _LEAST_METHOD)
    return width_of(label)


def _with_short_method(label: str, width: int, ellipsis: str) -> str:
    """The method's end gives way to the axes; a label that is too long even so loses its middle."""
    if width_of(label) <= width:
        return label
    method, blank, axes = label.partition(" ")
    room = width - width_of(blank + axes)
    if axes and room >= _LEAST_METHOD:
        return f"{cut(method, room, ellipsis)}{blank}{axes}"
    return cut_middle(label, width, ellipsis)


def short_path(path: str | Path, width: int = 60, ellipsis: str = "…") -> str:
    """A path from the current folder or from home where it lies in one; of a long one its end.

    Args:
        path: absolute or not.
        width: cells that it may take.
        ellipsis: for what is left out.

    >>> short_path("/data/experiments/2025/autumn/ablations/dfa_s42", 20)
    '…n/ablations/dfa_s42'
    """
    return cut_start(_from_here(str(path)), max(width, width_of(ellipsis) + 1), ellipsis)


def short_paths(paths: Sequence[Path], width: int = 60, ellipsis: str = "…") -> str:
    """Several paths in one line: as many as fit, and how many more there are.

    >>> short_paths([Path("runs"), Path("more/audits.json"), Path("third")], 24)
    'runs and 2 more'
    """
    if not paths:
        return ""
    for shown in range(len(paths), 1, -1):
        names = [_from_here(str(path)) for path in paths[:shown]]
        line = ", ".join(names) + _more(len(paths) - shown)
        if width_of(line) <= width:
            return line
    more = _more(len(paths) - 1)
    return short_path(paths[0], width - len(more), ellipsis) + more


def briefly(problem: Problem) -> str:
    """What is wrong with a file, its name for its path: in one line the path would leave no room
    for the rest.

    >>> briefly(Problem("/home/me/.config/fa-tui/settings.toml",
    ...     "/home/me/.config/fa-tui/settings.toml: no TOML"))
    'settings.toml: no TOML'
    """
    return problem.message.replace(problem.path, Path(problem.path).name, 1)


def _more(count: int) -> str:
    if count:
        return f" and {count} more"
    return ""


def _from_here(path: str) -> str:
    """Relative to the current folder, or to home as ``~``, as far as there are such folders."""
    at = Path(path)
    if not at.is_absolute():
        return path
    with contextlib.suppress(ValueError, OSError):
        return str(at.relative_to(Path.cwd()))
    with contextlib.suppress(ValueError, RuntimeError):
        return str("~" / at.relative_to(Path.home()))
    return path
