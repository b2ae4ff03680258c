"""The track of a slider: from where to where it goes, and in which steps.

How a threshold slider looks: pure drawing of its one or two rows.

    a growth per block        ▂ ▂▂                         ▂ ▂▄▂ ▂          > 50
      fires above        ─────────────◇━━━━━━━●━━━╍╍╍╍╍╍╍╍╍╌╌╌╌╌╌╌╌╌        ━ 11…694

Heavy = the plateau, on which no run's letters change; dashed = the side on which a run fires; bars = runs.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass

from fa_core.reporting.numbers import exact, short
from fa_tui.terminal.glyphs import Glyphs
from fa_tui.views.scale import Scale
from fa_tui.widgets.ladder import R1, R3, R10, R20, Ladder
from fa_tui.widgets.painted import Row

_WIDE_DECADES = 6
"""A log track longer than this steps in coarser rungs."""


@dataclass(frozen=True)
class Track:
    """A scale with the values that a step and a stride stop at.

    >>> Track.of(1.0, 1e4, log=True).moved(50.0, 1), Track.of(-1.0, 1.0, unit=0.01).moved(0.3, -1, stride=True)
    (56.0, 0.2)
    """

    scale: Scale
    steps: Ladder
    strides: Ladder

    @classmethod
    def of(cls, lo: float, hi: float, *, log: bool = False, unit: float = 0.01) -> Track:
        """A track from `lo` to `hi`; a step on a linear one is `unit`, a stride ten of them."""
        scale = Scale(lo, hi, log)
        if not log:
            return cls(scale, Ladder(unit=unit), Ladder(unit=10 * unit))
        wide = scale.decades > _WIDE_DECADES
        return cls(scale, Ladder(mantissas=R10 if wide else R20), Ladder(mantissas=R1 if wide else R3))

    def moved(self, value: float, direction: int, *, stride: bool = False) -> float:
        """One step or stride up (+1) or down (−1), as far as the track goes.

        A value typed beyond the track comes back at the track's end, and goes no further out.
        """
        if self.scale.contains(value):
            target = (self.strides if stride else self.steps).next(value, upward=direction > 0)
            return min(self.scale.hi, max(self.scale.lo, target))
        if (direction > 0) == (value < self.scale.lo):
            return self.scale.lo if direction > 0 else self.scale.hi
        return value


TRACK_LEGEND = """\
Bars are runs at their measured value. The track is dashed on the side where runs fire and heavy where
moving the knob changes no run's letters; ◇ is the default. ‹ › are runs beyond the track, ∞ those not finite."""

PARTS = (
    "label", "letter", "focus", "hint", "value", "entry", "error", "track", "plateau", "default", "knob", "knob-focus",
    "passes", "fires",
)  # fmt: skip
"""What is painted in a style of its own: the component class ``slider--`` and this."""

_WIDE = 100
"""From this width on the ends of the scale are written beside the track."""


@dataclass(frozen=True)
class Rug:
    """Where the runs lie on a track of `cells` cells: how many in each cell, beyond its ends, and non-finite."""

    cells: int
    counts: dict[int, int]
    below: int
    above: int
    nonfinite: int

    @classmethod
    def of(cls, ticks: Sequence[float], nonfinite: int, scale: Scale, cells: int) -> Rug:
        """Count the values per cell: a search per cell, so that 100,000 runs cost what 15 do.

        Args:
            ticks: the finite values, sorted.
            nonfinite: how many others there are.
            scale: the track.
            cells: its length.
        """
        start = below = bisect.bisect_left(ticks, scale.lo)
        end = bisect.bisect_right(ticks, scale.hi)
        counts: dict[int, int] = {}
        for cell in range(cells):
            edge = scale.value((cell + 0.5) / (cells - 1)) if cell < cells - 1 else scale.hi
            stop = bisect.bisect_right(ticks, edge, start, end)
            if stop > start:
                counts[cell] = stop - start
            start = stop
        return cls(cells, counts, below, len(ticks) - end, nonfinite)


@dataclass(frozen=True)
class Face:
    """Everything a slider shows.

    Attributes:
        letter: the diagnostic.
        label: what it measures.
        above: whether runs above the value fire.
        scale: the track.
        value: the threshold.
        default: its default.
        unit: shown after the value.
        rug: where the runs lie.
        plateau: the interval of values with the same letters for every run, if there are runs.
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
    label, value = (25, 27) if width >= _WIDE else (22, 17) if width >= 70 else (4, 12)
    return label, max(4, width - label - value), value


def draw_face(face: Face, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The rows of a slider: rug and track in two rows, or both in one."""
    label_width, cells, value_width = widths(width)
    label, value = _label(face, label_width, glyphs), _value(face, value_width, glyphs)
    refused: Row = [(glyphs.say(face.error)[:cells].ljust(cells), "slider--error")] if face.error else []
    if height < 2:
        return [[*label, *(refused or _track(face, glyphs, ticks=True)), *value]]
    return [
        [*label, *(refused or _rug(face, glyphs)), *value],
        [
            *_under_label(face, label_width, width >= _WIDE),
            *_track(face, glyphs, ticks=False),
            *_plateau(face, value_width, width >= _WIDE, glyphs),
        ],
    ]


def _label(face: Face, width: int, glyphs: Glyphs) -> Row:
    focused = "slider--focus" if face.focused else ""
    text = glyphs.say(face.label)[: width - 4].ljust(width - 4)
    return [(f" {face.letter} ", focused or "slider--letter"), (text, focused or "slider--label"), (" ", "")]


def _under_label(face: Face, width: int, ends: bool) -> Row:
    side = "fires above" if face.above else "fires below"
    low = f"{short(face.scale.lo)} " if ends else ""
    room = width - len(low) - 3
    # a part of it would look like a mark on the track
    return [("   ", ""), (f"{side if len(side) < room else '':{room}}{low}", "slider--hint")]


def _value(face: Face, width: int, glyphs: Glyphs) -> Row:
    sign: tuple[str, str] = ("  > " if face.above else "  < ", "slider--hint")
    if face.entry is not None:
        # the end of a long entry is where typing happens
        return [sign, (face.entry[-(width - 5) :], "slider--entry"), (glyphs.cursor, "slider--knob")]
    unit = glyphs.say(face.unit)
    room = width - len(unit) - 4
    number = next((text for text in (exact(face.value), short(face.value, 6)) if len(text) <= room), short(face.value))
    return [sign, (number, "slider--value"), (unit, "slider--hint")]


def _plateau(face: Face, width: int, ends: bool, glyphs: Glyphs) -> Row:
    """The upper end of the scale, and the plateau as two numbers."""
    high = f" {short(face.scale.hi)}".ljust(8) if ends else "  "
    row: Row = [(high, "slider--hint")]
    if face.plateau is None:
        return row
    spans = []
    for digits in (3, 4, 5, 6, 2, 1):
        low, top = (short(end, digits) if math.isfinite(end) else "" for end in face.plateau)
        span = f"{low}{glyphs.ellipsis}{top}"
        if len(high) + 2 + len(span) <= width:
            spans.append((low == top, span))
    if not spans:
        return row
    # as few digits as tell the ends apart
    span = next((span for same, span in spans if not same), spans[0][1])
    return [*row, (f"{glyphs.plateau_passing} ", "slider--plateau"), (span, "slider--hint")]


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
