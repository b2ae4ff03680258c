"""The frozen baseline of (d): recorded, measured in the same audit, given, or assumed.

Which frozen run is the baseline of which run: one trained by the same rule. Which runs get none,
and why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from fa_core.errors import UsageError
from fa_core.facts.controls import FROZEN, TRAINED_BY, WITHOUT_BASELINE
from fa_core.facts.method_style import METHOD_STYLES
from fa_core.judgement.intervals import paired_margin

if TYPE_CHECKING:
    from fa_core.report import DiagnosticReport
    from fa_core.rows import AuditRow

BASELINE_FROM = "frozen_baseline_from"
"""Provenance member that says where a recorded baseline came from that was not in the run's
manifest."""

BASELINE_RULE = "frozen_baseline_rule"
"""And that says which rule trained the frozen net, where that is not the run's own."""

OTHER_BASELINES = "other_frozen_baselines"
"""And that holds the accuracies of frozen nets trained by other rules: rule → fraction."""

TRAINED_ON = "trained_on"
"""Provenance member with the hash of the data that a run was trained with, which may not be those
it is measured on."""

GIVEN = "given"
"""What it says of one that the user gave while measuring the run."""


def why_no_baseline(method: str) -> str:
    """Why (d) is not asked of a control; ``""`` for every other method.

    >>> why_no_baseline("frozen"), why_no_baseline("dfa")
    ('frozen is a baseline itself', '')
    """
    if method == "random_init":
        return "not applicable to an untrained net"
    if method in WITHOUT_BASELINE:
        return f"{method} is a baseline itself"
    return ""


class FrozenBaseline(msgspec.Struct, frozen=True):
    """A frozen-blocks accuracy to assume: (d) is judged by it, and nothing takes it for a measured
    one.

    Attributes:
        default: for every run that recorded none (a fraction), or None; not for a control that is a
            baseline itself.
        by_method: canonical method name → accuracy for that method, in place of a recorded one too.
    """

    default: float | None = None
    by_method: Mapping[str, float] = {}

    def check(self, methods: Iterable[str]) -> None:
        """Refuse a name that no run has and no method; of no runs at all nothing is said.

        Args:
            methods: of the runs, in order.

        Raises:
            UsageError: names it, and which methods there are.
        """
        from fa_core.option_values import nearest

        known = dict.fromkeys(methods)
        for name in self.by_method:
            if known and name not in known and name not in METHOD_STYLES:
                raise UsageError(
                    f"--frozen-baseline {name}=...: no run of method {name!r}",
                    hint=nearest(name, known),
                )

    def __bool__(self) -> bool:
        """Whether anything is assumed."""
        return self.default is not None or bool(self.by_method)

    def assumed_for(self, method: str, recorded: float | None = None) -> float | None:
        """The accuracy assumed for a method's runs that record this one, or none; None if none is
        assumed."""
        acc = self.by_method.get(method)
        if acc is None and recorded is None and method not in WITHOUT_BASELINE:
            return self.default
        return acc

    def lent_to(self, report: DiagnosticReport, method: str) -> DiagnosticReport:
        """The report of a run of this method, judged by the baseline."""
        acc = self.assumed_for(method, report.frozen_baseline_acc)
        if acc is None:
            return report
        return report.with_assumed_baseline(acc)

    def apply(self, rows: Iterable[AuditRow]) -> list[AuditRow]:
        """The rows judged by the baseline; rows without a measurement stay as they are."""
        if self:
            return [self.filled(row) for row in rows]
        return list(rows)

    def filled(self, row: AuditRow) -> AuditRow:
        """A row judged by the baseline, if anything of it was measured."""
        return row.judged_by(self)

    def recorded(self, row: AuditRow) -> AuditRow:
        """A row with the baseline as its own if it has none: for a caller that measures it now, and
        knows it.

        One that a run has is never lost: in its place another can only be assumed.
        """
        report, acc = row.report, self.assumed_for(row.method)
        if report.frozen_baseline_acc is not None or acc is None or not report.coverage:
            return self.filled(row)
        return replace(row, report=report.with_frozen_baseline(acc))


def rule_of(method: str, args: Mapping[str, Any]) -> str:
    """The rule that trains a run, with its options: of a control the one that it trains by.

    >>> rule_of("frozen", {}), rule_of("frozen", {"of": "bp"}), rule_of("ep", {"steps": 5})
    ('dfa', 'bp', 'ep(steps=5)')
    """
    options = dict(args)
    if method in TRAINED_BY:
        rule = options.pop("of", TRAINED_BY[method])
    else:
        rule = method
    listed = ", ".join(f"{name}={value}" for name, value in sorted(options.items()))
    if listed:
        return f"{rule}({listed})"
    return str(rule)


class FrozenRun(msgspec.Struct, frozen=True):
    """A run with frozen blocks whose accuracy is known.

    Attributes:
        source: its folder or file.
        rule: see `rule_of`.
        facts: see `facts_of`.
        acc: its accuracy, a fraction.
        right: which samples it classified rightly, where that was recorded
            (`fa_core.judgement.intervals.packed`).
    """

    source: str
    rule: str
    facts: Mapping[str, Any]
    acc: float
    right: str | None = None


def facts_of(known: Mapping[str, Any], seed: int | None, frozen: bool = False) -> dict[str, Any]:
    """What a run must share with its baseline: network and arguments, data, seed and recipe.

    λ is left out: with frozen blocks the penalty trains nothing.

    Args:
        known: the run's manifest as a mapping, or its report's provenance. What the two say of the
            data is the data it was trained with; a provenance has the data it was measured on
            besides.
        seed: the run's.
        frozen: it is a baseline itself, and so has to be trained to the end: its epochs are those
            that are done.

    Returns:
        Name → value; empty where the network or the seed is not known.
    """
    if seed is None or known.get("arch") is None:
        return {}
    facts: dict[str, Any] = {"seed": seed}
    for name in ("arch", "data", "data_hash"):
        facts[name] = known.get(name)
    facts[TRAINED_ON] = known.get(TRAINED_ON) or known.get("data_hash")
    for name in ("arch_args", "recipe"):
        value = known.get(name)
        facts |= value if isinstance(value, Mapping) else {name: value}
    if frozen and "epochs" in facts and known.get("epochs_done") is not None:
        facts["epochs"] = known["epochs_done"]
    facts.pop("lam", None)
    return facts


class FrozenRuns:
    """The frozen baselines that are at hand.

    Args:
        runs: in the order in which one is taken before another that fits as well.
    """

    def __init__(self, runs: Iterable[FrozenRun]) -> None:
        self._alike: defaultdict[bytes, list[FrozenRun]] = defaultdict(list)
        self._same_net: defaultdict[tuple[object, object], list[FrozenRun]] = defaultdict(list)
        for run in runs:
            self._alike[_ORDERED.encode(run.facts)].append(run)
            self._same_net[run.facts.get("seed"), run.facts.get("arch")].append(run)

    def judge(
        self, report: DiagnosticReport, rule: str, facts: Mapping[str, Any]
    ) -> DiagnosticReport:
        """A run's report with its baseline: of the frozen runs alike, the one trained by the same
        rule.

        One of another rule is taken where the run has no baseline yet, and `BASELINE_RULE` says so;
        those that are not judged by are kept as `OTHER_BASELINES`. One of another recipe, network
        or data is never taken: the reason why (d) was not measured names it. A baseline that the
        user gave stays.
        """
        if not facts or report.provenance.get(BASELINE_FROM) == GIVEN:
            return report
        alike = self._alike.get(_ORDERED.encode(facts), [])
        for run in alike:
            if run.rule == rule:
                return _judged_by(run, report, rule, alike)
        if report.frozen_baseline_acc is not None:
            return report
        if alike:
            return _judged_by(alike[0], report, rule, alike)
        return self._unmeasured(report, facts)

    def _unmeasured(self, report: DiagnosticReport, facts: Mapping[str, Any]) -> DiagnosticReport:
        """The report with the reason why no frozen run of its network and seed is its baseline."""
        near = self._same_net.get((facts["seed"], facts["arch"]), [])
        if not near:
            return report
        reasons = [_difference(run, facts) for run in near]
        _, nearest = min(reasons, key=itemgetter(0))
        return replace(report, unmeasured={**report.unmeasured, "d": nearest})


def _judged_by(
    best: FrozenRun, report: DiagnosticReport, rule: str, alike: Sequence[FrozenRun]
) -> DiagnosticReport:
    """A report judged by a frozen run; the accuracies of the other rules' runs are kept."""
    others = {run.rule: run.acc for run in reversed(alike) if run.rule != best.rule}
    provenance = dict(report.provenance)
    for name in (BASELINE_RULE, OTHER_BASELINES):
        provenance.pop(name, None)
    provenance[BASELINE_FROM] = best.source
    if best.rule != rule:
        provenance[BASELINE_RULE] = best.rule
    if others:
        provenance[OTHER_BASELINES] = others
    judged = replace(report.with_frozen_baseline(best.acc), provenance=provenance)
    if not (report.right and best.right):
        return judged
    paired = paired_margin(report.right, best.right)
    if paired is None:
        return judged
    return replace(judged, intervals={**judged.intervals, "margin_pp": paired})


def _difference(run: FrozenRun, facts: Mapping[str, Any]) -> tuple[int, str]:
    """In how many facts a frozen run differs, and the sentence that names them."""
    names = [name for name in {**facts, **run.facts} if facts.get(name) != run.facts.get(name)]
    listed = "; ".join(
        f"{name} {run.facts.get(name, '(none)')}, not {facts.get(name, '(none)')}" for name in names
    )
    why = (
        f"the frozen run {run.source} has {listed}; give its accuracy with --frozen-baseline "
        "to use it"
    )
    return len(names), why


def with_measured_baselines(rows: Iterable[AuditRow]) -> list[AuditRow]:
    """The rows with (d) judged by the frozen-blocks runs that were measured in the same audit
    (`FrozenRuns.judge`)."""
    rows = list(rows)
    frozen = FrozenRuns(_frozen_runs(rows))
    judged = []
    for row in rows:
        if row.method not in WITHOUT_BASELINE:
            facts = facts_of(row.report.provenance, row.seed)
            row = replace(row, report=frozen.judge(row.report, _rule(row), facts))
        judged.append(row)
    return judged


def _frozen_runs(rows: Iterable[AuditRow]) -> Iterator[FrozenRun]:
    """The frozen-blocks runs among some rows whose accuracy was measured."""
    for row in rows:
        report = row.report
        if row.method == FROZEN and report.headline_acc is not None:
            facts = facts_of(report.provenance, row.seed, frozen=True)
            source = row.checkpoint or row.source
            yield FrozenRun(source, _rule(row), facts, report.headline_acc, report.right)


def with_baseline(row: AuditRow, acc: float | None, source: str) -> AuditRow:
    """The row with this baseline, and where it came from."""
    report = row.report.with_frozen_baseline(acc)
    facts = {name: value for name, value in report.provenance.items() if name != BASELINE_RULE}
    return replace(row, report=replace(report, provenance={**facts, BASELINE_FROM: source}))


def _rule(row: AuditRow) -> str:
    args = row.report.provenance.get("method_args")
    return rule_of(row.method, args if isinstance(args, Mapping) else {})


_ORDERED = msgspec.json.Encoder(order="deterministic")
