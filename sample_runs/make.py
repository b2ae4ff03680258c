"""Make the sample runs again: ``python sample_runs/make.py`` (about an hour on one core, no download).

Every run is one plan below; nothing was chosen by looking at its verdict. One thread, so that a machine
of the same kind with the same library versions gets the same weights.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save

from fa_core.atomic import write_bytes
from fa_core.data import DataSet, eval_batches, load_data
from fa_core.engine.loading import Evaluation
from fa_core.report import DiagnosticReport
from fa_core.runs import WEIGHTS
from fa_core.train import Recipe, RunPlan, audit_run, plan_runs, train_run

SEEDS = (42, 123, 456)
HERE = Path(__file__).parent


def main_set() -> list[RunPlan]:
    """Every method under one recipe on the task where depth helps: input 16, d = 64, L = 4."""
    task: dict[str, Any] = {"arch": "resmlp", "data": "synthetic:alpha=1.0,input=16", "widths": [64], "depths": [4]}
    recipe = Recipe(epochs=20, lr=3e-3, weight_decay=0.01, schedule="cosine")
    methods = ["frozen", "bp", "dfa", "fa", "state_bridge", "ep", "random_init"]
    published = plan_runs(["credit_bridge"], SEEDS, recipe=recipe, method_args={"variant": "published"}, **task)
    return plan_runs(methods, SEEDS, recipe=recipe, **task) + published


def controls() -> list[RunPlan]:
    """What the collapse needs and what prevents it, on the wide input: input 128, d = 128, L = 4."""
    recipe = Recipe(epochs=16, lr=3e-3, weight_decay=0.01, schedule="cosine")
    task: dict[str, Any] = {"data": "synthetic:alpha=1.0,input=128", "recipe": recipe, "axes": {"input": 128}}
    wide: dict[str, Any] = {"arch": "resmlp", "widths": [128], "depths": [4], **task}
    bare: dict[str, Any] = wide | {"arch_args": {"terminal_ln": False}, "axes": {"input": 128, "ln": "none"}}
    return [
        *plan_runs(["frozen", "bp", "dfa", "random_init"], [42], **wide),
        *plan_runs(["dfa"], [42], lams=[1e-2], **wide),
        *plan_runs(["frozen", "dfa"], [42], **bare),
        *plan_runs(["frozen", "dfa"], [42], arch="studentnet", **task),
    ]


def floor() -> list[RunPlan]:
    """Two runs under (b)'s floor for opposite reasons: DFA by cancellation, BP by convergence."""
    hot = Recipe(epochs=8, lr=1e-2, weight_decay=0.01, schedule="cosine")
    small: dict[str, Any] = {"arch": "resmlp", "widths": [128], "depths": [4]}
    long = Recipe(epochs=100, lr=1e-3, weight_decay=0.01, schedule="constant", batch_size=32)
    data = "synthetic:alpha=1.0,input=128"
    return [
        *plan_runs(["frozen", "dfa"], [42], data=data, recipe=hot, axes={"lr": 1e-2}, **small),
        *plan_runs(["frozen", "bp"], [42], data="digits", recipe=long, axes={"data": "digits"}, **small),
    ]


GROUPS = {"main": main_set, "controls": controls, "floor": floor}
"""Folder → its runs, in the order they are made."""


def make(out: Path, only: str) -> None:
    """Train what is not there yet; an interrupted run goes on where it stopped."""
    loaded: dict[str, DataSet] = {}
    for group, plans in GROUPS.items():
        for plan in plans():
            name = f"{group}/{plan.name}"
            if not fnmatch.fnmatch(name, only):
                continue
            if plan.data not in loaded:
                loaded[plan.data] = load_data(plan.data)
            start = time.perf_counter()
            folder, data = out / group / plan.name, loaded[plan.data]
            done = train_run(plan, data, folder, resume=True)
            told = "there already" if done.report is None else store_half(folder, data, done.report)
            print(f"{name}: {told} ({time.perf_counter() - start:.0f} s)", file=sys.stderr, flush=True)


def store_half(folder: Path, data: DataSet, trained: DiagnosticReport) -> str:
    """Keep the weights in float16 and audit those, unless that changes the verdict."""
    path = folder / WEIGHTS
    whole = path.read_bytes()
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name).half() for name in file.keys()}  # noqa: SIM118
        label = file.metadata()
    write_bytes(path, save(tensors, label))
    held = Evaluation(data.test_x, data.test_y, eval_batches(data), data.hash)
    report = audit_run(folder, torch.device("cpu"), held)
    if report.verdict == trained.verdict:
        return report.verdict
    write_bytes(path, whole)
    return f"{audit_run(folder, torch.device('cpu'), held).verdict} (in float32: float16 says {report.verdict})"


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the sample runs again.")
    parser.add_argument("--out", type=Path, default=HERE, help="where the run folders go (default: here)")
    parser.add_argument("--only", default="*", help="a pattern such as 'main/dfa_*'")
    args = parser.parse_args()
    torch.set_num_threads(1)
    make(args.out, args.only)


if __name__ == "__main__":
    main()
