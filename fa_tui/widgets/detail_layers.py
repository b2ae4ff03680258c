"""A row of bars on a given scale, so that several panes can share one.

The layers of the run in the detail pane: ‖h_l‖ and ‖g_l‖ as curves, numbers and bars.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fa_core.report import NORM_RATIO_EPS, DiagnosticReport
from fa_core.reporting.numbers import short
from fa_tui.terminal.glyphs import UNICODE, Glyphs
from fa_tui.views.scale import Scale, covering
from fa_tui.widgets.painted import PaintedWidget, Row

_BRAILLE = 0x2800
_LEFT = (0x40, 0x44, 0x46, 0x47)
_RIGHT = (0x80, 0xA0, 0xB0, 0xB8)
"""Dots of a braille cell's columns filled to heights 1..4."""


def sparkline(values: Sequence[float | None], scale: Scale, glyphs: Glyphs = UNICODE, width: int = 0) -> str:
    """One character per value (or, in fewer cells, the largest of each group).

    Values below the scale show the lowest bar, above it the highest; NaN and ±inf show the glyph for
    non-finite, zeros on a log scale that for zero, None a blank.

    Args:
        values: in order.
        scale: shared by every sparkline that is to be compared.
        glyphs: characters to draw with.
        width: at most this many cells; 0 = one per value.

    >>> sparkline([1.0, 10.0, 1000.0, float("nan"), 0.0], Scale(1.0, 1000.0, log=True))
    '▁▃█∞0'
    """
    return "".join(_bar(value, scale, glyphs) for value in _grouped(values, width))


def braille_sparkline(values: Sequence[float | None], scale: Scale) -> str:
    """Two values per character, four heights each; what is not finite or not there is a gap.

    >>> braille_sparkline([0.0, 0.3, 0.6, 1.0], Scale(0.0, 1.0))
    '⣠⣾'
    """
    cells = []
    for index in range(0, len(values), 2):
        pair = [*values[index : index + 2], None][:2]
        dots = _BRAILLE
        for value, heights in zip(pair, (_LEFT, _RIGHT), strict=True):
            if value is not None and math.isfinite(value):
                dots |= heights[min(3, int(scale.fraction(value) * 4))]
        cells.append(chr(dots))
    return "".join(cells)


class Sparkline(PaintedWidget):
    """A `sparkline` as a widget of one line.

    Args:
        values: in order.
        scale: shared by every sparkline that is to be compared.
        glyphs: characters to draw with.
        braille: two values per cell, where the glyphs allow it.
    """

    DEFAULT_CSS = """
    Sparkline {
        height: 1;
        & > .sparkline--bars { color: $accent; }
    }
    """
    COMPONENT_CLASSES = {"sparkline--bars"}

    help_text = (
        "Bars on a scale shared with the sparklines beside it. ∞ marks NaN or an infinity, 0 a zero on a log scale."
    )

    def __init__(
        self,
        values: Sequence[float | None] = (),
        scale: Scale = Scale(0.0, 1.0),  # noqa: B008 (immutable)
        *,
        glyphs: Glyphs = UNICODE,
        braille: bool = False,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._values, self._scale = values, scale
        self._glyphs = glyphs
        self._braille = braille and glyphs.braille

    def set_values(self, values: Sequence[float | None], scale: Scale) -> None:
        """Show other values."""
        self._values, self._scale = values, scale
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        if self._braille:
            text = braille_sparkline(_grouped(self._values, 2 * width), self._scale)
        else:
            text = sparkline(self._values, self._scale, self._glyphs, width)
        return [[(text, "sparkline--bars")]]


def _grouped(values: Sequence[float | None], width: int) -> Sequence[float | None]:
    """At most `width` values: each the largest of its group, so that no peak is lost; a non-finite one wins."""
    if not width or len(values) <= width:
        return values
    bounds = [len(values) * cell // width for cell in range(width + 1)]
    return [_peak(values[start:end]) for start, end in itertools.pairwise(bounds)]


def _peak(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    strange = [value for value in present if not math.isfinite(value)]
    return strange[0] if strange else max(present, default=None)


def _bar(value: float | None, scale: Scale, glyphs: Glyphs) -> str:
    if value is None:
        return " "
    if not math.isfinite(value):
        return glyphs.nonfinite
    if scale.log and value == 0:
        return glyphs.zero
    return glyphs.bar(scale.fraction(value))


_SPARK_CELLS = 24
_COLUMN = 7
_LAYER, _NUMBER, _GROWTH = 4, 9, 10
_MARK = 2
_LONGEST_BAR = 10
_CREDIT = (("Γ", "gamma"), ("ρ", "rho"))


def growths(norms: Sequence[float]) -> list[float]:
    """‖h_{l+1}‖/‖h_l‖ for l = 0..L-1; NaN where a norm is not finite.

    >>> growths([1.0, 2.0, 8.0])
    [2.0, 4.0]
    """
    return [
        after / max(before, NORM_RATIO_EPS) if math.isfinite(before) and math.isfinite(after) else math.nan
        for before, after in itertools.pairwise(norms)
    ]


def peak_block(norms: Sequence[float]) -> int | None:
    """The block that grows most: the first one that ends in a norm that is not finite, else the largest ratio above 1.

    >>> peak_block([1.0, 2.0, 8.0]), peak_block([1.0, 9.0, float("inf"), float("nan")]), peak_block([2.0, 1.0])
    (1, 1, None)
    """
    lost = next((layer for layer, norm in enumerate(norms) if not math.isfinite(norm)), None)
    if lost is not None:
        return lost - 1 if lost else None
    blocks = growths(norms)
    largest = max(range(len(blocks)), key=blocks.__getitem__, default=None)
    return largest if largest is not None and blocks[largest] > 1 else None


def peak_words(norms: Sequence[float]) -> str:
    """Where the growth happens: ``in block 0→1``."""
    block = peak_block(norms)
    return "" if block is None else f"in block {block}→{block + 1}"


def sparkline_rows(report: DiagnosticReport, width: int, glyphs: Glyphs) -> list[Row]:
    """‖h_l‖ and ‖g_l‖ over the layers as one line each, on log scales."""
    lines = []
    for name, values in (("‖h‖", report.residual_norms), ("‖g‖", report.bp_grad_norms)):
        scale = covering(values, log=True)
        if not values or scale is None:
            continue
        each = max(1, min(_SPARK_CELLS, width - 24) // len(values))
        bars = sparkline(values, scale, glyphs, max(1, min(_SPARK_CELLS, width - 24)))
        wide = "".join(character * each for character in bars)
        ends = f"{short(values[0])} {glyphs.arrow} {short(values[-1])}"
        lines.append([(f"{glyphs.say(name)} ", "detail--head"), (wide, "detail--bar"), (f" {ends}", "detail--number")])
    return [*lines, []] if lines else []


def layer_rows(report: DiagnosticReport, width: int, glyphs: Glyphs) -> list[Row]:
    """A line per layer: ‖h_l‖, growth of the block below it and ‖g_l‖ as numbers and bars, then what fits beside."""
    h, g = report.residual_norms, report.bp_grad_norms
    measured = _beside(report)
    count = max(len(h), len(g), *(len(column) for _, column in measured), 0)
    if not count:
        return []
    peak = peak_block(h)
    # where the growth has no room beside ‖g‖, its peak is marked at ‖h‖
    blocks = growths(h) if width >= _LAYER + _NUMBER + _GROWTH + _NUMBER - 1 else []
    marks = _MARK if peak is not None and not blocks else 0
    numbers = _LAYER + 2 * _NUMBER + marks + (_GROWTH if blocks else 0)
    beside = measured[: max(0, width - numbers) // _COLUMN]
    numbers += _COLUMN * len(beside)
    bar = max(0, min(_LONGEST_BAR, (width - numbers) // 2 - 1))
    h_scale, g_scale = covering(h, log=True), covering(g, log=True)
    growth_head = "growth".ljust(_GROWTH) if blocks else " " * marks
    head = " l  " + "‖h‖".ljust(_NUMBER + bar) + growth_head + "‖g‖".ljust(_NUMBER + bar)
    lines: list[Row] = [[(glyphs.say(head + "".join(name.rjust(_COLUMN) for name, _ in beside)), "detail--head")]]
    for layer in range(count):
        row: Row = [(f"{layer:>2} ".ljust(_LAYER), "detail--dim")]
        row += _number_and_bar(h, layer, h_scale, bar, glyphs)
        if blocks:
            value = blocks[layer - 1] if 0 < layer <= len(blocks) else None
            row += _growth(value, layer - 1 == peak, report.thresholds.h_norm_explosion_ratio, glyphs)
        elif marks:
            row.append(((glyphs.grows if layer - 1 == peak else "").ljust(marks), "detail--grows"))
        row += _number_and_bar(g, layer, g_scale, bar, glyphs)
        row += [
            ((column[layer] if layer < len(column) else "").rjust(_COLUMN), "detail--number") for _, column in beside
        ]
        lines.append(row)
    return [*lines, []]


def _beside(report: DiagnosticReport) -> list[tuple[str, list[str]]]:
    """What stands beside the norms, layer by layer, the most telling first: a heading and the numbers below it."""
    columns = [(name, [signed(value) for value in _credit(report.credit, key)]) for name, key in _CREDIT]
    if report.reference_precision is not None:
        columns.insert(1, ("1−cos", [apart(value) for value in report.reference_precision.cosine]))
    return [(name, column) for name, column in columns if column]


def apart(cosine: float | None) -> str:
    """How far two directions are apart, 1 − cos, which shows what a cosine near 1 hides.

    >>> apart(1 - 3e-9), apart(1.0), apart(None)
    ('3e-9', '0', 'N/A')
    """
    return "N/A" if cosine is None else short(max(0.0, 1 - cosine) if math.isfinite(cosine) else math.nan, 1)


def _number_and_bar(
    values: Sequence[float], layer: int, scale: Scale | None, cells: int, glyphs: Glyphs
) -> list[tuple[str, str]]:
    if layer >= len(values):
        return [(" " * (_NUMBER + cells), "")]
    value = values[layer]
    style = "detail--number" if math.isfinite(value) else "detail--fires"
    bar = ""
    if scale is not None and math.isfinite(value) and value > 0 and cells:
        bar = glyphs.plateau_passing * max(1, round(scale.fraction(value) * (cells - 1)))
    return [(short(value).ljust(_NUMBER), style), (bar.ljust(cells), "detail--bar")]


def _growth(value: float | None, is_peak: bool, limit: float, glyphs: Glyphs) -> list[tuple[str, str]]:
    if value is None:
        return [(" " * _GROWTH, "")]
    mark = f" {glyphs.grows}" if is_peak else ""
    if math.isnan(value):
        return [(f"NaN{mark}".ljust(_GROWTH), "detail--fires")]
    text = f"{glyphs.say('×')}{short(value)}{mark}"
    return [(text.ljust(_GROWTH), "detail--grows" if value > limit else "detail--number")]


def _credit(credit: Mapping[str, Any] | None, key: str) -> list[float | None]:
    """One kind of credit quality per layer; empty where the method's credit was not saved."""
    layers = (credit or {}).get(key)
    return list(layers) if isinstance(layers, (list, tuple)) else []


def signed(value: float | None) -> str:
    """A cosine; undefined ones read N/A, never 0."""
    return "N/A" if value is None or math.isnan(value) else f"{value:+.2f}"
