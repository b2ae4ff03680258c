"""Claims about methods, judged seed by seed on audited runs.

A claims file is TOML:

    [[claim]]
    text = "DFA does not beat its frozen baseline by 2 points"
    method = "dfa"
    metric = "margin"          # as in filters
    at_most = 2.0              # or at_least
    seeds = [42, 123, 456]     # default: every seed that is there
    axes = { d = 256 }         # default: whatever the runs have

Definitions: docs/protocol.md, *Claims*.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec

from fa_core.analysis import Result
from fa_core.errors import UnreadableInput, UsageError
from fa_core.files.decode import Json, read_toml
from fa_core.formats.rows import AuditRow
from fa_core.option_values import nearest, unknown_name
from fa_core.report.diagnostics import ASSUMED, NOT_MEASURED, PROXY, UNDECIDED
from fa_core.report.names import canonical_method
from fa_core.report.numbers import exact, listed
from fa_core.report.provenance import Interval
from fa_core.report.quantities import BY_NAME
from fa_core.report.report_facts import Axis

HOLDS, FAILS = "holds", "fails"

MOST_OUTCOMES = 1_000_000
"""Claims times runs of their methods, which take seconds and half a gigabyte."""

OUTCOMES = (HOLDS, FAILS, UNDECIDED, NOT_MEASURED)
"""What a run, and a claim, can say."""


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One claim. Either `at_least` or `at_most` is given.

    Attributes:
        method: canonical name.
        metric: a name of `fa_core.report.quantities`.
        text: what is claimed, in the words of the paper.
        at_least: on every seed the number is this or more.
        at_most: it is this or less.
        seeds: only these; empty = all.
        axes: further coordinates that the runs must have.

    Raises:
        ValueError: a claim that cannot be meant.
    """

    method: str
    metric: str
    text: str = ""
    at_least: float | None = None
    at_most: float | None = None
    seeds: list[int] = []
    axes: dict[str, Axis] = {}

    def __post_init__(self) -> None:
        if self.metric not in BY_NAME:
            raise ValueError(str(unknown_name("metric", self.metric, BY_NAME)))
        given = [limit for limit in (self.at_least, self.at_most) if limit is not None]
        if len(given) != 1 or not math.isfinite(given[0]):
            raise ValueError("needs one finite number: at_least or at_most")

    @property
    def limit(self) -> float:
        """The number that is claimed."""
        return self.at_most or 0.0 if self.at_least is None else self.at_least

    @property
    def needs(self) -> str:
        """The condition: ``≥ 2``, ``≤ 50``."""
        return f"{'≤' if self.at_least is None else '≥'} {exact(self.limit)}"

    @property
    def title(self) -> str:
        """The claim in the words of the paper, or else in its names and numbers."""
        return self.text or f"{self.subject} {self.needs}"

    @property
    def subject(self) -> str:
        """What the number is of: ``growth of dfa``."""
        return f"{self.metric} of {self.method}"

    def outcome(self, low: float, high: float) -> str:
        """Whether every number from `low` to `high` meets the condition, or none does."""
        limit = self.limit
        if self.at_least is None:
            low, high, limit = -high, -low, -limit
        if low >= limit:
            return HOLDS
        return FAILS if high < limit else UNDECIDED


class SeedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one seed says about a claim.

    Attributes:
        run: ``s42``; a run without a seed has its key.
        outcome: one of `OUTCOMES`.
        value: the run's number; None where it was not measured.
        interval: its 95 % interval, if the run has one.
        why: why the number does not decide; else ``""``.
    """

    run: str
    outcome: str
    value: float | None = None
    interval: Interval | None = None
    why: str = ""


class ClaimResult(Result, frozen=True, kw_only=True):
    """A claim and what every seed says."""

    claim: Claim
    seeds: tuple[SeedOutcome, ...]

    @property
    def outcome(self) -> str:
        """`FAILS` if some seed fails; else undecided, or not measured, if some seed is."""
        found = {one.outcome for one in self.seeds}
        order = (FAILS, UNDECIDED, NOT_MEASURED, HOLDS)
        return min(found, key=order.index, default=NOT_MEASURED)

    @property
    def words(self) -> str:
        """``holds on 1 of 3; fails on s123; undecided on s456``."""
        if not self.seeds:
            return f"{NOT_MEASURED}: no such run"
        holding = sum(one.outcome == HOLDS for one in self.seeds)
        words = [f"{HOLDS} on {holding} of {len(self.seeds)}"]
        for outcome in (FAILS, UNDECIDED, NOT_MEASURED):
            runs = [one.run for one in self.seeds if one.outcome == outcome]
            if runs:
                words.append(f"{outcome} on {listed(runs)}")
        return "; ".join(words)

    def to_dict(self) -> Json:
        """Plain values, for JSON."""
        return {**super().to_dict(), "outcome": self.outcome}


_HINT = f"a claim has {listed(Claim.__struct_fields__)}"


def read_claims(path: Path) -> list[Claim]:
    """The claims of a TOML file.

    Raises:
        UnreadableInput: missing, not TOML, or a claim that cannot be meant (its number is named).
    """
    _, document = read_toml(path)
    found = document.get("claim")
    if not isinstance(found, list) or not found or len(document) > 1:
        raise UnreadableInput(
            f"it holds {listed(document) or 'nothing'}, not [[claim]] alone",
            where=path,
            hint="write [[claim]] and its method, metric and at_least",
        )
    return [_claim_of(fields, f"{path}: claim {number}") for number, fields in enumerate(found, 1)]


def _claim_of(fields: object, where: str) -> Claim:
    """One table of the file as a claim."""
    try:
        claim = msgspec.convert(fields, Claim)
    except msgspec.ValidationError as error:
        raise UnreadableInput(str(error), where=where, hint=_HINT) from error
    return msgspec.structs.replace(claim, method=canonical_method(claim.method))


def refuse_unknown_names(claims: Sequence[Claim], rows: Sequence[AuditRow], where: Path) -> None:
    """Refuse claims about methods and axes that no run has: a slip of the pen proves nothing.

    Raises:
        UsageError: the first one, and what was meant perhaps.
    """
    methods = {row.method for row in rows}
    axes = {axis for row in rows for axis in row.axes}
    for number, claim in enumerate(claims, 1):
        method = ("of method", [claim.method], methods)
        for what, names, known in (method, ("has an axis", claim.axes, axes)):
            for name in names:
                if name not in known:
                    place, hint = f"{where}: claim {number}", nearest(name, sorted(known))
                    raise UsageError(f"no run {what} {name!r}", where=place, hint=hint)


def check_claim(claim: Claim, rows: Sequence[AuditRow]) -> ClaimResult:
    """What every seed says about a claim.

    A seed holds or fails by its number; where the run has a 95 % interval of it, by the number and
    the whole interval, and is undecided if they disagree. A number that is not finite decides
    nothing. Two runs of one seed are of two recipes, and decide nothing.

    Args:
        claim: from `read_claims`.
        rows: judged runs of its method.

    Source: docs/protocol.md, *Claims*.
    """
    seeds = set(claim.seeds)
    runs = [
        row
        for row in rows
        if claim.axes.items() <= row.axes.items() and (not seeds or row.seed in seeds)
    ]
    times = Counter(row.seed for row in runs if row.seed is not None)
    found = [_said(claim, row) for row in runs if row.seed is None or times[row.seed] == 1]
    for seed, count in times.items():
        if count > 1:
            why = "the seed is there twice: an axis, or a filter, chooses one"
            found.append(SeedOutcome(run=f"s{seed}", outcome=UNDECIDED, why=why))
    for seed in dict.fromkeys(claim.seeds):
        if seed not in times:
            found.append(SeedOutcome(run=f"s{seed}", outcome=NOT_MEASURED, why="no such run"))
    return ClaimResult(claim=claim, seeds=tuple(found))


def _said(claim: Claim, row: AuditRow) -> SeedOutcome:
    """What one run says about a claim."""
    run = row.key if row.seed is None else f"s{row.seed}"
    metric, report = BY_NAME[claim.metric], row.report
    value = metric.recorded(report)
    why = report.changed
    if claim.metric in ("margin", "frozen") and report.kinds.get("d") == ASSUMED:
        why = why or "its baseline is assumed"
    if value is None or why:
        return SeedOutcome(run=run, outcome=NOT_MEASURED, why=why or f"no {claim.metric}")
    interval = report.judged_intervals.get(metric.column)
    low, *_, high = sorted((value, value, *(interval or ())))
    inexact = metric.letter in report.inconclusive or report.evidence.get(metric.letter) == PROXY
    if inexact or (claim.metric == "h_L" and report.partial_stream):
        low, high = low if metric.letter == "a" else -math.inf, math.inf
    if not math.isfinite(value):
        return SeedOutcome(run=run, outcome=UNDECIDED, value=value, why="its number is not finite")
    outcome = claim.outcome(low, high)
    if outcome == UNDECIDED:
        why = "the limit lies inside its 95 % interval"
        if (low, high) != interval:
            why = "its number lies outside its 95 % interval"
        if high == math.inf:
            why = "its number is a bound, a proxy, or of a part of the stream"
    return SeedOutcome(run=run, outcome=outcome, value=value, interval=interval, why=why)


def check_claims(claims: Sequence[Claim], rows: Sequence[AuditRow]) -> list[ClaimResult]:
    """Every claim with what the runs say, in order.

    Raises:
        UsageError: more than `MOST_OUTCOMES`.
    """
    of_method: defaultdict[str, list[AuditRow]] = defaultdict(list)
    for row in rows:
        of_method[row.method].append(row)
    asked = sum(len(of_method[claim.method]) for claim in claims)
    if asked > MOST_OUTCOMES:
        raise UsageError(
            f"{len(claims):,} claims about {len(rows):,} runs have {asked:,} answers",
            hint=f"split them: up to {MOST_OUTCOMES:,} are given at once",
        )
    return [check_claim(claim, of_method[claim.method]) for claim in claims]
