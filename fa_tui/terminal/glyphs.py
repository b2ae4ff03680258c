"""The characters everything is drawn with: one Unicode set, one ASCII set, the same meaning in both.

No meaning hangs on colour alone, so each state has its own character.
"""

from __future__ import annotations

import msgspec

from fa_core.errors import printable

_TO_ASCII = str.maketrans(
    {
        "‖": "|", "Γ": "G", "ρ": "rho", "λ": "lam", "γ": "gain", "×": "x", "·": ".", "…": "..", "–": "-", "—": "-",
        "−": "-", "→": "->", "←": "<-", "↑": "^", "↓": "v", "≤": "<=", "≥": ">=", "±": "+-", "∞": "inf", "✓": "v",
        "✗": "x", "∂": "d", "ε": "eps", "ℓ": "l", "₂": "2", "“": '"', "”": '"', "’": "'", "α": "alpha", "⟨": "<",
        "⟩": ">", "≈": "~", "≠": "!=", "▲": "^", "◆": "*", "◇": "|", "†": "~", "•": "*", "‹": "<", "›": ">",
    }
)  # fmt: skip


class Glyphs(msgspec.Struct, frozen=True):
    """One set of characters. Each is one cell wide unless it says otherwise.

    Attributes:
        name: ``"unicode"`` or ``"ascii"``.
        passes: a trustworthy run.
        fires: a run that needs walk-back.
        unmeasured: in place of a diagnostic's letter.
        unknown: a run with nothing measured.
        differs: a recorded verdict that differs from the recomputed one.
        marked: a run marked by the user.
        gone: a run whose file or folder is no longer there.
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

    name: str
    passes: str
    fires: str
    unmeasured: str
    unknown: str
    differs: str
    marked: str
    gone: str
    grows: str
    knob: str
    knob_home: str
    default: str
    tick: str
    off_left: str
    off_right: str
    passing: str
    firing: str
    plateau_passing: str
    plateau_firing: str
    bars: str
    nonfinite: str
    zero: str
    rule: str
    divider: str
    cursor: str
    arrow: str
    ellipsis: str
    braille: bool

    def say(self, text: str) -> str:
        r"""Words in this set's alphabet: as they are in Unicode, transliterated in ASCII.

        What is no character to look at is spelled out in both: line breaks and tabs in a name, but also the
        joiners of an emoji and marks of direction, which make no two terminals agree on how wide it is.

        >>> ASCII.say("‖g_L‖ 2× ✗"), UNICODE.say("dfa\x1b[2J")
        ('|g_L| 2x x', 'dfa\\x1b[2J')
        """
        # whether a sign with a variation selector is wider than without it is not agreed on, either
        text = (text if text.isprintable() else printable(text)).replace("\ufe0f", "")
        if self.name == "unicode":
            return text
        return text.translate(_TO_ASCII).encode("ascii", "replace").decode("ascii")

    def bar(self, fraction: float) -> str:
        """The bar for a height in [0, 1]; the lowest is still visible."""
        return self.bars[min(len(self.bars) - 1, max(0, int(fraction * len(self.bars))))]


UNICODE = Glyphs(
    name="unicode", passes="✓", fires="✗", unmeasured="·", unknown="?", differs="≠", marked="•", gone="†", grows="▲",
    knob="●", knob_home="◆", default="◇", tick="┴", off_left="‹", off_right="›", passing="─", firing="╌",
    plateau_passing="━", plateau_firing="╍", bars="▁▂▃▄▅▆▇█", nonfinite="∞", zero="0", rule="─", divider="│",
    cursor="▏", arrow="→", ellipsis="…", braille=True,
)  # fmt: skip

ASCII = Glyphs(
    name="ascii", passes="v", fires="x", unmeasured=".", unknown="?", differs="!", marked="*", gone="~", grows="^",
    knob="O", knob_home="@", default="|", tick="+", off_left="<", off_right=">", passing="-", firing=".",
    plateau_passing="=", plateau_firing=":", bars="_.:-=+*#", nonfinite="!", zero="0", rule="-", divider="|",
    cursor="_", arrow="->", ellipsis="..", braille=False,
)  # fmt: skip
