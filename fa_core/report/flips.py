"""Which thresholds would change a run's judgement."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from fa_core.files.decode import Json
from fa_core.report.diagnostics import DIAGNOSTICS
from fa_core.report.judged_run import JudgedRun
from fa_core.report.numbers import brief, exact, just_past
from fa_core.report.thresholds import NEVER_NEGATIVE, DiagnosticThresholds
from fa_core.report.verdict import TRUSTWORTHY, UNDECIDED, WALKS_BACK

_DIGITS = 4
"""Significant digits of a limit, rounded to the side on which it still flips."""


class Flip(msgspec.Struct, frozen=True):
    """Thresholds that give a run another judgement.

    Attributes:
        judgement: the other one.
        limits: letter → how its threshold must compare with which number (``>=``, ``<=``, ``<`` or
            ``>``), all at once; the other thresholds stay.
    """

    judgement: str
    limits: dict[str, tuple[str, float]]

    @property
    def text(self) -> str:
        """The limits, e.g. ``a ≥ 2044 and b ≤ 4.066e-9``."""
        return " and ".join(_limit_text(letter, *limit) for letter, limit in self.limits.items())

    def moved(self, thresholds: DiagnosticThresholds) -> DiagnosticThresholds:
        """The threshold set with these limits, each a short number."""
        for letter, limit in self.limits.items():
            thresholds = DIAGNOSTICS[letter].moved(thresholds, _just_there(*limit))
        return thresholds

    def to_dict(self) -> Json:
        """The flip for JSON."""
        return {"judgement": self.judgement, "limits": self.limits}


def flips_of(run: JudgedRun) -> list[Flip]:
    """The nearest thresholds at which a run's judgement changes, from the ends that decide it.

    What fires must stop firing on every letter at once, and what is undecided must pass; one letter
    that fires is enough to walk a run back.

    Args:
        run: judged by its thresholds.

    Returns:
        By judgement, the best one first; one flip for all letters, or one per letter. None for a
        control, which makes no claim.

    >>> for flip in flips_of(JudgedRun(residual_norms=[1.0, 60.0], bp_grad_norms=[1.0, 4e-9])):
    ...     print(flip.judgement, flip.text)
    trustworthy a ≥ 60 and b ≤ 4e-9
    """
    return [flip for flip in _flips(run) if _can_be_given(flip) and not run.is_control]


def _flips(run: JudgedRun) -> Iterator[Flip]:
    sure = {letter: ends[0] for letter, ends in run.reach.items()}
    possible = {letter: ends[1] for letter, ends in run.reach.items()}
    if run.flags or run.undecided:
        open_or_fires = [letter for letter in run.coverage if letter in run.flags | run.undecided]
        yield Flip(TRUSTWORTHY, {x: _passing(x, possible[x]) for x in open_or_fires})
    fires = [letter for letter in run.coverage if letter in run.flags]
    if fires and (run.undecided or any(sure[x] != possible[x] for x in fires)):
        yield Flip(UNDECIDED, {x: _passing(x, sure[x]) for x in fires})
    if run.judgement == TRUSTWORTHY:
        for letter in run.coverage:
            if sure[letter] != possible[letter]:
                yield Flip(UNDECIDED, {letter: _firing(letter, possible[letter])})
    if not fires:
        for letter in run.coverage:
            yield Flip(WALKS_BACK, {letter: _firing(letter, sure[letter])})


def _passing(letter: str, end: float) -> tuple[str, float]:
    return (">=" if DIAGNOSTICS[letter].fires_above else "<="), end


def _firing(letter: str, end: float) -> tuple[str, float]:
    return ("<" if DIAGNOSTICS[letter].fires_above else ">"), end


def _can_be_given(flip: Flip) -> bool:
    """Whether there are such thresholds: finite, and none below 0 that must not be."""
    for letter, (sign, end) in flip.limits.items():
        below_zero = sign == "<" and end <= 0 and DIAGNOSTICS[letter].threshold in NEVER_NEGATIVE
        if below_zero or not math.isfinite(end):
            return False
    return True


def flips_texts(run: JudgedRun) -> list[str]:
    """A line per other judgement: the thresholds that give it.

    >>> flips_texts(JudgedRun(residual_norms=[1.0, 2.5], bp_grad_norms=[1.0, 1e-3]))
    ['walk-back where a < 2.5, or b > 0.001']
    """
    by_judgement: dict[str, list[str]] = {}
    for flip in flips_of(run):
        by_judgement.setdefault(flip.judgement, []).append(flip.text)
    return [f"{name} where {', or '.join(limits)}" for name, limits in by_judgement.items()]


def _is_short(end: float) -> bool:
    return float(brief(end, _DIGITS)) == end


def _just_there(sign: str, end: float) -> float:
    """The end where it is short and holds, else a short number just past it."""
    if sign[-1] == "=" and _is_short(end):
        return end
    upward = sign[0] == ">"
    towards = math.inf if upward else -math.inf
    past = just_past(end, upward, towards, _DIGITS)
    return math.nextafter(end, towards) if past is None else past


def _limit_text(letter: str, sign: str, end: float) -> str:
    quantity = DIAGNOSTICS[letter].quantity
    number = brief(end, _DIGITS) if _is_short(end) else exact(_just_there(sign, end))
    sign = {">=": "≥", "<=": "≤"}.get(sign, sign)
    return f"{letter} {sign} {number}{'' if quantity.log else quantity.suffix}"
