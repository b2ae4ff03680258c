"""Make the sample runs again: ``python sample_runs/make.py`` (two hours at most on one core, no download).

Every run is one plan below; nothing is chosen by looking at its result. One thread, so that a machine of
the same kind and library versions gets the same weights.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from pathlib import Path

import torch

from fa_core.data import DataSet, load_data
from fa_core.train import Recipe, RunPlan, plan_runs, train_run

SEEDS = (42, 123, 456)
HERE = Path(__file__).parent


def main_set() -> list[RunPlan]:
    """Every method under one recipe on the task where depth helps: input 16, d = 64, L = 4."""
    task = {"arch": "resmlp", "data": "synthetic:alpha=1.0,input=16", "widths": [64], "depths": [4]}
    recipe = Recipe(epochs=20, lr=3e-3, weight_decay=0.01, schedule="cosine")
    methods = ["frozen", "bp", "dfa", "fa", "state_bridge", "ep"]
    published = plan_runs(["credit_bridge"], SEEDS, recipe=recipe, method_args={"variant": "published"}, **task)
    return plan_runs(methods, SEEDS, recipe=recipe, **task) + published


def groups() -> dict[str, list[RunPlan]]:
    """Folder → its runs, in the order they are made."""
    return {"main": main_set()}


def make(out: Path, only: str) -> None:
    """Train what is not there yet; an interrupted run goes on where it stopped."""
    loaded: dict[str, DataSet] = {}
    for group, plans in groups().items():
        for plan in plans:
            name = f"{group}/{plan.name}"
            if not fnmatch.fnmatch(name, only):
                continue
            if plan.data not in loaded:
                loaded[plan.data] = load_data(plan.data)
            start = time.perf_counter()
            done = train_run(plan, loaded[plan.data], out / group / plan.name, resume=True)
            told = "there already" if done.report is None else done.report.verdict
            print(f"{name}: {told} ({time.perf_counter() - start:.0f} s)", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the sample runs again.")
    parser.add_argument("--out", type=Path, default=HERE, help="where the run folders go (default: here)")
    parser.add_argument("--only", default="*", help="a pattern such as 'main/dfa_*'")
    args = parser.parse_args()
    torch.set_num_threads(1)
    make(args.out, args.only)


if __name__ == "__main__":
    main()
