"""How a threshold slider looks: pure drawing of its one or two rows.

    a growth per block        ▂ ▂▂                         ▂ ▂▄▂ ▂          > 50
      fires above        ─────────────◇━━━━━━━●━━━╍╍╍╍╍╍╍╍╍╌╌╌╌╌╌╌╌╌        ━ 11…694

Heavy = the plateau of unchanged verdicts; dashed = the side on which a run fires; bars = runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.numbers import exact, short
from fa_tui.widgets.painted import Row
from fa_tui.widgets.scale import Scale


@dataclass(frozen=True)
class Rug:
    """Where the runs lie on a track of `cells` cells: how many in each cell, beyond its ends, and non-finite."""

    cells: int
    counts: dict[int, int]
    below: int
    above: int
    nonfinite: int

    @classmethod
    def of(cls, ticks: Sequence[float], scale: Scale, cells: int) -> Rug:
        """Count the values per cell."""
        finite = [tick for tick in ticks if math.isfinite(tick)]
        inside = [tick for tick in finite if scale.contains(tick)]
        below = sum(1 for tick in finite if tick < scale.lo)
        return cls(
            cells,
            Counter(scale.cell(tick, cells) for tick in inside),
            below,
            len(finite) - len(inside) - below,
            len(ticks) - len(finite),
        )


@dataclass(frozen=True)
class Face:
    """Everything a slider shows.

    Attributes:
        letter: the diagnostic.
        label: what it measures.
        side: ``"fires above"`` or ``"fires below"``.
        above: whether runs above the value fire.
        scale: the track.
        value: the threshold.
        default: its default.
        unit: shown after the value.
        rug: where the runs lie.
        plateau: the interval of values with the same verdicts, if there are runs.
        entry: what is being typed, or None.
        error: why the last entry was refused.
        focused: whether keys go here.
    """

    letter: str
    label: str
    above: bool
    scale: Scale
    value: float
    default: float
    unit: str
    rug: Rug
    plateau: tuple[float, float] | None
    entry: str | None
    error: str
    focused: bool


def widths(width: int) -> tuple[int, int, int]:
    """Cells for label, track and value."""
    label, value = (25, 17) if width >= 100 else (18, 14) if width >= 70 else (3, 10)
    return label, max(4, width - label - value), value


def draw_face(face: Face, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The rows of a slider: rug and track in two rows, or both in one."""
    label_width, _, _ = widths(width)
    value = _value_piece(face, glyphs)
    if height < 2:
        middle = _error_piece(face, glyphs) or _track(face, glyphs, ticks=True)
        return [[*_label(face, label_width, face.label, glyphs), *middle, *value]]
    upper = [*_label(face, label_width, face.label, glyphs), *_rug(face, glyphs), *value]
    side = "fires above" if face.above else "fires below"
    middle = _error_piece(face, glyphs) or _track(face, glyphs, ticks=False)
    under: Row = [(f"  {side}".ljust(label_width)[:label_width], "slider--hint")]
    return [upper, [*under, *middle, *_plateau_piece(face, glyphs)]]


def _label(face: Face, width: int, text: str, glyphs: Glyphs) -> Row:
    style = "slider--focus" if face.focused else "slider--label"
    letter = "slider--focus" if face.focused else "slider--letter"
    return [(f" {face.letter} ", letter), (glyphs.say(text)[: width - 4].ljust(width - 4), style), (" ", "")]


def _value_piece(face: Face, glyphs: Glyphs) -> Row:
    sign = ">" if face.above else "<"
    if face.entry is not None:
        return [(f"  {sign} ", "slider--hint"), (face.entry, "slider--entry"), (glyphs.cursor, "slider--knob")]
    number = exact(face.value)
    if len(number) > 9:
        number = short(face.value, 6)
    return [(f"  {sign} ", "slider--hint"), (number, "slider--value"), (glyphs.say(face.unit), "slider--hint")]


def _plateau_piece(face: Face, glyphs: Glyphs) -> Row:
    if face.plateau is None:
        return []
    low, high = face.plateau
    left = short(low) if math.isfinite(low) else ""
    right = short(high) if math.isfinite(high) else ""
    return [(f"  {glyphs.plateau_passing} ", "slider--plateau"), (f"{left}{glyphs.ellipsis}{right}", "slider--hint")]


def _error_piece(face: Face, glyphs: Glyphs) -> Row:
    if not face.error:
        return []
    text = glyphs.say(face.error)
    cells = face.rug.cells
    return [(text[:cells].ljust(cells), "slider--error")]


def _rug(face: Face, glyphs: Glyphs) -> Row:
    knob = face.scale.cell(face.value, face.rug.cells)
    row: Row = []
    for cell in range(face.rug.cells):
        count = face.rug.counts.get(cell, 0)
        beyond = _beyond(face, cell, glyphs)
        if beyond:
            row.append((beyond, _side(face, cell, knob)))
        elif count:
            height = min(len(glyphs.bars) - 1, 1 + round(2 * math.log2(count)))
            row.append((glyphs.bars[height], _side(face, cell, knob)))
        else:
            row.append((" ", ""))
    return _joined(row)


def _beyond(face: Face, cell: int, glyphs: Glyphs) -> str:
    """The mark at an end of the track for runs that lie beyond it, or that are not finite (these always fire)."""
    rug = face.rug
    if cell == 0:
        return glyphs.nonfinite if rug.nonfinite and not face.above else glyphs.off_left if rug.below else ""
    if cell == rug.cells - 1:
        return glyphs.nonfinite if rug.nonfinite and face.above else glyphs.off_right if rug.above else ""
    return ""


def _side(face: Face, cell: int, knob: int) -> str:
    if cell == knob:
        return "slider--knob"
    return "slider--fires" if (cell > knob) == face.above else "slider--passes"


def _track(face: Face, glyphs: Glyphs, ticks: bool) -> Row:
    cells = face.rug.cells
    knob, home = face.scale.cell(face.value, cells), face.scale.cell(face.default, cells)
    low, high = cells, -1
    if face.plateau is not None:
        low, high = (face.scale.cell(end, cells) for end in face.plateau)
    knob_style = "slider--knob-focus" if face.focused else "slider--knob"
    row: Row = []
    for cell in range(cells):
        side = _side(face, cell, knob)
        if cell == knob:
            row.append((glyphs.knob_home if face.value == face.default else glyphs.knob, knob_style))
        elif cell == home:
            row.append((glyphs.default, "slider--default"))
        elif ticks and (face.rug.counts.get(cell) or _beyond(face, cell, glyphs)):
            row.append((_beyond(face, cell, glyphs) or glyphs.tick, side))
        elif low <= cell <= high:
            row.append(
                (glyphs.plateau_firing if side == "slider--fires" else glyphs.plateau_passing, "slider--plateau")
            )
        else:
            row.append((glyphs.firing if side == "slider--fires" else glyphs.passing, "slider--track"))
    return _joined(row)


def _joined(row: Row) -> Row:
    """Neighbours of one style as one piece."""
    joined: Row = []
    for text, style in row:
        if joined and joined[-1][1] == style:
            joined[-1] = (joined[-1][0] + text, style)
        else:
            joined.append((text, style))
    return joined
