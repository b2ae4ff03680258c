"""Texts of verdicts: grounds, undecided diagnostics, counts of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from fa_core.report.diagnostics import ASSUMED, BOUND, DIAGNOSTICS, LETTERS, PROXY
from fa_core.report.judged_run import JudgedRun
from fa_core.report.notes import baseline_text, left_out_text
from fa_core.report.numbers import count_text
from fa_core.report.report_facts import UNSTATED
from fa_core.report.thresholds import DiagnosticThresholds
from fa_core.report.verdict import (
    CONTROL,
    NOT_MEASURED,
    TRUSTWORTHY,
    UNDECIDED,
    WALKS_BACK,
    recorded_flags,
    verdict_text,
)

_BY = {PROXY: "by proxy", ASSUMED: "by an assumed baseline", BOUND: "by a bound"}


def verdict_words(run: JudgedRun, *, short: bool = False) -> str:
    """The judgement as text: what fires, or the grounds, then what is undecided and what was left
    out of the stream; for a control, a note that it is one.

    Args:
        run: judged by its thresholds.
        short: the verdict in the form of published lists.
    """
    judged = run.claim
    if judged == CONTROL:
        return CONTROL
    named = {
        WALKS_BACK: verdict_text(run.flags, run.coverage),
        TRUSTWORTHY: f"{TRUSTWORTHY} {grounds_of(run)}".rstrip(),
        UNDECIDED: "",
        NOT_MEASURED: NOT_MEASURED,
    }
    words = named[judged]
    if short and run.flags:
        words = f"{WALKS_BACK}: {', '.join(f'({letter})' for letter in sorted(run.flags))}"
    doubt = ""
    if run.undecided:
        doubt = f"{UNDECIDED} on {', '.join(sorted(run.undecided))}"
    return "; ".join(filter(None, [words, doubt, left_out_text(run)]))


def grounds_of(run: JudgedRun) -> str:
    """The grounds of a judgement: the diagnostics that pass (`grounds_text`)."""
    passed = set(run.coverage) - run.flags - run.undecided
    return grounds_text(passed, run.kinds)


def grounds_text(letters: Iterable[str], kinds: Mapping[str, str]) -> str:
    """The grounds of a verdict, i.e. its diagnostics; ``""`` for all four, measured exactly.

    Args:
        letters: the diagnostics.
        kinds: letter → ``"bound"``, ``"proxy"`` or ``"assumed"`` if its number is not exact.

    >>> (grounds_text("ab", {}), grounds_text("a", {}), grounds_text("bd", {"b": "proxy"}),
    ...     grounds_text("abcd", {}))
    ('on a, b', 'on (a) alone', 'on d, (b) by proxy', '')
    """
    exact, others = [], []
    for letter in sorted(letters):
        if letter in kinds:
            others.append(f"({letter}) {_BY[kinds[letter]]}")
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
    kinds = run.kinds
    exact = "".join(letter for letter in run.coverage if letter not in kinds)
    words = []
    if exact:
        words.append(f"{exact} measured")
    for letter in run.coverage:
        kind = kinds.get(letter)
        if kind == ASSUMED:
            words.append(f"{letter} by a baseline of {baseline_text(run)}")
        elif kind == BOUND:
            words.append(f"{letter} by a bound")
        elif kind is not None:
            words.append(f"{letter} by {kind}")
    return ", ".join(words) or "nothing measured"


def recorded_text(run: JudgedRun, recorded_by: DiagnosticThresholds) -> str:
    """The recorded verdict, with its thresholds if they explain the difference.

    Args:
        run: judged by other thresholds.
        recorded_by: the file's thresholds.

    >>> loose = DiagnosticThresholds(1e-10)
    >>> run = JudgedRun(bp_grad_norms=[1e-9], recorded_verdict="trustworthy", thresholds=loose)
    >>> recorded_text(run.with_thresholds(DiagnosticThresholds()), loose)
    'recorded as “trustworthy”, judged there at deepest ‖g_L‖ < 1e-10'
    """
    words = f"recorded as “{run.recorded_verdict}”"
    recorded = recorded_flags(run.recorded_verdict)
    if recorded_by is UNSTATED or recorded is None:
        return words
    if recorded != run.with_thresholds(recorded_by).by_numbers:
        return words
    limits = [DIAGNOSTICS[letter].rule(recorded_by) for letter in sorted(recorded ^ run.by_numbers)]
    if limits:
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
        words += f" ({'; '.join(f'{count} {grounds}' for count, grounds in partial)})"
    parts = [words, f"{runs[WALKS_BACK]} need{'s' * (runs[WALKS_BACK] == 1)} walk-back"]
    parts += [f"{runs[name]} {name}" for name in (UNDECIDED, NOT_MEASURED) if runs[name]]
    if runs[CONTROL]:
        parts.append(count_text(runs[CONTROL], CONTROL))
    return ", ".join(parts)
