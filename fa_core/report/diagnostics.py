"""The four diagnostics as data, and the growth that (a) judges.

    (a) residual stream   growth = max_l ‖h_{l+1}‖/‖h_l‖ > h_norm_explosion_ratio
    (b) BP gradient       ‖g_L‖ < g_norm_floor
    (c) drift             cross-batch cosine of the batch-mean gradient > stability_drift_ceiling
    (d) depth utility     100·(headline_acc − frozen_baseline_acc) < frozen_acc_margin_pp

Comparisons are strict. Source: docs/protocol.md §3. Pure Python: no NumPy, no torch.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from fa_core.errors import UsageError
from fa_core.report.numbers import exact, short
from fa_core.report.quantities import JUDGED, Quantity
from fa_core.report.report_facts import PROTOCOL, DiagnosticThresholds

BOUND, PROXY, ASSUMED = "bound", "proxy", "assumed"
"""Kinds of inexact numbers: a lower bound, another layer's, (d) by an assumed baseline."""

NORM_RATIO_EPS = 1e-30
"""Smallest norm of a growth ratio; a layer below it is dead."""


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """A diagnostic as data.

    Attributes:
        letter: ``"a"`` to ``"d"``.
        phrase: its part of the verdict text.
        threshold: its field of `DiagnosticThresholds`.
        bound: name of the threshold next to its value.
        fires_above: True if it fires for value > threshold, False for value < threshold.
        span: minimum range of a slider's track.
        calibration: published numbers for the choice of a threshold (docs/protocol.md §5).
        step: an arrow key's step on a linear track.
    """

    letter: str
    phrase: str
    threshold: str
    bound: str
    fires_above: bool
    span: tuple[float, float]
    calibration: str
    step: float = 0.0

    @property
    def quantity(self) -> Quantity:
        """The number that it judges."""
        return JUDGED[self.letter]

    @property
    def default(self) -> float:
        """The default threshold."""
        return self.limit(PROTOCOL)

    def limit(self, thresholds: DiagnosticThresholds) -> float:
        """Its threshold in a threshold set."""
        value: float = getattr(thresholds, self.threshold)
        return value

    def moved(self, thresholds: DiagnosticThresholds, limit: float) -> DiagnosticThresholds:
        """The threshold set with this one threshold moved."""
        return msgspec.structs.replace(thresholds, **{self.threshold: limit})

    def rule(self, thresholds: DiagnosticThresholds) -> str:
        """The condition under which it fires, e.g. ``"growth per block > 50"``."""
        return f"{self.quantity.words} {self.sign} {exact(self.limit(thresholds))}"

    @property
    def sign(self) -> str:
        """How a number that fires compares with the threshold: ``>`` or ``<``."""
        return ">" if self.fires_above else "<"

    @property
    def always(self) -> float:
        """The value that fires at every threshold, which none can equal: ±inf."""
        return math.inf if self.fires_above else -math.inf

    def beyond(self, value: float, limit: float) -> bool:
        """Whether a value is on the side of a limit that fires; False for NaN."""
        limit = finite(limit)
        if self.fires_above:
            return value > limit
        return value < limit

    def distance(self, low: float, high: float) -> float | None:
        """Distance of two values: their ratio if the number spans decades (None from 0), else their
        difference."""
        if not self.quantity.log:
            return high - low
        if low > 0:
            return high / low
        return None

    def how_far(self, value: float, limit: float, *, fires: bool) -> str:
        """The distance of a finite number to its threshold: ``10× under``; a number on it passes.

        >>> DIAGNOSTICS["a"].how_far(100.29, 100.0, fires=True)
        '1.003× over'
        >>> DIAGNOSTICS["d"].how_far(-17.95, -17.95, fires=False)
        '0 pp above'
        """
        if value > limit or (value == limit and not self.fires_above):
            side = "over" if fires else "above"
        else:
            side = "under" if fires else "below"
        if self.is_factor(value, limit):
            return f"{_factor(max(value / limit, limit / value))}× {side}"
        return f"{short(abs(limit - value))}{self.quantity.suffix} {side}"

    def is_factor(self, value: float, limit: float) -> bool:
        """Whether the distance of a number to its threshold is a factor."""
        return self.quantity.log and value > 0 and limit > 0

    def fires(self, value: float, thresholds: DiagnosticThresholds) -> bool:
        """Whether a number fires; NaN does not (`JudgedRun.nonfinite` does)."""
        return self.beyond(value, self.limit(thresholds))


def finite(limit: float) -> float:
    """The nearest finite number to a threshold, so that ±inf lies beyond every one."""
    return max(-sys.float_info.max, min(limit, sys.float_info.max))


def _factor(ratio: float) -> str:
    """A factor above 1, with as many digits as distinguish it from 1.

    >>> _factor(41.5), _factor(1.0029), _factor(1.0)
    ('41.5', '1.003', '1')
    """
    for digits in range(3, 8):
        text = short(ratio, digits)
        if text != "1":
            return text
    return "1"


def limit_of(quantity: Quantity, thresholds: DiagnosticThresholds) -> float | None:
    """The threshold that judges a number; None if none does."""
    if quantity.letter:
        return DIAGNOSTICS[quantity.letter].limit(thresholds)
    return None


def judged_text(quantity: Quantity, value: float | None, thresholds: DiagnosticThresholds) -> str:
    """A number as text beside a verdict: rounding never moves it onto or across its threshold."""
    return quantity.text(value, limit_of(quantity, thresholds))


_FACTS = msgspec.json.decode(
    Path(__file__).with_suffix(".json").read_bytes(), type=list[Diagnostic]
)
DIAGNOSTICS: dict[str, Diagnostic] = {diagnostic.letter: diagnostic for diagnostic in _FACTS}
"""The diagnostics by letter, in the order of the verdict text, from `diagnostics.json`."""

LETTERS = "".join(DIAGNOSTICS)
"""The letters in the order of the verdict text."""

BIT: Mapping[str, int] = {letter: 1 << position for position, letter in enumerate(LETTERS)}
"""A diagnostic's bit in a mask of several: a=1, b=2, c=4, d=8."""


def mask_of(letters: Iterable[str]) -> int:
    """The bit mask of some diagnostics.

    >>> mask_of("ad")
    9
    """
    return sum(BIT[letter] for letter in letters)


def letters_of(mask: int) -> str:
    """The diagnostics of a bit mask, in order.

    >>> letters_of(11)
    'abd'
    """
    return "".join(letter for letter in LETTERS if mask & BIT[letter])


def diagnostic_letters(text: str, option: str) -> frozenset[str]:
    """The diagnostics in ``"abd"``, ``"a,b,d"`` or ``"A, B, D"``.

    Args:
        text: typed letters.
        option: the option, for the message.

    Raises:
        UsageError: other letters than a, b, c, d.

    >>> sorted(diagnostic_letters("a, B", "--stop-on"))
    ['a', 'b']
    """
    letters = frozenset(text.replace(",", "").replace(" ", "").lower())
    if not letters <= set(LETTERS):
        raise UsageError(
            f"{option} {text!r} is not a list of diagnostics",
            hint="write the letters: abd, or a,b,d",
        )
    return letters


def block_growths(norms: Sequence[float]) -> list[float]:
    """Growth per block: ‖h_{l+1}‖/‖h_l‖, l = 0..L−1, at most the largest float; NaN, undefined,
    next to a norm that is not finite or of a dead layer (below 1e-30).

    >>> block_growths([1.0, 2.0, 8.0, math.inf]), block_growths([1.0, 3.0, 0.0, 2.0])
    ([2.0, 4.0, nan], [3.0, nan, nan])
    """
    growths = []
    for before, after in itertools.pairwise(norms):
        # false for NaN too
        if NORM_RATIO_EPS <= before < math.inf and NORM_RATIO_EPS <= after < math.inf:
            growths.append(min(after / before, sys.float_info.max))
        else:
            growths.append(math.nan)
    return growths


def largest_growth(norms: Sequence[float], bound: float | None = None) -> float | None:
    """(a)'s number: the largest of the `block_growths` that are defined.

    Args:
        norms: ‖h_l‖, l = 0..L.
        bound: a lower bound, for a log with fewer than two norms.

    Returns:
        NaN if any norm is non-finite; None if nothing was measured; 0 if dead layers leave no
        growth defined.

    >>> largest_growth([1.0, 2.0, 8.0]), largest_growth([5.0], bound=3.0), largest_growth([])
    (4.0, 3.0, None)
    >>> largest_growth([1.0, 3.0, 0.0, 2.0]), largest_growth([0.0, 2.0])
    (3.0, 0.0)
    """
    if not all(map(math.isfinite, norms)):
        return math.nan
    if len(norms) < 2:
        return bound
    return max((ratio for ratio in block_growths(norms) if not math.isnan(ratio)), default=0.0)


class StreamScale(NamedTuple):
    """The growth of a stream.

    Attributes:
        block: l of the largest growth ‖h_{l+1}‖/‖h_l‖, the first of several.
        largest: that growth.
        deep: the largest growth over l ≥ 1.
        total: ‖h_L‖/‖h_0‖.
    """

    block: int
    largest: float
    deep: float
    total: float


def stream_scale(norms: Sequence[float]) -> StreamScale | None:
    """Where the stream grows, and how much in all.

    Args:
        norms: ‖h_l‖, l = 0..L.

    Returns:
        None for fewer than two blocks, and where a norm is not finite or below 1e-30.

    Source: docs/protocol.md, *Scale without units*.

    >>> stream_scale([0.01, 5.0, 10.0])
    StreamScale(block=0, largest=500.0, deep=2.0, total=1000.0)
    """
    if len(norms) < 3 or not all(map(math.isfinite, norms)) or min(norms) < NORM_RATIO_EPS:
        return None
    growths = block_growths(norms)
    largest = max(growths)
    total = norms[-1] / norms[0]
    return StreamScale(growths.index(largest), largest, max(growths[1:]), total)
