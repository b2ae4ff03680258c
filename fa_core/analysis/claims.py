"""Claims about methods, checked over the seeds of audited runs.

A claims file is TOML:

    [[claim]]
    text = "DFA does not beat its frozen baseline by 2 points"
    method = "dfa"
    metric = "margin"          # see METRICS
    at_most = 2.0              # or at_least, or equivalent_to with within
    seeds = [42, 123, 456]     # default: every seed that is there

``versus = "bp"`` compares with another method, seed by seed where both have the seeds. Every
further name is an axis, such as ``d = 256`` or ``lam = 0.01``. Definitions: docs/protocol.md,
*Claims*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from fa_core.analysis.student import student_quantile
from fa_core.decode import Json, checked, reading
from fa_core.errors import UnreadableInput, UsageError
from fa_core.facts.run_names import canonical_method
from fa_core.files import read_file
from fa_core.judgement.gamma import deep_gamma
from fa_core.numbers import count_text
from fa_core.option_values import listed, nearest, unknown_name
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.sanitize import sanitize

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"

_LEVEL = 0.95
_POWER = 0.8
_LARGEST = 1 << 20


class Metric(NamedTuple):
    """A number that claims are about.

    Attributes:
        number: reads it from a report; None where it was not measured.
        is_ratio: whether it spans decades: means are geometric, and two methods are compared by the
            ratio.
    """

    number: Callable[[DiagnosticReport], float | None]
    is_ratio: bool = False


def _gamma(report: DiagnosticReport) -> float | None:
    value = deep_gamma(report.credit or {}, report.method_name)
    if math.isnan(value):
        return None
    return value


METRICS = {
    "acc": Metric(attrgetter("headline_acc")),
    "frozen": Metric(attrgetter("frozen_baseline_acc")),
    "margin": Metric(attrgetter("margin_pp")),
    "growth": Metric(attrgetter("max_per_block_growth"), is_ratio=True),
    "h_L": Metric(attrgetter("h_L"), is_ratio=True),
    "g_L": Metric(attrgetter("g_L"), is_ratio=True),
    "drift": Metric(attrgetter("cross_batch_stability")),
    "gamma": Metric(_gamma),
}
"""The numbers, by the names that filters use."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim. Exactly one of `at_least`, `at_most` and `equivalent_to` is given.

    Attributes:
        method: canonical name.
        metric: one of `METRICS`.
        text: what is claimed, in the words of the paper.
        at_least: the mean, or the difference to `versus`, is this or more.
        at_most: it is this or less.
        equivalent_to: it differs from this by at most `within`.
        within: of `equivalent_to`; a factor ≥ 1 for metrics that are ratios.
        versus: another method: the claim is about the difference, or the ratio of ratios.
        seeds: only these; empty = all.
        axes: further coordinates that the runs must have.
    """

    method: str
    metric: str
    text: str = ""
    at_least: float | None = None
    at_most: float | None = None
    equivalent_to: float | None = None
    within: float | None = None
    versus: str = ""
    seeds: list[int] = []
    axes: Json = {}

    @property
    def needs(self) -> str:
        """The condition: ``≥ 2``, ``≤ 50``, ``0 ± 0.5``; of a ratio ``1 ×/÷ 1.5``."""
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        sign = "×/÷" if METRICS[self.metric].is_ratio else "±"
        return f"{self.equivalent_to:g} {sign} {self.within:g}"

    @property
    def title(self) -> str:
        """The claim in the words of the paper, or else in its names and numbers."""
        return self.text or f"{self.subject} {self.needs}"

    @property
    def subject(self) -> str:
        """What the number is of: ``growth of dfa``, ``acc of dfa − bp``."""
        if not self.versus:
            return f"{self.metric} of {self.method}"
        sign = "/" if METRICS[self.metric].is_ratio else "−"
        return f"{self.metric} of {self.method} {sign} {self.versus}"


class ClaimResult(msgspec.Struct, frozen=True, kw_only=True):
    """A claim and what the runs say.

    Attributes:
        claim: what is claimed.
        outcome: `HOLDS`, `FAILS` or `UNDECIDED`.
        why: why it is undecided; else ``""``.
        runs: how many runs, or pairs of runs, the estimate is of.
        estimate: the mean over seeds, a geometric one of ratios; of `versus` the mean difference or
            ratio. None without a finite number.
        low: lower end of its 95 % interval; None for fewer than two runs.
        high: its upper end.
        smallest_effect: the distance from a limit that so many seeds would show in 80 % of repeated
            experiments; a factor for ratios; None without an interval.
        is_paired: whether runs of the same seed were compared.
    """

    claim: Claim
    outcome: str
    why: str = ""
    runs: int = 0
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    smallest_effect: float | None = None
    is_paired: bool = False

    def to_dict(self) -> Json:
        """Plain values, for JSON."""
        plain: Json = msgspec.to_builtins(self)
        return plain


_NAMES = frozenset(Claim.__struct_fields__) - {"axes"}


def read_claims(path: Path) -> list[Claim]:
    """The claims of a TOML file.

    Raises:
        UnreadableInput: missing, not TOML, or a claim that cannot be meant (its number is named).
    """
    with reading(path, "not a claims file"):
        text = read_file(path, _LARGEST).decode("utf-8-sig")
        try:
            document: Json = msgspec.toml.decode(text)
            checked(document)
        except msgspec.DecodeError as error:
            raise UnreadableInput(f"not TOML: {error}", where=path) from error
    found = document.get("claim")
    if not isinstance(found, list) or not found:
        hint = "write [[claim]] and its method, metric and at_least"
        raise UnreadableInput("no [[claim]] in it", where=path, hint=hint)
    return [_claim_of(fields, f"{path}: claim {number}") for number, fields in enumerate(found, 1)]


def _claim_of(fields: object, where: str) -> Claim:
    """One table of the file as a claim."""
    if not isinstance(fields, dict):
        raise UnreadableInput("not a table", where=where)
    known = {name: value for name, value in fields.items() if name in _NAMES}
    axes = {name: value for name, value in fields.items() if name not in _NAMES}
    try:
        claim = msgspec.convert({**known, "axes": axes}, Claim)
    except msgspec.ValidationError as error:
        raise UnreadableInput(str(error), where=where) from error
    fault = _fault(claim)
    if fault:
        raise UnreadableInput(fault, where=where)
    return msgspec.structs.replace(
        claim,
        method=canonical_method(claim.method),
        versus=canonical_method(claim.versus),
        text=sanitize(claim.text),
    )


def _fault(claim: Claim) -> str:
    """Why a claim cannot be meant; ``""`` if it can."""
    if claim.metric not in METRICS:
        return str(unknown_name("metric", claim.metric, METRICS))
    limits = (claim.at_least, claim.at_most, claim.equivalent_to)
    given = [limit for limit in limits if limit is not None]
    if len(given) != 1 or not math.isfinite(given[0]):
        needs = "needs one finite number: at_least, at_most or equivalent_to"
        if not given and claim.axes:
            return f"{needs}; it has {listed([sanitize(name) for name in claim.axes])}"
        return needs
    if (claim.equivalent_to is None) != (claim.within is None):
        return "equivalent_to and within belong together"
    is_ratio = METRICS[claim.metric].is_ratio
    if is_ratio and given[0] <= 0:
        return f"{claim.metric} is a ratio: its limit must be above 0"
    if claim.within is not None and not claim.within >= (1.0 if is_ratio else 0.0):
        return "within must be 0 or more, and 1 or more (a factor) for growth and norms"
    for name, value in claim.axes.items():
        if not isinstance(value, (str, int, float)):
            hint = nearest(name, sorted(_NAMES))
            return f"{sanitize(name)} is no name of a claim, and an axis has one value; {hint}"
    return ""


def refuse_unknown_names(claims: Sequence[Claim], rows: Iterable[AuditRow], where: Path) -> None:
    """Refuse claims about methods and axes that no run has: a slip of the pen proves nothing.

    Raises:
        UsageError: the first one, and what was meant perhaps.
    """
    methods: set[str] = set()
    axes: set[str] = set()
    for row in rows:
        methods.add(row.method)
        axes.update(row.axes)
    for number, claim in enumerate(claims, 1):
        place = f"{where}: claim {number}"
        for method in filter(None, (claim.method, claim.versus)):
            if method not in methods:
                what = f"no run of method {sanitize(method)!r}"
                raise UsageError(what, where=place, hint=nearest(method, sorted(methods)))
        for axis in claim.axes:
            if axis not in axes:
                what = f"no run has an axis {sanitize(axis)!r}"
                known = [*sorted(axes), *sorted(_NAMES)]
                raise UsageError(what, where=place, hint=nearest(axis, known))


def check_claim(claim: Claim, rows: Sequence[AuditRow]) -> ClaimResult:
    """What runs say about a claim.

    With x_s the metric of seed s (its logarithm for ratios), or x_s − y_s for pairs:

        mean ± t_{0.975, n−1} · s/√n

    A claim holds if the whole interval meets its condition, does not hold if the whole interval
    misses it, and is undecided else. Where a method is compared with another one and they share
    fewer than two seeds, the runs are not paired: Welch's interval with the smaller of the two
    degrees of freedom.

    Args:
        claim: from `read_claims`.
        rows: judged runs.

    Returns:
        Undecided without two runs, where a seed that the claim names is not there, where a run's
        number is not finite, and where a seed is there twice: the runs are then of two recipes.

    Source: docs/protocol.md, *Claims*; Student's t for a mean; smallest effect as
    (t_{0.975} + t_{0.8}) · s/√n (Cohen, Statistical Power Analysis, 1988, §2.4).
    """
    for method in filter(None, (claim.method, claim.versus)):
        repeated = _repeated_seed(_runs_of(claim, rows, method))
        if repeated is not None:
            why = f"seed {repeated} of {method} is there twice: an axis, or a filter, chooses one"
            return _undecided(claim, why)
    own = _values(claim, rows, claim.method)
    other = _values(claim, rows, claim.versus) if claim.versus else {}
    absent = sorted(set(claim.seeds) - own.keys())
    if own and absent:
        return _undecided(claim, f"no run of {claim.method} with seed {listed(absent)}")
    if not own or (claim.versus and not other):
        missing = claim.versus if own else claim.method
        methods = sorted({row.method for row in rows})
        if missing in methods:
            return _undecided(claim, f"no run of {missing} with {claim.metric}")
        return _undecided(claim, f"no run of {missing}; there are {listed(methods)}")
    values = [*own.values(), *other.values()]
    broken = sum(not math.isfinite(value) for value in values)
    if broken:
        why = f"{claim.metric} is not finite, or not above 0, in {count_text(broken, 'run')}"
        return _undecided(claim, why)
    common = [seed for seed in own if seed in other and seed is not None]
    if not claim.versus:
        return _judged(claim, _sample(list(own.values())), is_paired=False)
    if len(common) >= 2:
        differences = [own[seed] - other[seed] for seed in common]
        return _judged(claim, _sample(differences), is_paired=True)
    return _judged(claim, _welch(list(own.values()), list(other.values())), is_paired=False)


def _runs_of(claim: Claim, rows: Sequence[AuditRow], method: str) -> Iterator[AuditRow]:
    """The runs of one method that a claim is about and that have its metric."""
    for row in rows:
        if row.method != method or (claim.seeds and row.seed not in claim.seeds):
            continue
        if any(row.axes.get(name) != value for name, value in claim.axes.items()):
            continue
        if METRICS[claim.metric].number(row.report) is not None:
            yield row


def _repeated_seed(rows: Iterable[AuditRow]) -> int | None:
    """The first seed that two runs have; None if there is none."""
    seen: set[int] = set()
    for row in rows:
        if row.seed in seen:
            return row.seed
        if row.seed is not None:
            seen.add(row.seed)
    return None


def _values(claim: Claim, rows: Sequence[AuditRow], method: str) -> dict[object, float]:
    """Seed → the metric of the claim's runs of one method; its logarithm for ratios, NaN where that
    does not exist. A run without a seed is named by its key."""
    metric = METRICS[claim.metric]
    found: dict[object, float] = {}
    for row in _runs_of(claim, rows, method):
        value = metric.number(row.report)
        assert value is not None
        name: object = row.seed
        if row.seed is None:
            name = f"{row.source}: {row.key}"
        found[name] = _on_scale(value, metric)
    return found


def _on_scale(value: float, metric: Metric) -> float:
    if not metric.is_ratio:
        return value
    if value > 0:
        return math.log(value)
    return math.nan


class _Sample(NamedTuple):
    """A mean with its standard error.

    Attributes:
        runs: how many runs, or pairs.
        mean: of them.
        error: standard error of the mean; None for one run.
        freedom: degrees of freedom.
    """

    runs: int
    mean: float
    error: float | None
    freedom: int


def _sample(values: Sequence[float]) -> _Sample:
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return _Sample(count, mean, None, 0)
    squares = math.fsum((value - mean) ** 2 for value in values)
    return _Sample(count, mean, math.sqrt(squares / (count - 1) / count), count - 1)


def _welch(own: Sequence[float], other: Sequence[float]) -> _Sample:
    """The difference of two independent means."""
    first, second = _sample(own), _sample(other)
    runs = min(first.runs, second.runs)
    mean = first.mean - second.mean
    if first.error is None or second.error is None:
        return _Sample(runs, mean, None, 0)
    freedom = min(first.freedom, second.freedom)
    return _Sample(runs, mean, math.hypot(first.error, second.error), freedom)


def _undecided(claim: Claim, why: str) -> ClaimResult:
    return ClaimResult(claim=claim, outcome=UNDECIDED, why=why)


def _judged(claim: Claim, sample: _Sample, *, is_paired: bool) -> ClaimResult:
    """The outcome that a sample gives."""
    metric = METRICS[claim.metric]
    back = math.exp if metric.is_ratio else float
    if sample.error is None:
        why = "one run has no spread: two seeds or more give an interval"
        estimate = back(sample.mean)
        return ClaimResult(
            claim=claim, outcome=UNDECIDED, why=why, runs=sample.runs, estimate=estimate
        )
    t = student_quantile((1 + _LEVEL) / 2, sample.freedom)
    low, high = sample.mean - t * sample.error, sample.mean + t * sample.error
    outcome = _outcome(claim, low, high)
    shown = (t + student_quantile(_POWER, sample.freedom)) * sample.error
    why = ""
    if outcome == UNDECIDED:
        why = "the interval holds the limit: more seeds, or a larger effect, would decide it"
    return ClaimResult(
        claim=claim,
        outcome=outcome,
        why=why,
        runs=sample.runs,
        estimate=back(sample.mean),
        low=back(low),
        high=back(high),
        smallest_effect=back(shown),
        is_paired=is_paired,
    )


def _outcome(claim: Claim, low: float, high: float) -> str:
    """Whether an interval, on the scale of the metric, meets the condition."""
    least, most = _range(claim)
    if least <= low and high <= most:
        return HOLDS
    if high < least or low > most:
        return FAILS
    return UNDECIDED


def _range(claim: Claim) -> tuple[float, float]:
    """The numbers that meet the condition, on the scale of the metric."""
    metric = METRICS[claim.metric]
    if claim.at_least is not None:
        return _on_scale(claim.at_least, metric), math.inf
    if claim.at_most is not None:
        return -math.inf, _on_scale(claim.at_most, metric)
    if claim.equivalent_to is None or claim.within is None:
        raise UsageError("a claim without a condition")
    middle = _on_scale(claim.equivalent_to, metric)
    width = _on_scale(claim.within, metric)
    return middle - width, middle + width


def check_claims(claims: Sequence[Claim], rows: Sequence[AuditRow]) -> list[ClaimResult]:
    """Every claim with what the runs say, in order."""
    return [check_claim(claim, rows) for claim in claims]
