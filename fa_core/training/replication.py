"""The published experiments: the commands that redo them, and what came out compared with the published figures.

The experiments are data: `replication.toml` next to this module.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fa_core.analysis.timeline import timeline
from fa_core.facts.runs import Manifest, read_manifest
from fa_core.formats import Scan, Trace
from fa_core.judgement.gamma import AGGREGATIONS, aggregations, deep_gamma, null_gamma
from fa_core.option_values import split_place, unknown_name
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.table import Floats
from fa_core.training.plan import Recipe, RunPlan, plan_runs

Number = Callable[[DiagnosticReport], "float | None"]
Scale = Callable[[Any], Any]

NUMBERS: Mapping[str, Number] = {
    "acc": lambda report: report.headline_acc,
    "growth": lambda report: report.max_per_block_growth,
    "h_L": lambda report: report.h_L,
    "g_L": lambda report: report.g_L,
    "drift": lambda report: report.cross_batch_stability,
    "margin_pp": lambda report: report.margin_pp,
    "deep_gamma": lambda report: _known(deep_gamma(report.credit, report.method_name)),
    "deep_gamma_with_free": lambda report: _known(
        aggregations(report.credit)[AGGREGATIONS.index("mean, l ≥ 1")]
    ),
    "null_gamma": lambda report: _known(null_gamma(report.credit, report.method_name)[0]),
}
"""Published number → the same of a report; `gamma_0`, `gamma_1`, … are Γ of a layer."""

OF_AUDITS = ("acc", "growth", "h_L", "g_L", "drift")
"""The numbers that a published audit file holds per run."""

DECADES = frozenset({"growth", "h_L", "g_L"})
"""Numbers that span decades: compared as geometric means."""

SEEDS = 3
"""Behind every published deviation."""

JUDGED = "abd"
"""The diagnostics whose firing is compared; (c) is bimodal over seeds and compared as a number."""


def _known(gamma: float) -> float | None:
    """Γ as one number: a credit table has NaN where nothing was measured."""
    return gamma if math.isfinite(gamma) else None


_OF_CONTROLS: Mapping[str, dict[str, Any]] = {"random_init": {"epochs": 0}, "shallow": {"L": 0}}
"""What controls are trained with, whatever the options say."""


class Experiment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One published experiment (fields: see `replication.toml`)."""

    name: str
    title: str
    folder: str
    steps: list[str]
    published: list[list[Any]] = []
    order: list[list[str]] = []
    table: str = ""
    notes: str = ""

    def commands(
        self, cifar10: str, cifar100: str, out: str, quick: bool = False
    ) -> list[list[str]]:
        """Arguments of `fa-tui`, in order; each goes on where an earlier try stopped.

        Args:
            cifar10: folder of CIFAR-10.
            cifar100: folder of CIFAR-100.
            out: folder of all experiments.
            quick: one epoch of one seed: whether the folders and the machine can do it.
        """
        filled = {
            "{cifar10}": f"cifar10:{cifar10}",
            "{cifar100}": f"cifar100:{cifar100}",
            "{runs}": self.runs(out),
        }
        steps = [[filled.get(word, word) for word in step.split()] for step in self.steps]
        for step in steps if quick else ():
            for option, value in (("--epochs", "1"), ("--seeds", "42")):
                if option in step:
                    step[step.index(option) + 1] = value
        return [[*step, "--resume"] for step in steps]

    def plans(self) -> dict[str, RunPlan]:
        """The runs that its steps train, each once, by the names of their folders, in the order of their seeds."""
        found: dict[str, RunPlan] = {}
        for _, *words in map(str.split, self.steps):
            options = zip(words[::2], words[1::2], strict=True)
            given = defaultdict(
                list, {name[2:].replace("-", "_"): value.split(",") for name, value in options}
            )
            recipe = {
                name: given[name][0]
                for name in given.keys() & set(Recipe.__struct_fields__) - {"lam"}
            }
            plans = plan_runs(
                given["method"],
                [*map(int, given["seeds"])],
                arch=given["arch"][0],
                data=given["data"][0],
                recipe=msgspec.convert(recipe, Recipe, strict=False),
                lams=[*map(float, given["lam"])],
                widths=[*map(int, given["d"])],
                depths=[*map(int, given["L"])],
                method_args=dict(argument.split("=") for argument in given["method_arg"]),
            )
            found |= {plan.name: plan for plan in plans}
        return dict(sorted(found.items(), key=lambda item: item[1].seed))

    def left_out(self, plan: RunPlan, found: Manifest, report: DiagnosticReport) -> str:
        """Why a run is not compared: it is not the planned one, or not finished; ``""`` for one that is compared."""
        kind, _, place = found.data.partition(":")
        data = kind + split_place(place)[1] if "{" in plan.data else found.data
        has = {
            "arch": found.arch,
            "data": data,
            **found.recipe,
            **found.arch_args,
            **found.method_args,
        }
        asked = {
            "arch": plan.arch,
            "data": plan.data.strip("{}"),
            **msgspec.to_builtins(plan.recipe),
        }
        asked |= plan.arch_args | plan.method_args | _OF_CONTROLS.get(plan.method, {})
        unlike = [
            f"{name} {has.get(name)}, not {value}"
            for name, value in asked.items()
            if has.get(name) != value
        ]
        if unlike:
            return "; ".join(unlike)
        by_plan = any("--stop-on" in step for step in self.steps)
        ended = found.stopped and (by_plan or found.stopped.startswith("diverged"))
        if found.epochs_done < asked["epochs"] and not ended:
            return f"{found.epochs_done} of {asked['epochs']} epochs"
        return "" if report.coverage else "not measured"

    def runs(self, out: str) -> str:
        """The folder of its runs."""
        return str(Path(out, self.folder))


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """A published number that follows from the published files (fields: see `replication.toml`)."""

    text: str
    command: str
    place: str
    published: float

    def agrees(self, here: float) -> bool:
        """Whether it is the published number, to the digits that are published."""
        digits = len(repr(self.published).replace(".", "").split("e")[0].strip("0"))
        return float(f"{here:.{max(digits, 3) - 1}e}") == float(
            f"{self.published:.{max(digits, 3) - 1}e}"
        )

    def found_in(self, record: Any) -> float:
        """Its number in what the command prints as JSON.

        >>> Claim("", "", "groups/method=dfa/seeds/#", 3).found_in({"groups": [{"method": "dfa", "seeds": [1, 2]}]})
        2
        """
        for part in self.place.split("/"):
            name, picks, value = part.partition("=")
            if part == "#":
                record = len(record)
            elif picks:
                record = next(one for one in record if one[name] == value)
            else:
                record = record[int(part) if isinstance(record, list) else part]
        return record  # type: ignore[no-any-return]


class Source(msgspec.Struct, frozen=True):
    """The publication that the figures and the audit files are from."""

    title: str
    author: str
    year: int
    eprint: str

    def words(self) -> str:
        """For running text."""
        return f"{self.author}, “{self.title}”, arXiv:{self.eprint}, {self.year}."

    def bibtex(self) -> str:
        """An entry for BibTeX."""
        fields = {
            "title": self.title,
            "author": f"{{{self.author}}}",
            "year": self.year,
            "eprint": self.eprint,
        }
        listed = ", ".join(f"{name} = {{{value}}}" for name, value in fields.items())
        return f"@misc{{arxiv{self.eprint}, {listed}, archivePrefix = {{arXiv}}}}"


class Run(msgspec.Struct, frozen=True):
    """A finished run: its report, and its epochs where it has any."""

    report: DiagnosticReport
    trace: Trace | None = None


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """A published figure next to the same number of the runs here.

    Attributes:
        run: method and axes; ``"all"`` of an order.
        number: which.
        published: a mean and perhaps its deviation, or of each seed the number, the epoch (0 for never) or the letters
            that fire; of an order the order.
        here: the same per planned seed, None where no finished run has it; of an order the mean of each run.
        mean: of `here`, a geometric one of `DECADES`; None of letters and where a seed is missing.
        band: where it may lie; None for what has to be the same.
        unchecked: why a figure is only shown.
        agrees: whether they do; None where a seed is missing or the figure is only shown.
    """

    run: str
    number: str
    published: tuple[Any, ...]
    here: tuple[Any, ...]
    mean: float | None = None
    band: tuple[float, float] | None = None
    unchecked: str = ""
    agrees: bool | None = None

    @property
    def outcome(self) -> str:
        """How the figures compare with the published one, as text."""
        there, wanted = sum(value is not None for value in self.here), len(self.here)
        if there < wanted:
            return (
                f"{there} of {wanted} {'runs' if self.number == 'order' else 'seeds'}"
                if there
                else "no figure yet"
            )
        return {None: "not checked", True: "agrees", False: "differs"}[self.agrees]


class _Document(msgspec.Struct, frozen=True):
    without_spread: dict[str, float]
    too_wide: dict[str, float]
    experiment: list[Experiment]
    claim: list[Claim]
    source: Source


@cache
def _document() -> _Document:
    return msgspec.toml.decode(Path(__file__).with_suffix(".toml").read_bytes(), type=_Document)


def experiments() -> list[Experiment]:
    """All of them, in the order in which they are best done."""
    return _document().experiment


def claims() -> list[Claim]:
    """What is published of the published files."""
    return _document().claim


def source() -> Source:
    """Where it is published."""
    return _document().source


def experiment(name: str) -> Experiment:
    """The one of that name.

    Raises:
        UsageError: there is none.
    """
    found = {one.name: one for one in experiments()}
    if name not in found:
        raise unknown_name("experiment", name, found)
    return found[name]


def finished(chosen: Experiment, found: Scan) -> tuple[dict[str, Run], list[str]]:
    """The finished runs of an experiment by the names of their folders, and why others are not compared.

    Args:
        chosen: the experiment.
        found: its run folders.
    """
    rows = {row.key: row for row in found.rows if row.checkpoint}
    traces = {trace.key: trace for trace in found.traces}
    runs: dict[str, Run] = {}
    left_out = []
    for name, plan in chosen.plans().items():
        if row := rows.get(name):
            why = chosen.left_out(plan, read_manifest(Path(row.checkpoint or "")), row.report)
            if why:
                left_out.append(f"{name} is not compared: {why}")
            else:
                runs[name] = Run(row.report, traces.get(name))
    return runs, left_out


def compared(
    chosen: Experiment, runs: Mapping[str, Run], published: Scan | None = None
) -> list[Compared]:
    """Every published figure of an experiment with what came out here.

    A figure agrees if the mean over all planned seeds lies within three standard deviations of the difference between
    two such means, 3·s·√(2/n), s being the published deviation over n seeds (of `DECADES` by their logarithms; at least
    one epoch); a figure without a deviation has the band of its number. Runs never fire, or fire, on as many seeds as
    published; (a), (b) and (d) seed by seed. Of an experiment with an `order` only that is checked.

    Args:
        chosen: the experiment.
        runs: its finished runs by the names of their folders.
        published: the audit file of its `table`, where it has one.

    Source: docs/protocol.md §11; the bands are this project's.
    """
    planned: dict[str, list[Run | None]] = defaultdict(list)
    for name, plan in chosen.plans().items():
        planned[name_of(plan)].append(runs.get(name))
    figures = [*chosen.published, *(_of_audits(published.rows) if published else ())]
    found = [_compared(run, number, values, planned[run]) for run, number, *values in figures]
    if not chosen.order:
        return found
    shown = [
        msgspec.structs.replace(one, band=None, agrees=None, unchecked="the order is checked")
        for one in found
    ]
    return [*shown, _ordered(chosen.order, {one.run: one.mean for one in found})]


def _of_audits(rows: Sequence[AuditRow]) -> Iterable[list[Any]]:
    for method in dict.fromkeys(row.method for row in rows):
        mine = [Run(row.report) for row in rows if row.method == method]
        for number in OF_AUDITS:
            values = [_value(number, run) for run in mine]
            if None not in values:
                yield [method, number, *values]
        judged = "".join(x for x in JUDGED if x in mine[0].report.coverage)
        yield [method, "fires", *(_value("fires", run, judged) for run in mine), judged]


def _compared(run: str, number: str, figures: list[Any], runs: Sequence[Run | None]) -> Compared:
    judged = figures.pop() if number == "fires" else ""
    here: list[Any] = [None if one is None else _value(number, one, judged) for one in runs]
    if judged:
        figures = figures if len(figures) > 1 else figures * len(here)
        found: dict[str, Any] = {"number": f"fires of {judged}", "agrees": here == figures}
    else:
        found = {"number": number, **_by_mean(number, figures, here if None not in here else [])}
    if None in here or found.get("unchecked"):
        found["agrees"] = None
    return Compared(run=run, published=(*figures,), here=(*here,), **found)


def _by_mean(number: str, figures: Sequence[float], here: Sequence[float]) -> dict[str, Any]:
    """Of a `Compared` the fields about the mean, where `here` has every seed."""
    into, back = (np.log, np.exp) if number in DECADES else (np.asarray, np.asarray)
    # of epochs those at which something fires, on as many seeds
    expected, fired = (
        [x for x in values if x or not number.startswith("first_")] for values in (figures, here)
    )
    if not expected:
        return {"agrees": not fired}
    with np.errstate(all="ignore"):
        middle, width = _band(number, into(expected), into)
        band = float(back(middle - width)), float(back(middle + width))
        mean = float(back(into(fired).mean())) if fired else None
    as_many = len(fired) == len(expected) or not number.startswith("first_")
    return {
        "mean": mean,
        "band": band,
        "unchecked": "the published seeds differ too much"
        if width > _limit("too_wide", number, into)
        else "",
        "agrees": as_many and mean is not None and band[0] <= mean <= band[1],
    }


def _band(number: str, figures: Floats, into: Scale) -> tuple[float, float]:
    """Where the mean over the seeds may lie, on the scale on which it is taken: the middle, and how far from it."""
    if len(figures) == 1:
        return figures[0], _limit("without_spread", number, into)
    mean, std = figures if len(figures) == 2 else (figures.mean(), figures.std(ddof=1))
    return mean, max(3 * std * math.sqrt(2 / SEEDS), number.startswith("first_"))


def _limit(table: str, number: str, into: Scale) -> float:
    """What `replication.toml` gives in a table for a kind of number; no limit where it gives none."""
    kind = "norms" if number in DECADES else "gamma" if "gamma" in number else number
    return float(into(getattr(_document(), table).get(kind, math.inf)))


def _ordered(order: list[list[str]], means: Mapping[str, float | None]) -> Compared:
    """Whether every run is better than all of those in the next band."""
    here = tuple(means[run] for band in order for run in band)
    pairs = [(means[a], means[b]) for above, below in pairwise(order) for a in above for b in below]
    agrees = (
        None if None in here else all(a > b for a, b in pairs if a is not None and b is not None)
    )
    return Compared(
        run="all",
        number="order",
        published=(" > ".join(map(", ".join, order)),),
        here=here,
        agrees=agrees,
    )


def name_of(run: RunPlan | AuditRow) -> str:
    """Method and axes as `replication.toml` writes them; the network is the experiment's own."""
    axes = (
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in run.axes.items()
    )
    return " ".join((run.method, *(axis for axis in axes if not axis.startswith("arch="))))


def _value(number: str, run: Run, judged: str = "") -> Any:
    """A published number of a run here; None where it was not measured."""
    report, index = run.report, number.rpartition("_")[2]
    if number == "fires":
        measured = set(judged) <= set(report.coverage)
        return "".join(x for x in judged if x in report.flags) if measured else None
    if number.startswith("first_"):
        first = timeline(run.trace).first_fire if run.trace else {}
        return (first[index] or 0) if index in first else None
    if number in NUMBERS:
        return NUMBERS[number](report)
    return dict(enumerate((report.credit or {}).get("gamma") or ())).get(int(index))
