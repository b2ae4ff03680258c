"""Make the sample runs again: ``python sample_runs/make.py`` (some minutes on sixteen cores, no
download).

Every run is one plan below; nothing was chosen by looking at its verdict, but for the epochs of BP
on digits (see README.md). One thread per run, so that a machine of the same kind with the same
library versions gets the same weights, however many runs are trained at once.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save

from fa_core.audit.loading import Evaluation
from fa_core.files.atomic import write_bytes, write_json
from fa_core.formats.audit_table import printable_drift, stored_report
from fa_core.formats.scan import scan
from fa_core.formats.trace import write_trace
from fa_core.report.baseline import rule_of
from fa_core.report.manifest import AUDIT, CREDIT, TRACE, WEIGHTS
from fa_core.report.method_style import FROZEN
from fa_core.training.plan import METHODS, Order, Recipe, RunPlan, plan_runs
from fa_core.training.train import audit_run, train_run
from fa_core.zoo.data import DataSet, eval_batches, load_data

SEEDS = (42, 123, 456)
HERE = Path(__file__).parent


def main_set() -> list[RunPlan]:
    """Every method under one recipe on the task where depth helps: input 16, d = 64, L = 4."""
    task: dict[str, Any] = {
        "arch": "resmlp",
        "data": "synthetic:alpha=1.0,input=16",
        "widths": [64],
        "depths": [4],
    }
    recipe = Recipe(epochs=12, lr=3e-3, weight_decay=0.01, schedule="cosine")
    return every_method(recipe, task)


def every_method(recipe: Recipe, task: dict[str, Any]) -> list[RunPlan]:
    """Every method and the untrained net on every seed, and for each rule the frozen blocks that it
    trains."""
    methods = [FROZEN, "bp", "dfa", "fa", "state_bridge", "ep", "random_init"]
    published = plan_runs(
        [FROZEN, "credit_bridge"],
        SEEDS,
        recipe=recipe,
        method_args={"variant": "published"},
        **task,
    )
    return plan_runs(methods, SEEDS, recipe=recipe, **task) + published


def wide() -> list[RunPlan]:
    """16 latents seen in 1,024 values at a high learning rate: the published regime in a minute a
    run."""
    data = "synthetic:input=16,ambient=1024"
    task: dict[str, Any] = {"arch": "resmlp", "data": data, "widths": [64], "depths": [4]}
    recipe = Recipe(epochs=8, lr=1e-2, weight_decay=0.01, schedule="cosine")
    single: dict[str, Any] = {
        "method_args": {"arithmetic": "float32"},
        "axes": {"arithmetic": "float32"},
    }
    bare: dict[str, Any] = {"arch_args": {"terminal_ln": False}, "axes": {"ln": "none"}}
    hot: dict[str, Any] = {
        "recipe": Recipe(epochs=8, lr=3e-2, weight_decay=0.01),
        "axes": {"lr": 3e-2},
    }
    return [
        *every_method(recipe, task),
        *plan_runs([FROZEN, "ep"], SEEDS, recipe=recipe, **single, **task),
        *plan_runs(["dfa"], SEEDS, recipe=recipe, lams=[1e-3, 1e-2], **task),
        *plan_runs([FROZEN, "dfa"], SEEDS, recipe=recipe, **bare, **task),
        *plan_runs([FROZEN, "dfa"], SEEDS, recipe=recipe, **(task | {"arch": "studentnet"})),
        *plan_runs([FROZEN, "dfa"], [42], **hot, **task),
    ]


def controls() -> list[RunPlan]:
    """What the collapse needs and what prevents it, on a wide Gaussian input: input 128, d = 128, L
    = 4."""
    recipe = Recipe(epochs=16, lr=3e-3, weight_decay=0.01, schedule="cosine")
    task: dict[str, Any] = {
        "data": "synthetic:alpha=1.0,input=128",
        "recipe": recipe,
        "axes": {"input": 128},
    }
    net: dict[str, Any] = {"arch": "resmlp", "widths": [128], "depths": [4], **task}
    bare: dict[str, Any] = net | {
        "arch_args": {"terminal_ln": False},
        "axes": {"input": 128, "ln": "none"},
    }
    return [
        *plan_runs([FROZEN, "bp", "fa", "dfa", "random_init"], [42], **net),
        *plan_runs(["dfa"], [42], lams=[1e-2], **net),
        *plan_runs([FROZEN, "dfa"], [42], **bare),
    ]


def floor() -> list[RunPlan]:
    """Two runs under (b)'s floor for opposite reasons: DFA by cancellation, BP by convergence."""
    hot = Recipe(epochs=8, lr=1e-2, weight_decay=0.01, schedule="cosine")
    small: dict[str, Any] = {"arch": "resmlp", "widths": [128], "depths": [4]}
    long = Recipe(epochs=200, lr=1e-3, weight_decay=0.01, schedule="constant", batch_size=32)
    data = "synthetic:alpha=1.0,input=128"
    return [
        *plan_runs([FROZEN, "dfa"], [42], data=data, recipe=hot, axes={"lr": 1e-2}, **small),
        *plan_runs(
            [FROZEN, "bp"], [42], data="digits", recipe=long, axes={"data": "digits"}, **small
        ),
    ]


IMAGES = "synthetic:input=16,ambient=64,channels=1,train=6400,test=2000"
ATLAS = {
    # network → its data, arguments, width and depth
    "resmlp": ("synthetic:input=16,train=20000,test=2000", {}, [64], [4]),
    "small_resnet": (IMAGES, {"image": 8, "channels": 1, "width": 16}, [], []),
    "vit_mini": (IMAGES, {"image": 8, "channels": 1, "patch": 2}, [32], [3]),
}
SLOW = {"pc": {"steps": 5}}
"""Options of a rule whose default would take most of the atlas's time."""


def atlas() -> list[RunPlan]:
    """Every method on three networks, and on digits, with three seeds."""
    recipe = Recipe(epochs=10, lr=3e-3, weight_decay=0.01, schedule="cosine")
    plans = []
    for arch, (data, arch_args, widths, depths) in ATLAS.items():
        task: dict[str, Any] = {"arch": arch, "data": data, "recipe": recipe}
        task |= {"arch_args": arch_args, "widths": widths, "depths": depths}
        plans += against_frozen_blocks(task)
    # 1,437 images: as many epochs as make a third of the steps on 20,000 samples
    recipe = Recipe(epochs=40, lr=3e-3, weight_decay=0.01, schedule="cosine")
    real: dict[str, Any] = {"arch": "resmlp", "data": "digits", "recipe": recipe}
    real |= {"widths": [64], "depths": [4], "axes": {"data": "digits"}}
    return plans + against_frozen_blocks(real)


def against_frozen_blocks(task: dict[str, Any]) -> list[RunPlan]:
    """Every method on one task, judged by the frozen blocks that BP trained."""
    plans = plan_runs([FROZEN], SEEDS, method_args={"of": "bp"}, **task)
    for name in METHODS:
        # the error of FA goes through a linear head, which a ResNet's pooling is not
        if name != FROZEN and (name, task["arch"]) != ("fa", "small_resnet"):
            plans += plan_runs([name], SEEDS, method_args=SLOW.get(name, {}), **task)
    return plans


GROUPS = {"main": main_set, "wide": wide, "controls": controls, "floor": floor, "atlas": atlas}
"""Folder → its runs."""

GATHERED = ("atlas",)
"""Groups kept as one table and one file of traces, without weights."""

EFFORT = {"pc": 20.0, "ep": 9.0, "credit_bridge": 5.0, "state_bridge": 3.0, "fa": 1.5}
"""How long a step by a rule takes, in steps of backprop: the longest runs are begun first."""


def keeps_weights(group: str, plan: RunPlan) -> bool:
    """Whether a run's weights are part of the sample runs: none of the atlas, one seed of
    `wide`."""
    if group in GATHERED:
        return False
    return plan.seed == SEEDS[0] or group != "wide"


def effort(plan: RunPlan) -> float:
    return plan.recipe.epochs * EFFORT.get(
        rule_of(plan.method, plan.method_args).partition("(")[0], 1.0
    )


def make(out: Path, only: str, jobs: int) -> None:
    """Train what is not there yet, then audit it; an interrupted run goes on where it stopped."""
    chosen = [(group, plan) for group, plans in GROUPS.items() for plan in plans()]
    chosen = [
        (group, plan) for group, plan in chosen if fnmatch.fnmatch(f"{group}/{plan.name}", only)
    ]
    chosen.sort(key=lambda one: -effort(one[1]))
    frozen = [one for one in chosen if one[1].method == FROZEN]
    with ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        for step, runs in (
            (train, chosen),
            (store, frozen),
            (store, [one for one in chosen if one not in frozen]),
        ):
            each(pool, step, out, runs)
    if out != HERE:
        return
    for group, plan in chosen:
        if not keeps_weights(group, plan):
            for name in (WEIGHTS, CREDIT):
                (out / group / plan.name / name).unlink(missing_ok=True)
    for group in GATHERED:
        gather(out / group)


def by_seed(name: str) -> tuple[str, int]:
    """The order of runs: by name, and the seeds of one name by number."""
    kind, _, seed = name.rpartition("_s")
    return kind, int(seed)


def gather(group: Path) -> None:
    """Move a group's run folders into its table ``audits.json`` and its ``traces.jsonl``.

    Runs that are there already are replaced; the others stay.
    """
    table, log = group / "audits.json", group / "traces.jsonl"
    folders = sorted(path.parent for path in group.glob(f"*/{AUDIT}"))
    names = {folder.name for folder in folders}
    known = scan([table]).rows if table.exists() else []
    rows = [row for row in known if row.key not in names] + scan(folders, run_traces=False).rows
    rows.sort(key=lambda row: by_seed(row.key))
    reports = {row.key: printable_drift(stored_report(row)) for row in rows}
    write_json(table, {"reports": reports})
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    entries = [entry for entry in map(json.loads, lines) if entry["run"] not in names]
    for folder in folders:
        trace = folder / TRACE
        logged = trace.read_text(encoding="utf-8").splitlines() if trace.exists() else []
        entries += [{"run": folder.name, **json.loads(line)} for line in logged]
    entries.sort(key=lambda entry: (by_seed(entry["run"]), entry["epoch"]))
    write_trace(log, entries)
    for folder in folders:
        shutil.rmtree(folder)


Step = Callable[[Path, RunPlan], str]


def each(
    pool: ProcessPoolExecutor, step: Step, out: Path, runs: Sequence[tuple[str, RunPlan]]
) -> None:
    """One step of every run, as many at once as there are processes; what became of it is
    printed."""
    waiting = {
        pool.submit(step, out / group / plan.name, plan): f"{group}/{plan.name}"
        for group, plan in runs
    }
    for done in as_completed(waiting):
        print(f"{waiting[done]}: {done.result()}", file=sys.stderr, flush=True)


@lru_cache(maxsize=4)
def samples_of(spec: str) -> DataSet:
    return load_data(spec)


def train(folder: Path, plan: RunPlan) -> str:
    start = time.perf_counter()
    done = train_run(Order(plan=plan, resume=True), samples_of(plan.data), folder)
    return (
        "there already"
        if done.report is None
        else f"trained in {time.perf_counter() - start:.0f} s"
    )


def store(folder: Path, plan: RunPlan) -> str:
    """Keep the tensors in float16 and audit those, unless that changes the verdict.

    Every frozen run has to be trained, and those that a run is judged by stored, before this.
    """
    if not (folder / WEIGHTS).exists():
        return "audited before"
    data = samples_of(plan.data)
    held = Evaluation(data.test_x, data.test_y, eval_batches(data), data.hash)
    audit = partial(audit_run, folder, torch.device("cpu"), held)
    trained = audit()
    if weights_dtype(folder) == torch.float16:
        return trained.verdict
    whole = {
        path: path.read_bytes() for path in (folder / WEIGHTS, folder / CREDIT) if path.exists()
    }
    for path in whole:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name).half() for name in file.keys()}  # noqa: SIM118
            label = file.metadata()
        write_bytes(path, save(tensors, label))
    report = audit()
    if report.verdict == trained.verdict:
        return report.verdict
    for path, content in whole.items():
        write_bytes(path, content)
    return f"{audit().verdict} (in float32: float16 says {report.verdict})"


def weights_dtype(folder: Path) -> torch.dtype:
    """What the first tensor of a run's weights is stored in."""
    with safe_open(folder / WEIGHTS, "pt") as file:
        return file.get_tensor(next(iter(file.keys()))).dtype


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the sample runs again.")
    parser.add_argument(
        "--out", type=Path, default=HERE, help="where the run folders go (default: here)"
    )
    parser.add_argument("--only", default="*", help="a pattern such as 'main/dfa_*'")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="runs at once (default: one per core)"
    )
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    make(args.out, args.only, args.jobs)


if __name__ == "__main__":
    main()
