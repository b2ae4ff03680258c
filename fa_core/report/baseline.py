"""Frozen baselines of (d): assumed, or of the frozen run of the same network, data, seed, recipe
and rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from itertools import islice
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from fa_core.errors import UsageError
from fa_core.files.decode import Json
from fa_core.report.intervals import paired_margin
from fa_core.report.method_style import METHOD_STYLES, TRAINED_BY, WITHOUT_BASELINE
from fa_core.report.provenance import (
    BASELINE_FROM,
    BASELINE_RULE,
    OTHER_BASELINES,
    TRAINED_ON,
)
from fa_core.report.report_facts import ReportFacts

GIVE_ONE = " (give a frozen run, or its accuracy)"
"""Hint for (d) without a baseline."""

Facts = TypeVar("Facts", bound=ReportFacts)


def why_no_baseline(method: str) -> str:
    """Why (d) does not apply to a control; ``""`` for other methods.

    >>> why_no_baseline("frozen"), why_no_baseline("dfa")
    ('frozen is a baseline itself', '')
    """
    if method == "random_init":
        return "not applicable to an untrained net"
    if method in WITHOUT_BASELINE:
        return f"{method} is a baseline itself"
    return ""


class FrozenBaseline(msgspec.Struct, frozen=True):
    """Assumed frozen-blocks accuracies for (d), never treated as measured.

    Attributes:
        default: a fraction for runs without a recorded one, except controls that are baselines; or
            None.
        by_method: canonical method name → accuracy, which overrides recorded ones.
    """

    default: float | None = None
    by_method: Mapping[str, float] = {}

    def check(self, methods: Iterable[str]) -> None:
        """Refuse names of methods without runs, if there are runs.

        Args:
            methods: the runs' methods, in order.

        Raises:
            UsageError: with the known methods in the hint.
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
        """The assumed accuracy for a run of a method with a recorded accuracy or None; None if none
        is assumed."""
        acc = self.by_method.get(method)
        if acc is None and recorded is None and method not in WITHOUT_BASELINE:
            return self.default
        return acc

    def assumed_in(self, report: Facts, method: str) -> Facts:
        """A method's report judged by the assumed baseline."""
        acc = self.assumed_for(method, report.frozen_baseline_acc)
        return report if acc is None else report.with_assumed_baseline(acc)


def _as_one(value: object) -> Hashable:
    """A value of JSON that can be looked up; 1 is 1.0, as in a manifest of another writer."""
    if isinstance(value, Mapping):
        return frozenset((name, _as_one(one)) for name, one in value.items())
    return tuple(map(_as_one, value)) if isinstance(value, list) else value


def rule_of(method: str, args: Mapping[str, object]) -> str:
    """The rule that trains a run, with its options; for a control, the rule it trains by.

    >>> rule_of("frozen", {}), rule_of("frozen", {"of": "bp"}), rule_of("ep", {"steps": 5})
    ('dfa', 'bp', 'ep(steps=5)')
    """
    options = dict(args)
    rule = method
    if method in TRAINED_BY:
        rule = str(options.pop("of", TRAINED_BY[method]))
    pairs = [f"{name}={value}" for name, value in sorted(options.items())]
    return f"{rule}({', '.join(pairs)})" if pairs else rule


UNKNOWN = ""
"""Rule of a frozen run of which the rule is not known, or the network, or whether it is one."""


class FrozenRun(msgspec.Struct, frozen=True):
    """A run with frozen blocks and known accuracy.

    Attributes:
        source: its folder or file, or the file and the key of its record.
        rule: see `rule_of`; or `UNKNOWN`, of a run that judges none.
        facts: see `facts_of`; empty of a run of which nothing is known, nor the rule.
        acc: its accuracy, a fraction.
        right: correctly classified samples, if recorded (`fa_core.report.intervals.packed`).
        unfit: why it judges no run; else ``""``.
    """

    source: str
    rule: str
    facts: Json
    acc: float
    right: str | None = None
    unfit: str = ""

    @property
    def fits(self) -> Hashable:
        """Its facts as one value, equal for all runs that have them."""
        return _as_one(self.facts)


def facts_of(known: Mapping[str, object], seed: int | None) -> Json:
    """Facts that a run shares with its baseline: network and arguments, data, seed, recipe, and the
    epochs that are complete.

    λ is left out: with frozen blocks the penalty has no effect.

    Args:
        known: the run's manifest as a mapping, or its report's provenance. The data are those of
            training, not of measurement.
        seed: the run's seed.

    Returns:
        Name → value; empty if network or seed are unknown.
    """
    if seed is None or known.get("arch") is None:
        return {}
    facts: Json = {"seed": seed}
    for name in ("arch", "data", "data_hash"):
        facts[name] = known.get(name)
    facts[TRAINED_ON] = known.get(TRAINED_ON) or known.get("data_hash")
    for name in ("arch_args", "recipe"):
        value = known.get(name)
        facts |= value if isinstance(value, Mapping) else {name: value}
    done = known.get("epochs_done")
    if "epochs" in facts and done not in (None, facts["epochs"]):
        facts["epochs_done"] = done
    facts.pop("lam", None)
    return facts


OF_FROZEN = "of the frozen run"
"""How the reason begins why a run has no baseline by the frozen run that it matches."""

_AT_MOST = 16
"""Frozen runs of a network and seed that are compared with a run, or kept: a file may hold many."""


class FrozenRuns:
    """The frozen runs at hand. Of all that fit a run by one rule the accuracies have to be equal,
    whatever they are called and whichever record says it; else none of them judges.

    Args:
        runs: in order of preference.
    """

    def __init__(self, runs: Iterable[FrozenRun]) -> None:
        self._alike: defaultdict[Hashable, dict[str, FrozenRun]] = defaultdict(dict)
        self._same_net: defaultdict[tuple[object, object], list[FrozenRun]] = defaultdict(list)
        for run in sorted(runs, key=lambda run: (not run.unfit, not run.right)):
            alike = self._alike[run.fits]
            first = alike.setdefault(run.rule, run)
            if run.acc != first.acc and not first.unfit:
                twin = f"and of {first.source}, which fits as well, the accuracies differ"
                alike[run.rule] = replace(run, unfit=twin)
            # with a hash of its data it may fit those that record none, and the other way
            near = run.facts | {"data_hash": not run.facts.get("data_hash"), TRAINED_ON: None}
            unsure = replace(run, unfit="no hash says that its data are the same")
            self._alike[_as_one(near)].setdefault(run.rule, unsure)
            self._same_net[run.facts.get("seed"), run.facts.get("arch")].append(run)

    def best(self, rule: str, facts: Json) -> FrozenRun | None:
        """The frozen run that judges a run: of its own rule, else the only one of another; None if
        none fits. Where several fit alike, or one of them judges none, it says so
        (`FrozenRun.unfit`): then none of another rule is taken, either; nor is it where one may
        fit: its rule is `UNKNOWN`, or only one of the two records a hash of its data.
        """
        near = facts | {"data_hash": bool(facts.get("data_hash")), TRAINED_ON: None}
        alike = dict[str, FrozenRun]()
        for key in ({}, facts, near):
            alike |= self._alike.get(_as_one(key), {})
        fitting = sorted(
            alike.values(),
            key=lambda run: (run.rule != rule, run.rule != UNKNOWN, run.unfit, run.rule),
        )
        if len(fitting) > 1 and fitting[0].rule not in (rule, UNKNOWN):
            one, other, *_ = fitting
            return replace(
                one, unfit=f"and of {other.source} the rules differ, and none is its own"
            )
        return next(iter(fitting), None)

    def judge(self, report: Facts, rule: str, facts: Json) -> Facts:
        """A run's report with its baseline, of the frozen run that judges it (`best`).

        Another rule than its own is noted in `BASELINE_RULE`; the others are kept as
        `OTHER_BASELINES`. One of another recipe, network or data is never used. Why (d) was not
        measured names the one that fits and judges none; else those that do not fit (its own
        rule's first), or what was looked for.
        """
        if not facts:
            return report
        best = self.best(rule, facts)
        if best and not best.unfit:
            return _judged_by(best, report, rule, self._alike[best.fits])
        near = self._same_net.get((facts["seed"], facts["arch"]), [])[:_AT_MOST]
        none = f"none of {facts['arch']}, seed {facts['seed']}, can be read here or beside it"
        differing = [(run.rule != rule, *_difference(run, facts)) for run in near]
        *_, why = min(differing, default=(f"no frozen run{GIVE_ONE}: {none}",))
        if best:
            why = (
                f"{OF_FROZEN} {best.source} {best.unfit}: "
                "mend, measure or remove it, or give an accuracy by --frozen-baseline"
            )
        return replace(report, unmeasured={**report.unmeasured, "d": why})


def _judged_by(best: FrozenRun, report: Facts, rule: str, alike: Mapping[str, FrozenRun]) -> Facts:
    """A report judged by a frozen run; the accuracies of the other rules' runs are kept."""
    others = {
        name: run.acc
        for name, run in islice(alike.items(), _AT_MOST)
        if name != best.rule and not run.unfit
    }
    provenance = {**report.provenance, BASELINE_FROM: best.source}
    if best.rule != rule:
        provenance[BASELINE_RULE] = best.rule
    if others:
        provenance[OTHER_BASELINES] = others
    judged = replace(report.with_frozen_baseline(best.acc), provenance=provenance)
    paired = report.right and best.right and paired_margin(report.right, best.right)
    if paired:
        judged = replace(judged, intervals={**judged.intervals, "margin_pp": paired})
    return judged


def _difference(run: FrozenRun, facts: Mapping[str, object]) -> tuple[int, str]:
    """Number of facts in which a frozen run differs, and a sentence that lists them."""
    found = [
        f"{name} {run.facts.get(name, '(none)')}, not {facts.get(name, '(none)')}"
        for name in {**facts, **run.facts}
        if facts.get(name) != run.facts.get(name)
    ]
    hint = "give its accuracy as the frozen baseline to use it"
    if run.facts.get("rule") != facts.get("rule"):
        # known from the names of checkpoints alone
        hint = f"to use it, name it frozen_of-{facts.get('rule')}, or give its accuracy"
    return len(found), f"the frozen run {run.source} has {'; '.join(found)}; {hint}"
