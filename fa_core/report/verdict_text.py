"""Texts of verdicts: grounds, undecided diagnostics, counts of runs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from fa_core.files.decode import Json
from fa_core.report.diagnostics import (
    ASSUMED,
    CONTROL,
    DIAGNOSTICS,
    FIRES,
    LETTERS,
    NOT_MEASURED,
    SUCCESSOR,
    TRUSTWORTHY,
    UNDECIDED,
    WALKS_BACK,
    recorded_flags,
    verdict_text,
)
from fa_core.report.gamma import mean_gamma, per_layer
from fa_core.report.judged_run import JudgedRun
from fa_core.report.manifest import stopped_after
from fa_core.report.notes import BY, baseline_text, left_out_text
from fa_core.report.numbers import brief, count_text, exact, joined, just_past
from fa_core.report.provenance import BASELINE_FROM
from fa_core.report.report_facts import (
    NEVER_NEGATIVE,
    NORMS,
    TRAINING,
    UNSTATED,
    DiagnosticThresholds,
)


def verdict_words(run: JudgedRun, *, short: bool = False) -> str:
    """The judgement as text: what fires, or the grounds, then what is undecided and what was left
    out of the stream, or a note that it is a control; and the epoch at which its training stopped.

    Args:
        run: judged by its thresholds.
        short: the verdict in the form of published lists.
    """
    judged = run.claim
    if run.changed:
        before = verdict_words(msgspec.structs.replace(run, changed=""), short=short)
        return f"{NOT_MEASURED}: {run.changed}; before: {before}"
    named = {
        CONTROL: CONTROL,
        WALKS_BACK: verdict_text(run.flags, run.coverage),
        TRUSTWORTHY: f"{TRUSTWORTHY} {grounds_of(run)}".rstrip(),
        UNDECIDED: "",
        NOT_MEASURED: ": ".join(filter(None, [NOT_MEASURED, run.unmeasured.get(TRAINING)])),
    }
    words = named[judged]
    if short and judged == WALKS_BACK:
        fired = ", ".join(f"({letter})" for letter in sorted(run.flags))
        words = f"{WALKS_BACK}: {fired}"
    doubt = ""
    if run.undecided and judged != CONTROL:
        doubt = f"{UNDECIDED} on {', '.join(sorted(run.undecided))}"
    stopped = stopped_after(run.provenance)
    after = stopped and f"measured after {stopped}"
    return joined(words, doubt, left_out_text(run), after)


def grounds_of(run: JudgedRun) -> str:
    """The grounds of a judgement: the diagnostics that pass (`grounds_text`)."""
    return grounds_text(set(run.coverage) - run.flags - run.undecided, run.kinds)


def grounds_text(letters: Iterable[str], kinds: Mapping[str, str]) -> str:
    """The grounds of a verdict, i.e. its diagnostics; ``""`` for all four, measured exactly.

    Args:
        letters: the diagnostics.
        kinds: letter → ``"bound"``, ``"proxy"`` or ``"assumed"`` if its number is not exact.

    >>> (grounds_text("ab", {}), grounds_text("a", {}), grounds_text("bd", {"b": "proxy"}),
    ...     grounds_text("abcd", {}))
    ('on a, b', 'on (a) alone', 'on d, (b) by proxy', '')
    """
    exact = []
    others = []
    for letter in sorted(letters):
        if letter in kinds:
            others.append(f"({letter}) {BY[kinds[letter]]}")
        else:
            exact.append(letter)
    if len(exact) == len(LETTERS) or not (exact or others):
        return ""
    if len(exact) + len(others) > 1:
        return f"on {', '.join([*exact, *others])}"
    if others:
        return f"on {others[0]} alone"
    return f"on ({exact[0]}) alone"


def known_text(run: JudgedRun) -> str:
    """The measured diagnostics: ``"ac measured, b by proxy"``, ``"nothing measured"``."""
    inexact = run.inexact
    exact = "".join(letter for letter in run.coverage if letter not in inexact)
    by = {**BY, ASSUMED: f"by a baseline of {baseline_text(run)}"}
    words = []
    if exact:
        words.append(f"{exact} measured")
    for letter, kind in inexact.items():
        words.append(f"{letter} {by[kind]}")
    return ", ".join(words) or "nothing measured"


def recorded_text(run: JudgedRun, recorded_by: DiagnosticThresholds) -> str:
    """The recorded verdict, with its thresholds or a later frozen run if these explain the
    difference.

    Args:
        run: judged by other thresholds.
        recorded_by: the file's thresholds.

    >>> loose = DiagnosticThresholds(1e-10)
    >>> run = JudgedRun(bp_grad_norms=[1e-9], recorded_verdict="trustworthy", thresholds=loose)
    >>> recorded_text(run.with_thresholds(DiagnosticThresholds()), loose)
    'recorded as “trustworthy”, judged there at deepest ‖g_L‖ < 1e-10'
    """
    words = f"recorded as “{run.recorded_verdict}”"
    run = run.as_recorded()  # an assumed baseline is said apart
    recorded = recorded_flags(run.recorded_verdict)
    if recorded_by is UNSTATED or recorded is None:
        return words
    differing = recorded ^ run.with_thresholds(recorded_by).by_numbers
    later = run.provenance.get(BASELINE_FROM)
    if later and differing == {"d"}:
        return f"{words}; (d) differs, over the frozen run {later}"
    limits = [DIAGNOSTICS[letter].rule(recorded_by) for letter in sorted(recorded ^ run.by_numbers)]
    if limits and not differing:
        return f"{words}, judged there at {', '.join(limits)}"
    return words


def counted(run: JudgedRun) -> tuple[str, str]:
    """What `counts_text` counts of a run: its judgement, and the grounds of a trustworthy one."""
    return run.claim, grounds_of(run) if run.claim == TRUSTWORTHY else ""


def counts_text(counts: Counter[tuple[str, str]]) -> str:
    """Number of runs by judgement.

    Args:
        counts: of `counted` runs.

    >>> counts_text(Counter({("trustworthy", ""): 2, ("trustworthy", "on a, b"): 4}))
    '6 trustworthy (4 on a, b), 0 need walk-back'
    >>> counts_text(Counter({("walk-back", ""): 1, ("control", ""): 2}))
    '0 trustworthy, 1 needs walk-back, 2 controls'
    """
    runs: Counter[str] = Counter()
    partial = []
    for (judgement, grounds), count in counts.most_common():
        runs[judgement] += count
        if grounds:
            partial.append((count, grounds))
    words = f"{runs[TRUSTWORTHY]} {TRUSTWORTHY}"
    if len(partial) == 1 and partial[0][0] == runs[TRUSTWORTHY]:
        words += f" {partial[0][1]}"
    elif partial:
        shares = "; ".join(f"{count} {grounds}" for count, grounds in partial)
        words += f" ({shares})"
    failed = runs[WALKS_BACK]
    verb = "needs" if failed == 1 else "need"
    parts = [words, f"{failed} {verb} walk-back"]
    for name in (UNDECIDED, NOT_MEASURED):
        if runs[name]:
            parts.append(f"{runs[name]} {name}")
    if runs[CONTROL]:
        parts.append(count_text(runs[CONTROL], CONTROL))
    return ", ".join(parts)


_DIGITS = 4
"""Significant digits of a limit, rounded to the side on which it still flips."""


class Flip(msgspec.Struct, frozen=True):
    """Thresholds that give a run another judgement.

    Attributes:
        judgement: the other one.
        limits: letter → how its threshold must compare with which number (``>=``, ``<=``, ``<`` or
            ``>``), all at once; the other thresholds stay.
        before: letter → the number at which its threshold would give a third judgement.
    """

    judgement: str
    limits: dict[str, tuple[str, float]]
    before: dict[str, float] = {}

    @property
    def text(self) -> str:
        """The limits, e.g. ``a ≥ 2044 and b ≤ 4.066e-9``."""
        return " and ".join(map(self._limit_text, self.limits))

    def moved(self, thresholds: DiagnosticThresholds) -> DiagnosticThresholds:
        """The threshold set with these limits, each a short number."""
        for letter in self.limits:
            thresholds = DIAGNOSTICS[letter].moved(thresholds, self._short(letter))
        return thresholds

    def _limit_text(self, letter: str) -> str:
        sign, end = self.limits[letter]
        quantity = DIAGNOSTICS[letter].quantity
        number = brief(end, _DIGITS) if _is_short(end) else exact(self._short(letter))
        sign = {">=": "≥", "<=": "≤"}.get(sign, sign)
        return f"{letter} {sign} {number}{'' if quantity.log else quantity.suffix}"

    def _short(self, letter: str) -> float:
        """The end of a limit where it is short and holds, else a short number just past it."""
        sign, end = self.limits[letter]
        if sign[-1] == "=" and _is_short(end):
            return end
        upward = sign[0] == ">"
        towards = math.inf if upward else -math.inf
        past = just_past(end, upward, self.before.get(letter, towards), _DIGITS)
        if past is None:
            return math.nextafter(end, towards)
        return past

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
    return [flip for flip in _flips(run) if _can_be_given(flip) and not run.no_claim]


def _flips(run: JudgedRun) -> Iterator[Flip]:
    passing = {}
    undecided = {}
    before = {}
    for letter, (sure, possible) in run.reach.items():
        if letter in run.flags | run.undecided:
            passing[letter] = _passing(letter, possible)
        if letter in run.flags:
            undecided[letter] = _passing(letter, sure)
            if sure != possible:
                before[letter] = possible
    if passing:
        yield Flip(TRUSTWORTHY, passing)
    if undecided and (run.undecided or before):
        yield Flip(UNDECIDED, undecided, before)
    if not passing:
        for letter, (sure, possible) in run.reach.items():
            if sure != possible:
                yield Flip(UNDECIDED, {letter: _firing(letter, possible)}, {letter: sure})
    if not run.flags:
        for letter, (sure, _) in run.reach.items():
            yield Flip(WALKS_BACK, {letter: _firing(letter, sure)})


def _passing(letter: str, end: float) -> tuple[str, float]:
    return (">=" if DIAGNOSTICS[letter].fires_above else "<="), end


def _firing(letter: str, end: float) -> tuple[str, float]:
    return ("<" if DIAGNOSTICS[letter].fires_above else ">"), end


def _can_be_given(flip: Flip) -> bool:
    """Whether there are such thresholds: finite, and none below 0 that must not be."""
    for letter, (sign, end) in flip.limits.items():
        threshold = DIAGNOSTICS[letter].threshold
        below_zero = sign == "<" and end <= 0 and threshold in NEVER_NEGATIVE
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


PASS = "PASS"


def second_reading(report: JudgedRun) -> str:
    """The successor's verdict: ``PASS``, ``FAIL(D1+D2)`` or ``not measured``, and open points.

    D1 scale growth, D2 reference validity and D3 depth utility are (a), (b) and (d), judged by the
    thresholds of the report; (c) is no check, and a control makes no claim. Γ per layer of a
    trained network is required.

    Source: docs/protocol.md §3.2.

    >>> second_reading(JudgedRun(residual_norms=[1.0, 100.0], bp_grad_norms=[1e-9, 1e-9]))
    'FAIL(D1+D2); D3, Γ missing'
    """
    checks = defaultdict[str, list[str]](list)
    for check, letter in SUCCESSOR.items():
        checks[report.states[letter]].append(check)
    failed, doubtful, missing = checks[FIRES], checks[UNDECIDED], checks[NOT_MEASURED]
    if report.no_claim:
        return f"{report.no_claim}: {report.changed}".removesuffix(": ")
    if len(missing) == len(SUCCESSOR):
        return NOT_MEASURED
    if failed:
        notes = [f"FAIL({'+'.join(failed)})"]
    else:
        notes = [] if doubtful else [PASS]
    if doubtful:
        notes.append(f"undecided on {', '.join(doubtful)}")
    # of a network of unknown depth not every layer's is known
    layers = max(len(report.stream(name)) for name in NORMS) or math.inf
    if len(per_layer(report.credit)) < layers or not math.isfinite(mean_gamma(report.credit)):
        missing.append("Γ")
    if missing:
        notes.append(f"{', '.join(missing)} missing")
    return "; ".join(notes)
