"""Decision utility: the runs that each reporting habit would withdraw."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fa_core.analysis import Result
from fa_core.formats.table import AuditTable, Bits, Mask, having, objects
from fa_core.report.diagnostics import LETTERS
from fa_core.report.quantities import JUDGED
from fa_core.report.report_facts import PROTOCOL, DiagnosticThresholds

CLASSES = 10
"""Assumed for reports without it, as in the published audits."""


class Strategy(Result, frozen=True, kw_only=True):
    """A rule that keeps or withdraws a run's claim.

    Attributes:
        name: ``S0`` … ``S5``, ``S_full``.
        looks_at: as text.
        walked_back: names of the runs it withdraws, in table order.
        judged: number of runs with the input it adds to accuracy; the others are judged by accuracy
            alone.
        undecided: number of runs that it keeps while a diagnostic it looks at is undecided.
        caught: share of S_full's walk-backs that it walks back too; None if S_full walks back
            nothing. S_full is a rule like the others, not the truth.
        extra: number of runs that it walks back and S_full does not.
    """

    name: str
    looks_at: str
    walked_back: tuple[str, ...]
    judged: int
    undecided: int
    caught: float | None
    extra: int


class Utility(Result, frozen=True, kw_only=True):
    """All strategies over the same runs.

    Attributes:
        runs: number of judged runs (without unmeasured rows and controls).
        chance: accuracy at or below which S0 withdraws a run; None if it differs between runs.
        strategies: S0, S1, S2 … S5, S_full.
        skipped: what is assumed, and what was left out.
    """

    runs: int
    chance: float | None
    strategies: tuple[Strategy, ...]
    skipped: tuple[str, ...]


class _Rule(NamedTuple):
    """What a strategy looks at, the runs it withdraws, those with its input, its diagnostics."""

    looks_at: str
    caught: Mask
    known: Mask
    letters: str = ""


def _rules(runs: AuditTable, flags: Bits, by_accuracy: Mask) -> dict[str, _Rule]:
    gamma, *_ = runs.credit.T  # over all layers
    has_acc = np.isfinite(runs.acc)
    by_credit = by_accuracy | (gamma <= 0)
    rules = {
        "S0": _Rule("accuracy", by_accuracy, has_acc),
        "S1": _Rule("accuracy + mean Γ", by_credit, np.isfinite(gamma)),
    }
    for number, letter in enumerate(LETTERS, start=2):
        looks_at = f"accuracy + ({letter}) {JUDGED[letter].words}"
        caught = by_accuracy | having(flags, letter)
        known = having(runs.coverage, letter)
        rules[f"S{number}"] = _Rule(looks_at, caught, known, letter)
    caught = by_accuracy | (flags != 0)
    known = has_acc | (runs.coverage != 0)
    rules["S_full"] = _Rule("accuracy + (a) to (d)", caught, known, LETTERS)
    return rules


def decision_utility(
    table: AuditTable, thresholds: DiagnosticThresholds = PROTOCOL, chance: float | None = None
) -> Utility:
    """Runs walked back by accuracy (S0), by accuracy and Γ (S1), by S0 and one diagnostic (S2–S5),
    by all (S_full).

    S0 withdraws a run whose accuracy is not above chance; S1 also one whose Γ is not positive (the
    mean over all layers, as papers report it); S2, S3, S4, S5 = S0 + (a), (b), (c), (d); S_full =
    S0 + (a)–(d).

    Args:
        table: n runs.
        thresholds: default: the protocol's.
        chance: accuracy of guessing, a fraction; None = 1/C of each run's own number of classes C.

    Source: docs/protocol.md §9, decision utility.
    """
    table, left_out = table.claiming()
    runs = table.select(table.coverage != 0)
    names = objects(runs.names)
    if chance is None:
        guessing = 1 / np.where(np.isnan(runs.classes), CLASSES, runs.classes)
    else:
        guessing = np.full(len(runs), chance)
    rules = _rules(runs, runs.flags(thresholds), runs.acc <= guessing)
    full = rules["S_full"].caught
    withdrawn = full.sum()
    undecided = runs.undecided(thresholds)
    strategies = []
    for name, (looks_at, caught, known, letters) in rules.items():
        share = float((caught & full).sum() / withdrawn) if withdrawn else None
        strategy = Strategy(
            name=name,
            looks_at=looks_at,
            walked_back=tuple(names[caught]),
            judged=int(known.sum()),
            undecided=int((~caught & having(undecided, letters)).sum()),
            caught=share,
            extra=int((caught & ~full).sum()),
        )
        strategies.append(strategy)
    chances = set(guessing.tolist())
    skipped = [*table.assumed_notes, *table.uneven_notes, *left_out, *table.unmeasured_notes]
    if not len(runs):
        skipped.append("no measured run: nothing to decide")
    return Utility(
        runs=len(runs),
        chance=chances.pop() if len(chances) == 1 else None,
        strategies=tuple(strategies),
        skipped=tuple(skipped),
    )
