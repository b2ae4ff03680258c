"""Write README.md and docs/atlas.md from the audits in this folder: ``python
sample_runs/readme.py``.

Every number is read, none typed.

Only the reference figures are constants: what the protocol's authors and our own first trials
report.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from scipy.stats import spearmanr

from fa_core.formats.rows import AuditRow
from fa_core.formats.scan import scan
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.gamma import deep_gamma, null_gamma
from fa_core.report.manifest import TRACE
from fa_core.report.names import is_control
from fa_core.report.numbers import brief
from fa_core.report.quantities import JUDGED

HERE = Path(__file__).parent
GROUPS = ("main", "wide", "controls", "floor")
ORDER = ("bp", "ep", "state_bridge", "fa", "dfa", "credit_bridge", "frozen", "random_init")

Written = Callable[[float], str]
Numbers = Mapping[str, tuple[str, Written]]
NUMBERS: Numbers = {
    "accuracy": ("headline_acc", "{:.3f}".format),
    "(d) pp": ("margin_pp", "{:+.1f}".format),
    "(a) growth": ("max_per_block_growth", partial(brief, digits=3)),
    "‖h_L‖": ("h_L", partial(brief, digits=2)),
    "(b) ‖g_L‖": ("g_L", partial(brief, digits=2)),
    "(c) drift": ("cross_batch_stability", "{:+.2f}".format),
}
"""Heading → property of a report and its format."""

REFERENCE_MAIN = {
    "bp": "acc 0.65",
    "frozen": "acc 0.60",
    "dfa": "acc 0.59, growth 52–53 after 2,500 steps",
    "credit_bridge": "input 128: acc 0.11, growth 231–240",
    "state_bridge": "input 128: acc 0.49, growth 1.3",
    "ep": "input 128: acc 0.49, growth 1.2",
}
REFERENCE_CONTROLS = {
    "frozen_input128_s42": "acc 0.53, growth 1.0",
    "bp_input128_s42": "acc 0.42, growth 1.1",
    "dfa_input128_s42": "acc 0.51, growth 1,922 and 6,255",
    "dfa_input128_lam0.01_s42": "acc 0.49, growth 1.0 (lr 1e-3)",
    "dfa_input128_ln-none_s42": "acc 0.50, growth 2.7 (lr 1e-3)",
}
REFERENCE_FLOOR = {"bp_data-digits_s42": "acc 0.989, growth 1.6, ‖g_L‖ 5.6e-8"}


class Run:
    """One run: its audit, and the epochs of its trace."""

    def __init__(self, row: AuditRow, trace: Sequence[dict[str, Any]]) -> None:
        self.name = row.key
        self.place = f"{Path(row.source).parent.name}/{row.key}"
        self.method = row.method
        self.task = str(row.axes.get("data", row.axes.get("arch", "resmlp")))
        self.seed = row.seed or 0
        self.report = row.report
        self.trace = trace

    def first_fire(self, letter: str) -> int | None:
        """The first epoch whose numbers fire a diagnostic."""
        for entry in self.trace:
            report = DiagnosticReport(
                residual_norms=entry["residual_norms"],
                bp_grad_norms=entry["bp_grad_norms"],
                cross_batch_stability=entry["cross_batch_stability"],
            )
            if letter in report.flags:
                return int(entry["epoch"])
        return None

    def gamma(self, epoch: int) -> float:
        """Deep Γ at an epoch of the trace, counted as a list is; NaN without."""
        return deep_gamma(
            {"gamma": self.trace[epoch].get("gamma") if self.trace else None}, self.method
        )

    @property
    def gain(self) -> float:
        """γ_L = ‖g_L‖·B / ‖e_T‖, free of loss and batch size."""
        report = self.report
        assert report.g_L is not None and report.batch_size and report.error_norm
        return report.g_L * report.batch_size / report.error_norm

    @property
    def credit(self) -> Mapping[str, Any]:
        return self.report.credit or {}


def runs_of(group: str) -> list[Run]:
    """The measured runs of a folder, in the order of the table."""
    rows = [row for row in scan([HERE / group], run_traces=False).rows if row.report.coverage]
    epochs = logged_epochs(HERE / group)
    runs = [Run(row, epochs.get(row.key, [])) for row in rows]
    return sorted(runs, key=lambda run: (_rank(run.method), run.name.rpartition("_s")[0], run.seed))


def logged_epochs(group: Path) -> Mapping[str, list[dict[str, Any]]]:
    """Run → its epochs, from the traces in run folders or from the group's one file of them."""
    epochs: Mapping[str, list[dict[str, Any]]] = defaultdict(list)
    for path in [*group.glob("traces.jsonl"), *group.glob(f"*/{TRACE}")]:
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            epochs[entry.get("run", path.parent.name)].append(entry)
    return epochs


def _rank(method: str) -> int:
    return ORDER.index(method) if method in ORDER else len(ORDER)


def all_runs() -> list[Run]:
    return [run for group in GROUPS for run in runs_of(group)]


def kinds_of(runs: Iterable[Run]) -> Mapping[str, list[Run]]:
    """Place without seed → its runs."""
    kinds: Mapping[str, list[Run]] = defaultdict(list)
    for run in runs:
        kinds[run.place.rpartition("_s")[0]].append(run)
    return kinds


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def spread(values: Iterable[float | None], written: Written) -> str:
    """Smallest and largest over seeds."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    low, high = written(min(known)), written(max(known))
    return low if low == high else f"{low} … {high}"


def over_seeds(reports: Iterable[DiagnosticReport], numbers: Numbers) -> list[str]:
    """The cells of some reports under the headings of `numbers`."""
    known = list(reports)
    return [
        spread((getattr(report, name) for report in known), written)
        for name, written in numbers.values()
    ]


def fired_by(report: DiagnosticReport) -> str:
    """The letters that fire, and those that other samples might decide otherwise."""
    undecided = "".join(sorted(report.undecided))
    return ("".join(sorted(report.flags)) or "none") + (
        f", {undecided} undecided" if undecided else ""
    )


def verdicts(runs: Sequence[Run]) -> str:
    """Which letters fire, seed by seed."""
    found = defaultdict(list)
    for run in runs:
        found[fired_by(run.report)].append(str(run.seed))
    return "; ".join(
        fired if len(found) == 1 else f"{fired} ({', '.join(seeds)})"
        for fired, seeds in sorted(found.items())
    )


def seeds_table(group: str, reference: Mapping[str, str]) -> str:
    """A row per kind of run, its values from the smallest to the largest over the seeds."""
    rows = []
    for place, runs in kinds_of(runs_of(group)).items():
        kind = place.partition("/")[2]
        rows.append(
            [
                f"`{kind}`",
                *over_seeds((run.report for run in runs), NUMBERS),
                verdicts(runs),
                *([reference.get(kind, "–")] if reference else []),
            ]
        )
    return table(
        [
            "runs",
            *NUMBERS,
            "fires",
            *(["reference"] if reference else []),
        ],
        rows,
    )


def kind_on(task: str, place: str) -> str:
    """The name of a kind of runs without its task.

    >>> kind_on("digits", "atlas/frozen_data-digits_of-bp")
    'frozen_of-bp'
    """
    name = place.partition("/")[2]
    return name.replace(f"_arch-{task}", "").replace(f"_data-{task}", "")


def atlas_table(task: str) -> str:
    """A row per method on one task, its values from the smallest to the largest over the seeds."""
    rows, shown = [], {name: each for name, each in NUMBERS.items() if name != "‖h_L‖"}
    for place, runs in kinds_of(run for run in runs_of("atlas") if run.task == task).items():
        rows.append(
            [
                f"`{kind_on(task, place)}`",
                *over_seeds((run.report for run in runs), shown),
                spread((known(run.gamma(0)) for run in runs), "{:+.2f}".format),
                spread((known(run.gamma(-1)) for run in runs), "{:+.2f}".format),
                spread(
                    (known(null_gamma(run.credit, run.method)[0]) for run in runs),
                    "{:+.2f}".format,
                ),
                verdicts(runs),
            ]
        )
    return table(["method", *shown, "deep Γ, epoch 1", "at the end", "its null", "fires"], rows)


def disagreeing(tasks: Sequence[str]) -> str:
    """Per task the methods of which some seeds are walked back and others are not; controls claim
    nothing."""
    found: Mapping[str, list[str]] = defaultdict(list)
    for place, runs in kinds_of(runs_of("atlas")).items():
        task, method = runs[0].task, runs[0].method
        walked = [bool(run.report.flags) for run in runs]
        if any(walked) and not all(walked) and not is_control(method):
            found[task].append(f"`{kind_on(task, place)}` {sum(walked)}/{len(walked)}")
    return "; ".join(f"on `{task}` {', '.join(found[task])}" for task in tasks if found[task])


TEACHER, REAL = "resmlp", "digits"
"""The two tasks of the atlas with the same network."""

COMPARED: Mapping[str, Callable[[Run], float | None]] = {
    "accuracy": lambda run: run.report.headline_acc,
    "(d) pp over frozen blocks": lambda run: run.report.margin_pp,
    "(a) growth": lambda run: run.report.max_per_block_growth,
    "(b) ‖g_L‖": lambda run: run.report.g_L,
    "deep Γ at the end": lambda run: known(run.gamma(-1)),
}
"""What is ranked → its value on a run."""


def claiming(task: str) -> Mapping[str, list[Run]]:
    """Method → its runs on a task of the atlas, without controls."""
    runs = (run for run in runs_of("atlas") if run.task == task and not is_control(run.method))
    return {kind_on(task, place): same for place, same in kinds_of(runs).items()}


def agreement_table() -> str:
    """Rank correlation over methods of what the teacher's task and digits say of one network."""
    rows = []
    teacher, real = claiming(TEACHER), claiming(REAL)
    for name, value in COMPARED.items():
        pairs = []
        for method in teacher.keys() & real.keys():
            means = mean_of(map(value, teacher[method])), mean_of(map(value, real[method]))
            if None not in means:
                pairs.append(means)
        ranked = spearmanr(pairs)
        rows.append([name, str(len(pairs)), f"{ranked.statistic:+.2f}", brief(ranked.pvalue, 2)])
    return table(["ranked by", "methods", "rank correlation", "p"], rows)


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean; None if a value is missing."""
    numbers = list(values)
    if None in numbers:
        return None
    return mean(numbers)


def letters_table() -> str:
    """Per method the seeds on which each diagnostic fires, on the teacher's task and on digits."""
    rows = []
    teacher, real = claiming(TEACHER), claiming(REAL)
    for method in (method for method in teacher if method in real):
        cells = [f"`{method}`"]
        for runs in (teacher[method], real[method]):
            cells.append(counted_letters(runs))
            cells.append(spread((run.report.margin_pp for run in runs), "{:+.1f}".format))
        rows.append(cells)
    headings = ["method", "fires, teacher", "(d) pp", "fires, digits", "(d) pp"]
    return table(headings, rows)


def counted_letters(runs: Sequence[Run]) -> str:
    """The letters that fire, each with its number of seeds.

    >>> counted_letters([])
    'none'
    """
    counts = Counter(letter for run in runs for letter in run.report.flags)
    counted = [f"{letter} {count}/{len(runs)}" for letter, count in sorted(counts.items())]
    return ", ".join(counted) or "none"


def known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def single_table(group: str, reference: Mapping[str, str]) -> str:
    rows = []
    for run in runs_of(group):
        report = run.report
        rows.append(
            [
                f"`{run.name}`",
                *over_seeds([report], NUMBERS),
                brief(run.gain, 2),
                spread([report.error_norm], partial(brief, digits=2)),
                fired_by(report),
                report.coverage,
                reference.get(run.name, "–"),
            ]
        )
    return table(
        ["run", *NUMBERS, "γ_L", "‖e_T‖", "fires", "measured", "reference"],
        rows,
    )


def credit_table() -> str:
    """Γ per layer, deep Γ beside its null, and the share of the credit that is exactly 0, where
    blocks are trained."""
    rows = []
    for kind, runs in kinds_of(all_runs()).items():
        if any(run.credit.get("deep_gamma") is None for run in runs):
            continue
        layers = zip(*(run.credit["gamma"] for run in runs), strict=True)
        nulls = [null for run in runs if (null := run.credit.get("null"))]
        zeros = [100 * share for run in runs for share in run.credit["zeros"]]
        deviation = f" ± {max(null['deep_gamma_std'] for null in nulls):.2f}" if nulls else ""
        rows.append(
            [
                f"`{kind}`",
                *(spread(layer, "{:+.2f}".format) for layer in layers),
                spread((run.credit["deep_gamma"] for run in runs), "{:+.2f}".format),
                spread((null["deep_gamma_mean"] for null in nulls), "{:+.2f}".format) + deviation,
                ", ".join(sorted({str(null["draws"]) for null in nulls})) or "–",
                spread(zeros, "{:.0f}".format),
            ]
        )
    return table(
        ["runs", *(f"Γ_{layer}" for layer in range(5)), "deep Γ", "its null", "draws", "% zeros"],
        rows,
    )


def undecided_table() -> str:
    """Every number whose 95 % interval holds its threshold."""
    rows = []
    for run in all_runs():
        report = run.report
        for letter in sorted(report.undecided):
            shown, (low, high) = JUDGED[letter].text, report.interval(letter) or (0.0, 0.0)
            number = shown(report.numbers[letter])
            rows.append([f"`{run.place}`", f"({letter})", number, f"{shown(low)} … {shown(high)}"])
    return table(["run", "undecided", "its number", "95 % interval"], rows)


def timeline_table() -> str:
    """When (a) and (b) fire first in the runs where one of them does."""
    rows = []
    for run in all_runs():
        fires = {letter: run.first_fire(letter) for letter in "ab"}
        if any(epoch is not None for epoch in fires.values()):
            epochs = [str(fires[letter]) if fires[letter] else "never" for letter in "ab"]
            rows.append([f"`{run.place}`", *epochs, str(len(run.trace))])
    return table(["run", "(a) at epoch", "(b) at epoch", "of"], rows)


def published_table() -> str:
    """The same columns from the published ResMLP audit (CIFAR-10, d = 256)."""
    recorded = json.loads((HERE / "audit_table_s42_s123_s456.json").read_text())["reports"]
    groups: Mapping[str, list[DiagnosticReport]] = defaultdict(list)
    for key, value in recorded.items():
        groups[key.rpartition("_s")[0]].append(DiagnosticReport.from_dict(value, key))
    rows = [[method, *over_seeds(groups[method], NUMBERS)] for method in sorted(groups, key=_rank)]
    return table(["method", *NUMBERS], rows)


def text(template: str, blocks: Mapping[str, str]) -> str:
    """A template with its tables filled in."""
    filled = (HERE / template).read_text(encoding="utf-8")
    for name, block in blocks.items():
        filled = filled.replace(f"{{{{{name}}}}}", block)
    return filled


def readme() -> str:
    """The page of the sample runs."""
    blocks = {
        "main": seeds_table("main", REFERENCE_MAIN),
        "wide": seeds_table("wide", {}),
        "controls": single_table("controls", REFERENCE_CONTROLS),
        "floor": single_table("floor", REFERENCE_FLOOR),
        "credit": credit_table(),
        "undecided": undecided_table(),
        "timeline": timeline_table(),
        "published": published_table(),
    }
    return text("README.template.md", blocks)


def atlas() -> str:
    """The page of the atlas."""
    tasks = sorted({run.task for run in runs_of("atlas")})
    blocks = {task: atlas_table(task) for task in tasks}
    blocks |= {"agreement": agreement_table(), "letters": letters_table()}
    return text("atlas.template.md", {**blocks, "disagree": disagreeing(tasks)})


if __name__ == "__main__":
    (HERE / "README.md").write_text(readme(), encoding="utf-8")
    (HERE.parent / "docs" / "atlas.md").write_text(atlas(), encoding="utf-8")
