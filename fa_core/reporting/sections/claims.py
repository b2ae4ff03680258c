"""Judged claims as lines and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fa_core.analysis.claims import FAILS, OUTCOMES, Claim, ClaimResult, SeedOutcome
from fa_core.report.numbers import brief, count_text, on_its_side
from fa_core.reporting.blocks import Block, Grid, Heading

_CAPTION = (
    "Claims, seed by seed: a seed is undecided where the limit lies inside the 95 % interval of "
    "its number. In square brackets: intervals over samples."
)


def claim_line(result: ClaimResult) -> str:
    """A claim on one line: what was claimed, what the seeds say, and their numbers.

    >>> from fa_core.analysis.claims import Claim
    >>> claim = Claim(method="dfa", metric="growth", at_least=100.0)
    >>> seed = SeedOutcome(run="s42", outcome="holds", value=694.0)
    >>> print(claim_line(ClaimResult(claim=claim, seeds=(seed,))))
    growth of dfa ≥ 100: holds on 1 of 1 (s42 694)
    """
    claim = result.claim
    head = f"{claim.subject} {claim.needs}"
    if claim.text:
        head = f"{claim.text}: {head}"
    return f"{head}: {result.words}{_numbers(result, ' ({})')}"


def claims_blocks(results: Sequence[ClaimResult]) -> Iterator[Block]:
    """The section on claims; nothing without one."""
    if not results:
        return
    records = []
    for result in results:
        record = {
            "claim": result.claim.title,
            "outcome": result.words,
            "number": result.claim.subject,
            "claimed": result.claim.needs,
            "by seed": _numbers(result, "{}"),
        }
        records.append(record)
    yield Heading("Claims", 2)
    yield Grid.of(records, _CAPTION, 5, [result.outcome == FAILS for result in results])


def counts_of_claims(results: Sequence[ClaimResult]) -> str:
    """``10 claims: 7 hold, 0 fail, 3 undecided, 0 not measured``."""
    found = Counter(result.outcome for result in results)
    counts = ", ".join(f"{found[outcome]} {outcome.removesuffix('s')}" for outcome in OUTCOMES)
    return f"{count_text(len(results), 'claim')}: {counts}"


def _numbers(result: ClaimResult, form: str) -> str:
    if result.seeds:
        return form.format(", ".join(_number(one, result.claim) for one in result.seeds))
    return ""


def _number(one: SeedOutcome, claim: Claim) -> str:
    """``s42 694 [601, 798]``, or why there is no number."""
    if one.value is None:
        return f"{one.run} {one.why}"
    numbers = (one.value, *(one.interval or ()))
    value, *ends = (on_its_side(number, claim.limit, brief, 3) for number in numbers)
    text = f"{one.run} {value}"
    if ends:
        return f"{text} [{', '.join(ends)}]"
    return text
