"""The characters that are drawn: a Unicode set and an ASCII set with the same meanings.

No meaning hangs on colour alone, so each state has its own character.
"""

from __future__ import annotations

from string import ascii_uppercase

import msgspec
from msgspec.structs import asdict

from fa_core.sanitize import sanitize

_ONE_FOR_ONE = str.maketrans(
    "‖Γ×·–—−↑↓✓✗∂ℓ₂“”’⟨⟩▲●◆◇†◂◦▫▸•‹›÷┴└─╌━╍╸│┊▏░▁▂▃▄▅▆▇█",
    '|Gx.---^v+!dl2""\'<>^O@|x<:o>*<>/++-.=:-|:_:_.:-=+*#',
)
_LONGER = str.maketrans(
    {
        "γ": "gain",
        "ρ": "rho",
        "λ": "lam",
        "…": "..",
        "→": "->",
        "←": "<-",
        "≤": "<=",
        "≥": ">=",
        "±": "+-",
        "∞": "inf",
        "ε": "eps",
        "α": "alpha",
        "≈": "~=",
        "≠": "!=",
    }
)
_TO_ASCII: dict[int, int | str] = {**_ONE_FOR_ONE, **_LONGER}


class Glyphs(msgspec.Struct, frozen=True):
    """One set of characters. Each is one cell wide unless noted.

    Attributes:
        unicode: whether every character can be drawn, 2×4 dots per cell too.
        passes: a trustworthy run.
        fires: a run that needs walk-back.
        unmeasured: in place of a diagnostic's letter.
        undecided: in place of a diagnostic's letter, and on a track where a run's interval lies.
        differs: a recorded verdict that differs from the recomputed one (may be two cells).
        marked: a run marked by the user.
        gone: a run whose file or folder is no longer there.
        ended: a run whose training or measurement failed, was stopped, or died.
        flipped: a run of which a diagnostic changed with the last step.
        queued, running: a run that is to be measured, that is being measured.
        agrees, deviates, unknown: a run that was measured again, with the recorded numbers or
            others, or where some were not checked.
        grows: the block in which growth happens.
        knob: a slider's value.
        knob_home: the value when it is the default.
        default: where the default is.
        tick: a run on a track of one row.
        off_left, off_right: runs beyond the track's ends.
        passing, firing: the track on the side of values that pass, that fire.
        plateau: the part of the track on which no diagnostic changes.
        bars: eight levels, low to high.
        nonfinite: NaN or ±inf in a sparkline.
        rule: horizontal line.
        divider: vertical line.
        cursor: where typing goes.
        arrow: from → to (may be two cells).
        ellipsis: text was cut here (may be two cells).
        seeds: marks of seeds, in order.
    """

    unicode: bool = True
    passes: str = "✓"
    fires: str = "✗"
    unmeasured: str = "·"
    undecided: str = "~"
    differs: str = "≠"
    marked: str = "•"
    gone: str = "†"
    ended: str = "!"
    flipped: str = "◂"
    queued: str = "◦"
    running: str = "▸"
    agrees: str = "="
    deviates: str = "≠"
    unknown: str = "?"
    grows: str = "▲"
    knob: str = "●"
    knob_home: str = "◆"
    default: str = "◇"
    tick: str = "┴"
    off_left: str = "‹"
    off_right: str = "›"
    passing: str = "─"
    firing: str = "╌"
    plateau: str = "━"
    bars: str = "▁▂▃▄▅▆▇█"
    nonfinite: str = "∞"
    rule: str = "─"
    divider: str = "│"
    cursor: str = "▏"
    arrow: str = "→"
    ellipsis: str = "…"
    seeds: str = "○□△▽◇☆GHIJKLMNOPQRSTUVWXYZ"

    def say(self, text: str) -> str:
        r"""A text in this set's alphabet: unchanged in Unicode, transliterated in ASCII.

        Unprintable characters are escaped in both: line breaks, tabs, joiners of emoji, marks of
        direction. Terminals disagree on their widths.

        >>> ASCII.say("‖g_L‖ 2× ✗"), UNICODE.say("dfa\x1b[2J")
        ('|g_L| 2x !', 'dfa\\x1b[2J')
        """
        if not text.isprintable():
            text = sanitize(text)
        # terminals disagree on the width of a sign with a variation selector, too
        text = text.replace("\ufe0f", "")
        if self.unicode:
            return text
        return text.translate(_TO_ASCII).encode("ascii", "replace").decode("ascii")

    def bar(self, fraction: float) -> str:
        """The bar for a height in [0, 1]; the lowest is still visible."""
        levels = len(self.bars)
        level = max(0, int(fraction * levels))
        return self.bars[min(levels - 1, level)]


UNICODE = Glyphs()


def _ascii() -> Glyphs:
    """The Unicode set transliterated, except for two signs that would repeat others."""
    signs = asdict(UNICODE)
    signs.pop("unicode")
    for name, sign in signs.items():
        signs[name] = sign.translate(_TO_ASCII)
    return Glyphs(
        **signs | {"deviates": "#", "nonfinite": "!", "seeds": ascii_uppercase},
        unicode=False,
    )


ASCII = _ascii()
