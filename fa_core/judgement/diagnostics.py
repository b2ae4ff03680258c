"""The four diagnostics, their thresholds and the verdict text: the one place that defines them.

    (a) residual stream   growth = max_l ‖h_{l+1}‖/‖h_l‖ > h_norm_explosion_ratio
    (b) BP gradient       ‖g_L‖ < g_norm_floor
    (c) drift             cross-batch cosine of the batch-mean gradient > stability_drift_ceiling
    (d) depth utility     100·(headline_acc − frozen_baseline_acc) < frozen_acc_margin_pp

Comparisons are strict. Source: docs/protocol.md §3. Pure Python: no NumPy, no torch.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from fa_core.errors import UsageError
from fa_core.numbers import as_float, brief

if TYPE_CHECKING:
    from fa_core.report import DiagnosticReport

TRUSTWORTHY = "trustworthy"
NOT_MEASURED = "not measured"
WALK_BACK = "needs walk-back: "
WALKS_BACK = "walk-back"
"""What a run is counted as that needs walk-back."""
UNDECIDED = "undecided"
CONTROL = "control"
"""What a control is called in place of a verdict: it makes no claim that could be trusted or walked
back."""

BOUND, PROXY, ASSUMED = "bound", "proxy", "assumed"
"""Kinds of numbers that are not exact: a lower bound, another layer's, and (d) by a baseline that
is not measured."""

NEVER_NEGATIVE: Mapping[str, str] = {
    "g_norm_floor": "a gradient norm",
    "h_norm_explosion_ratio": "growth per block",
}
"""Thresholds below 0 of which every run fires, or none → what they are compared with, which is
never negative."""

_FromZero = Annotated[float, msgspec.Meta(ge=0.0)]
"""A threshold of `NEVER_NEGATIVE`, for decoders, which report where it is."""


class DiagnosticThresholds(msgspec.Struct, frozen=True):
    """The four thresholds. Comparisons are strict: a value equal to its threshold does not fire.

    Numbers of any type are taken; they become floats.

    Attributes:
        g_norm_floor: (b) fires below this ‖g_L‖ (batch-averaged CE, so it carries 1/B).
        h_norm_explosion_ratio: (a) fires above this growth per block (a ratio).
        stability_drift_ceiling: (c) fires above this mean pairwise cosine (in [-1, 1]).
        frozen_acc_margin_pp: (d) fires below this margin over the frozen baseline (percentage
            points).

    Raises:
        ValueError: if a threshold is NaN, or negative where that makes no sense (`NEVER_NEGATIVE`).
        UsageError: if a threshold is no number.

    >>> DiagnosticThresholds(1e-8, 12.0).h_norm_explosion_ratio
    12.0
    """

    g_norm_floor: _FromZero = 1e-7
    h_norm_explosion_ratio: _FromZero = 50.0
    stability_drift_ceiling: float = 0.30
    frozen_acc_margin_pp: float = 2.0

    def __post_init__(self) -> None:
        # for each report of a file: faster than over `numbers`
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is not float or not value:
                # equal thresholds are written alike: -0.0 equals 0.0
                value = as_float(value, f"threshold {name}") or 0.0
                msgspec.structs.force_setattr(self, name, value)
            if math.isnan(value):
                raise ValueError(f"threshold {name} is NaN: give a number")
        for name, compared in NEVER_NEGATIVE.items():
            if getattr(self, name) < 0:
                raise ValueError(
                    f"threshold {name} is {brief(getattr(self, name))}: {compared} is never "
                    "negative"
                )

    def numbers(self) -> dict[str, float]:
        """The thresholds by name."""
        return msgspec.structs.asdict(self)


Number = TypeVar("Number")


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """One diagnostic as data.

    Attributes:
        letter: ``"a"`` to ``"d"``.
        name: what it measures, in a few words.
        phrase: its part of the verdict text.
        number: the property of `DiagnosticReport` that it judges.
        column: the column of `AuditTable` that holds it, and its name in intervals and filters.
        threshold: the field of `DiagnosticThresholds` it is compared with.
        bound: what the threshold is called next to its value.
        fires_above: True if it fires for value > threshold, False for value < threshold.
        unit: of number and threshold.
        suffix: the unit as written after a number.
        digits: of its number: significant ones where it spans decades, else decimals.
        log: whether differences are ratios (a, b) or distances (c, d).
        span: what a track of it shows at least.
        calibration: what is published of its number, to choose a threshold by (docs/protocol.md
            §5).
        step: an arrow key's step on a linear track.
    """

    letter: str
    name: str
    phrase: str
    number: str
    column: str
    threshold: str
    bound: str
    fires_above: bool
    unit: str
    suffix: str
    digits: int
    log: bool
    span: tuple[float, float]
    calibration: str
    step: float = 0.0

    @property
    def default(self) -> float:
        """The default threshold."""
        return self.limit(DiagnosticThresholds())

    def limit(self, thresholds: DiagnosticThresholds) -> float:
        """Its threshold in a threshold set."""
        value: float = getattr(thresholds, self.threshold)
        return value

    def moved(self, thresholds: DiagnosticThresholds, limit: float) -> DiagnosticThresholds:
        """The threshold set with this one threshold moved."""
        return msgspec.structs.replace(thresholds, **{self.threshold: limit})

    def rule(self, thresholds: DiagnosticThresholds) -> str:
        """When it fires, e.g. ``"growth per block > 50"``."""
        return f"{self.name} {'>' if self.fires_above else '<'} {brief(self.limit(thresholds))}"

    def text(self, value: float) -> str:
        """Its number as text, without its unit."""
        if self.log:
            return brief(value, self.digits)
        return f"{value:+.{self.digits}f}"

    def measured(self, report: DiagnosticReport) -> float | None:
        """Its number in a report; None where it was not measured."""
        value: float | None = getattr(report, self.number)
        return value

    def beyond(self, values: Number, limit: float) -> Number:
        """Elementwise ``values > limit`` or ``values < limit``, by the side that fires; False for
        NaN."""
        if self.fires_above:
            return values > limit  # type: ignore[operator, return-value]
        return values < limit  # type: ignore[operator, return-value]

    def distance(self, low: float, high: float) -> float | None:
        """How far one value is from a lower one: their ratio where it spans decades (None from 0),
        or difference."""
        if not self.log:
            return high - low
        if low > 0:
            return high / low
        return None

    def fires(self, value: float | None, thresholds: DiagnosticThresholds) -> bool:
        """Whether a finite number fires; None (not measured) and NaN do not
        (`DiagnosticReport.nonfinite` does)."""
        return value is not None and bool(self.beyond(value, self.limit(thresholds)))


_FACTS = msgspec.json.decode(
    Path(__file__).with_suffix(".json").read_bytes(), type=list[Diagnostic]
)
DIAGNOSTICS: dict[str, Diagnostic] = {diagnostic.letter: diagnostic for diagnostic in _FACTS}
"""The diagnostics by letter, in the order of the verdict text; their facts are in
`diagnostics.json`."""

LETTERS = "".join(DIAGNOSTICS)
"""The letters in the order of the verdict text."""

BIT: Mapping[str, int] = {letter: 1 << position for position, letter in enumerate(LETTERS)}
"""A diagnostic's bit in a mask of several: a=1, b=2, c=4, d=8."""


def letters_of(mask: int) -> str:
    """The diagnostics of a bit mask, in order.

    >>> letters_of(11)
    'abd'
    """
    return "".join(letter for letter in LETTERS if mask & BIT[letter])


def verdict_text(flags: Iterable[str], coverage: Iterable[str]) -> str:
    """The fixed verdict text.

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
        return WALK_BACK + "; ".join(d.phrase for d in DIAGNOSTICS.values() if d.letter in fired)
    if any(True for _ in coverage):
        return TRUSTWORTHY
    return NOT_MEASURED


def standing(
    flags: Collection[str],
    coverage: Collection[str],
    undecided: Collection[str] = "",
    *,
    control: bool = False,
) -> str:
    """A run's word: what it is counted as, in tables, summaries and exit codes.

    Args:
        flags: letters that fire.
        coverage: letters that were measured.
        undecided: letters that neither fire nor pass for sure.
        control: whether it is a control's.

    >>> (standing("a", "ab"), standing("", "ab", "a"), standing("", "ab"), standing("a", "ab",
    ...     control=True))
    ('walk-back', 'undecided', 'trustworthy', 'control')
    """
    if not coverage:
        return NOT_MEASURED
    if control:
        return CONTROL
    if flags:
        return WALKS_BACK
    if undecided:
        return UNDECIDED
    return TRUSTWORTHY


def counts_text(counts: Mapping[str, int], grounds: Mapping[str, int] | None = None) -> str:
    """How many runs have each word of `standing`.

    Args:
        counts: word → runs.
        grounds: of the trustworthy ones, what `grounds_text` says → runs.

    >>> counts_text({"trustworthy": 6, "walk-back": 1, "control": 2})
    '6 trustworthy, 1 needs walk-back, 2 controls'
    >>> counts_text({"trustworthy": 6}, grounds={"": 2, "on a, b": 4})
    '6 trustworthy (4 on a, b), 0 need walk-back'
    """
    failing, controls = counts.get(WALKS_BACK, 0), counts.get(CONTROL, 0)
    trusted = f"{counts.get(TRUSTWORTHY, 0)} {TRUSTWORTHY}{_on(grounds or {})}"
    need = "needs" if failing == 1 else "need"
    text = f"{trusted}, {failing} {need} walk-back"
    if undecided := counts.get(UNDECIDED, 0):
        text += f", {undecided} {UNDECIDED}"
    if unmeasured := counts.get(NOT_MEASURED, 0):
        text += f", {unmeasured} {NOT_MEASURED}"
    if controls:
        return f"{text}, {controls} {CONTROL}{'s' * (controls > 1)}"
    return text


def _on(grounds: Mapping[str, int]) -> str:
    """On what trustworthy runs are, if any of them is not on all."""
    partial = {said: count for said, count in Counter(grounds).most_common() if said}
    if len(grounds) == 1:
        return "".join(f" {said}" for said in partial)
    if partial:
        return f" ({'; '.join(f'{count} {said}' for said, count in partial.items())})"
    return ""


_BY = {PROXY: "by proxy", ASSUMED: "by an assumed baseline", BOUND: "by a bound"}


def grounds_text(letters: Iterable[str], kinds: Mapping[str, str]) -> str:
    """The diagnostics that a verdict stands on; ``""`` for all four, measured exactly.

    Args:
        letters: the diagnostics that it stands on.
        kinds: letter → `BOUND`, `PROXY` or `ASSUMED` where its number is not exact.

    >>> (grounds_text("ab", {}), grounds_text("a", {}), grounds_text("bd", {"b": "proxy"}),
    ...     grounds_text("abcd", {}))
    ('on a, b', 'on (a) alone', 'on d, (b) by proxy', '')
    """
    letters = sorted(letters)
    exact = [letter for letter in letters if letter not in kinds]
    if not letters or len(exact) == len(LETTERS):
        return ""
    others = [f"({letter}) {_BY[kinds[letter]]}" for letter in letters if letter in kinds]
    if len(letters) > 1:
        return f"on {', '.join([*exact, *others])}"
    return f"on {others[0] if others else f'({letters[0]})'} alone"


def cell_legend(*, controls: bool = False) -> str:
    """How `cell_text` is read, where there are controls too; at most 78 characters."""
    control = f" ▫ {CONTROL}" if controls else ""
    letters = "letter fires, - passes, ~ undecided, · not measured"
    return f"✗ {WALKS_BACK} ✓ {TRUSTWORTHY}{control}: {letters}"


@lru_cache(maxsize=512)
def cell_text(
    flags: Collection[str],
    coverage: Collection[str],
    undecided: Collection[str] = "",
    *,
    control: bool = False,
    ascii_only: bool = False,
) -> str:
    """A verdict in five characters: its mark, then a sign per diagnostic, the same for every
    verdict (`cell_legend`).

    Args:
        flags: letters that fire.
        coverage: letters that were measured.
        undecided: letters whose interval holds the threshold, or of which only a bound is known:
            they show that, and not whether they fire. Where nothing else was measured the mark is
            ``?``.
        control: whether it is a control's.
        ascii_only: for terminals without Unicode.

    >>> (cell_text("abd", "abcd"), cell_text("", "abc", "b"), cell_text("a", "ab", "a"),
    ...     cell_text("", ""))
    ('✗ab-d', '✓-~-·', '✗~-··', '?····')
    >>> cell_text("", "a", "a"), cell_text("d", "abd", control=True)
    ('?~···', '▫--·d')
    """
    fires, passes, missing, own = "!+.o" if ascii_only else "✗✓·▫"
    signs = (
        "~"
        if letter in undecided
        else letter
        if letter in flags
        else "-"
        if letter in coverage
        else missing
        for letter in LETTERS
    )
    decided = set(coverage) - set(undecided)
    if flags:
        mark = fires
    elif decided:
        mark = passes
    else:
        mark = "?"
    return (own if control and coverage else mark) + "".join(signs)


def doubt_text(undecided: Iterable[str]) -> str:
    """What is said next to a verdict that other samples might change; nothing where none would.

    >>> doubt_text("ca"), doubt_text("")
    ('undecided on a, c', '')
    """
    names = ", ".join(sorted(undecided))
    if names:
        return f"undecided on {names}"
    return ""


SUCCESSOR = {"D1": "a", "D2": "b", "D3": "d"}
"""Checks of the protocol's successor, on the same numbers → our letters (docs/protocol.md §3)."""

_WALKED_BACK = re.compile(r"(?:needs )?walk-back:(.*)|FAIL\((.*)\)", re.DOTALL)


@lru_cache(maxsize=256)
def recorded_flags(verdict: str | None) -> frozenset[str] | None:
    """The letters a recorded verdict names, or None where that is not known.

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
    letters = {
        name: d.letter
        for d in DIAGNOSTICS.values()
        for name in (d.phrase, d.letter, f"({d.letter})")
    }
    letters |= SUCCESSOR
    named = [letters.get(part.strip(), "") for part in re.split("[;,+]", found[1] or found[2])]
    if all(named):
        return frozenset(named)
    return None


def diagnostic_letters(text: str, option: str) -> frozenset[str]:
    """The diagnostics in ``"abd"``, ``"a,b,d"`` or ``"A, B, D"``.

    Args:
        text: what the user wrote.
        option: where they wrote it, for the message.

    Raises:
        UsageError: something other than a, b, c, d in it.

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
