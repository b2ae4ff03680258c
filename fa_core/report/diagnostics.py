"""The four diagnostics as data, the growth that (a) judges, and the verdict that follows.

    (a) residual stream   growth = max_l ‖h_{l+1}‖/‖h_l‖ > h_norm_explosion_ratio
    (b) BP gradient       ‖g_L‖ < g_norm_floor
    (c) drift             cross-batch cosine of the batch-mean gradient > stability_drift_ceiling
    (d) depth utility     100·(headline_acc − frozen_baseline_acc) < frozen_acc_margin_pp

Comparisons are strict. Source: docs/protocol.md §3. Pure Python: no NumPy, no torch.
"""

from __future__ import annotations

import bisect
import itertools
import math
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from fa_core.errors import UsageError
from fa_core.files.decode import table_beside
from fa_core.report.numbers import exact, short
from fa_core.report.provenance import Interval
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
        return value > limit if self.fires_above else value < limit

    def place(self, rising: Sequence[float], limit: float) -> int:
        """How many of some rising numbers lie below a limit; one on it is on the side that
        passes."""
        find = bisect.bisect_right if self.fires_above else bisect.bisect_left
        return find(rising, limit)

    def plateau(self, rising: Sequence[float], limit: float) -> Interval:
        """The rising numbers next to a limit, or ±inf: between them no number changes its side.

        Closed at the low end where it fires above, else at the high one.

        >>> DIAGNOSTICS["a"].plateau([10.96, 694.5, 2000.0], 50.0)
        (10.96, 694.5)
        """
        place = self.place(rising, limit)
        ends = [-math.inf, *rising, math.inf]
        return ends[place], ends[place + 1]

    def distance(self, low: float, high: float) -> float | None:
        """Distance of two values: their ratio if the number spans decades (None from 0), else their
        difference."""
        if not self.quantity.log:
            return high - low
        return high / low if low > 0 else None

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
        if self.quantity.log and value > 0 and limit > 0:
            ratio = max(value / limit, limit / value)
            return f"{_factor(ratio)}× {side}"
        distance = short(abs(limit - value))
        return f"{distance}{self.quantity.suffix} {side}"

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
    return DIAGNOSTICS[quantity.letter].limit(thresholds) if quantity.letter else None


def judged_text(quantity: Quantity, value: float | None, thresholds: DiagnosticThresholds) -> str:
    """A number as text beside a verdict: rounding never moves it onto or across its threshold."""
    return quantity.text(value, limit_of(quantity, thresholds))


DIAGNOSTICS = {each.letter: each for each in table_beside(__file__, list[Diagnostic])}
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


TRUSTWORTHY = "trustworthy"
NOT_MEASURED = "not measured"
WALK_BACK = "needs walk-back: "
WALKS_BACK = "walk-back"
"""Judgement of a run on which a diagnostic fires."""
FIRES, PASSES = "fires", "passes"
UNDECIDED = "undecided"
CONTROL = "control"
"""In place of a control's judgement: it makes no claim."""
MIXED = "MIXED"
"""Judgement of runs that disagree."""


def verdict_text(flags: Iterable[str], coverage: Collection[str]) -> str:
    """The published verdict text.

    Args:
        flags: letters that fire.
        coverage: letters that were measured.

    Returns:
        ``"trustworthy"``, ``"not measured"`` (empty coverage), or ``"needs walk-back: "`` and the
        phrases of the fired letters in the order a, b, c, d, joined by ``"; "``.

    Source: docs/protocol.md §3.

    >>> verdict_text({"b", "a"}, "abc")
    'needs walk-back: residual stream exploded; BP grad at numerical floor'
    """
    fired = set(flags)
    if fired:
        phrases = [one.phrase for one in DIAGNOSTICS.values() if one.letter in fired]
        return WALK_BACK + "; ".join(phrases)
    return TRUSTWORTHY if coverage else NOT_MEASURED


def judgement_of(
    flags: Collection[str] | int,
    coverage: Collection[str] | int,
    undecided: Collection[str] | int,
    no_claim: str = "",
) -> str:
    """A run's judgement, as every surface shows and counts it.

    Args:
        flags: letters that fire, or their mask.
        coverage: those that were measured.
        undecided: those that neither fire nor pass.
        no_claim: what a run is that makes no claim.

    >>> (judgement_of("a", "ab", ""), judgement_of("", "ab", "a"), judgement_of("", "ab", ""),
    ...     judgement_of("a", "ab", "", CONTROL))
    ('walk-back', 'undecided', 'trustworthy', 'control')
    """
    if not coverage:
        return NOT_MEASURED
    if no_claim:
        return no_claim
    if flags:
        return WALKS_BACK
    return UNDECIDED if undecided else TRUSTWORTHY


def common_judgement(judgements: Iterable[str]) -> str:
    """The judgement of several runs: their common one, `MIXED` where some need walk-back and
    others are trustworthy, else undecided.

    >>> [common_judgement([WALKS_BACK, other]) for other in (WALKS_BACK, TRUSTWORTHY, UNDECIDED)]
    ['walk-back', 'MIXED', 'undecided']
    """
    found = set(judgements) - {NOT_MEASURED}
    if {WALKS_BACK, TRUSTWORTHY} <= found:
        return MIXED
    if len(found) > 1:
        return UNDECIDED
    return next(iter(found), NOT_MEASURED)


def cell_legend(*, controls: bool = False) -> list[str]:
    """The signs of `cell_text` with their meanings; at most 78 characters, with blanks between.

    Args:
        controls: whether to include controls.
    """
    marks = [f"✗ {WALKS_BACK}", f"✓ {TRUSTWORTHY}"]
    if controls:
        marks.append(f"▫ {CONTROL}")
    marks[-1] += ":"
    return [*marks, "a fires", "- passes", "~ undecided", "· unmeasured"]


@lru_cache(maxsize=512)
def cell_text(
    flags: Collection[str],
    coverage: Collection[str],
    undecided: Collection[str] = "",
    no_claim: str = "",
) -> str:
    """A judgement in five characters: a mark, then a sign per diagnostic (`cell_legend`).

    Args:
        flags, coverage, undecided, no_claim: as in `judgement_of`.

    >>> (cell_text("abd", "abcd"), cell_text("", "abc", "b"), cell_text("a", "ab", "b"),
    ...     cell_text("", ""), cell_text("d", "abd", "", CONTROL),
    ...     cell_text("d", "abd", "", NOT_MEASURED))
    ('✗ab-d', '~-~-·', '✗a~··', '?····', '▫--·d', '?--·d')
    """
    marks = {WALKS_BACK: "✗", TRUSTWORTHY: "✓", CONTROL: "▫", UNDECIDED: "~"}
    signs = dict.fromkeys(LETTERS, "·")
    signs |= dict.fromkeys(coverage, "-")
    signs |= {letter: letter for letter in flags}
    signs |= dict.fromkeys(undecided, "~")
    mark = marks.get(judgement_of(flags, coverage, undecided, no_claim), "?")
    return mark + "".join(signs.values())


SUCCESSOR = {"D1": "a", "D2": "b", "D3": "d"}
"""Check of the protocol's successor → letter (docs/protocol.md §3)."""

_WALKED_BACK = re.compile(r"(?:needs )?walk-back:(.*)|FAIL\((.*)\)", re.DOTALL)


@lru_cache(maxsize=256)
def recorded_flags(verdict: str | None) -> frozenset[str] | None:
    """The letters of a recorded verdict; None if unknown.

    Reads this project's text, the short form of published lists and the successor's.

    >>> sorted(recorded_flags("walk-back: (a), (d)") or ())
    ['a', 'd']
    >>> sorted(recorded_flags("needs walk-back: BP grad at numerical floor") or ())
    ['b']
    >>> sorted(recorded_flags("FAIL(D1+D3)") or ())
    ['a', 'd']
    """
    if verdict is None:
        return None
    text = verdict.strip()
    if text in (NOT_MEASURED, TRUSTWORTHY, "PASS"):
        return frozenset()
    found = _WALKED_BACK.fullmatch(text)
    if found is None:
        return None
    letters = dict(SUCCESSOR)
    for letter, diagnostic in DIAGNOSTICS.items():
        letters |= dict.fromkeys((diagnostic.phrase, letter, f"({letter})"), letter)
    parts = re.split("[;,+]", found[1] or found[2])
    named = [letters.get(part.strip(), "") for part in parts]
    return frozenset(named) if all(named) else None
