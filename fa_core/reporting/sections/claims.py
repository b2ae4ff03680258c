"""Checked claims as lines and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fa_core.analysis.claims import FAILS, METRICS, ClaimResult
from fa_core.numbers import MISSING, brief, count_text
from fa_core.reporting.blocks import Block, Bullets, Grid, Heading

_CAPTION = (
    "Claims over training seeds: mean (of growth and norms the geometric one) with its 95 % "
    "interval. A claim holds if the whole interval meets it, and does not hold if the whole "
    "interval misses it. Smallest effect: the distance from a limit that so many seeds show in "
    "80 % of repeated experiments."
)


def claim_line(result: ClaimResult) -> str:
    """A claim on one line: what was claimed, the outcome, the numbers, and why it is undecided.

    >>> from fa_core.analysis.claims import Claim
    >>> claim = Claim(method="dfa", metric="growth", at_least=100.0)
    >>> print(claim_line(ClaimResult(claim=claim, outcome="holds", runs=3, estimate=800.0,
    ...     low=300.0, high=2100.0, smallest_effect=1.8)))
    growth of dfa ≥ 100 holds: 800, 95 % interval [300, 2100], 3 runs; smallest effect shown ×1.8
    """
    claim = result.claim
    head = f"{claim.subject} {claim.needs} {result.outcome}"
    if claim.text:
        head = f"{claim.text}: {head}"
    parts = []
    if result.estimate is not None:
        interval = _estimate(result).replace(" [", ", 95 % interval [")
        parts.append(f"{interval}, {_runs(result)}")
    if result.smallest_effect is not None:
        parts.append(f"smallest effect shown {_effect(result)}")
    if result.why:
        parts.append(result.why)
    return f"{head}: {'; '.join(parts)}"


def claims_blocks(results: Sequence[ClaimResult]) -> Iterator[Block]:
    """The section on claims; nothing without one."""
    if not results:
        return
    records = []
    for result in results:
        record = {
            "claim": result.claim.title,
            "outcome": result.outcome,
            "number": result.claim.subject,
            "claimed": result.claim.needs,
            "over seeds [95 %]": _estimate(result),
            "smallest effect": _effect(result),
            "n": str(result.runs),
        }
        records.append(record)
    yield Heading("Claims", 2)
    yield Grid.of(records, _CAPTION, 4, [result.outcome == FAILS for result in results])
    notes = [f"{result.claim.title}: {result.why}" for result in results if result.why]
    if notes:
        yield Bullets(tuple(notes))


def counts_of_claims(results: Sequence[ClaimResult]) -> str:
    """``10 claims: 7 hold, 0 do not hold, 3 undecided``."""
    outcomes = [result.outcome for result in results]
    holds, fails = outcomes.count("holds"), outcomes.count(FAILS)
    left = len(outcomes) - holds - fails
    counts = f"{holds} hold, {fails} do not hold, {left} undecided"
    return f"{count_text(len(results), 'claim')}: {counts}"


def _estimate(result: ClaimResult) -> str:
    if result.estimate is None:
        return MISSING
    text = brief(result.estimate, 3)
    if result.low is None or result.high is None:
        return text
    return f"{text} [{brief(result.low, 3)}, {brief(result.high, 3)}]"


def _effect(result: ClaimResult) -> str:
    if result.smallest_effect is None:
        return MISSING
    sign = "×" if METRICS[result.claim.metric].is_ratio else "±"
    return f"{sign}{brief(result.smallest_effect, 3)}"


def _runs(result: ClaimResult) -> str:
    if result.is_paired:
        return count_text(result.runs, "pair")
    return count_text(result.runs, "run")
