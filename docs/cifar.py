"""Write docs/cifar.md again: ``python docs/cifar.py [DEVICE]`` (some minutes: a step of every kind of run is timed).

Everything on the page comes from ``fa_core/replication.toml`` and the published audit files, but for the times: each
is seconds per training step on samples of CIFAR's shape, times the steps of the published runs.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

import torch

from fa_core.data import DataSet
from fa_core.formats import Scan, scan
from fa_core.replication import Experiment, compared, experiments
from fa_core.reporting.blocks import to_markdown
from fa_core.train import Run, RunPlan
from fa_tui import options
from fa_tui.commands.replicate import experiment_blocks
from fa_tui.commands.train import plans_of

HERE = Path(__file__).parent
STEPS, TRAINING = 10, 50_000
INTRO = """# The published experiments, redone

Every published experiment as the commands that redo it with CIFAR-10 and CIFAR-100 in a folder, the published figures,
and the band within which a figure counts as the same. `fa-tui replicate NAME --cifar10 DIR --out replication --run`
runs them, goes on where it was stopped, and compares; without `--run` it prints the commands and compares what is
there. Runs that experiments share are trained once. `--quick --run` first: one epoch of one seed shows within minutes
whether the folders and the machine can do it.

No figure below was reproduced for this page: the machines on which this project is tested have no CIFAR. What the same
rules show on the synthetic task is in [sample_runs](../sample_runs/README.md). Sources of the figures:
[protocol.md](protocol.md).

Times are **extrapolated**: seconds per training step on {machine} that other work shared, times the
steps of all runs of the experiment; measuring the runs after each epoch comes on top. A GPU is faster by a factor that
depends on the method; runs are small, so several fit on one.
"""


def main(device: str) -> None:
    samples = torch.randn(STEPS * 128, 3, 32, 32)
    labels = torch.randint(0, 10, (len(samples),))
    data = DataSet("cifar10:DIR", samples, labels, samples[:128], labels[:128], 10)
    pages, seen = [], {}
    for chosen in experiments():
        published = scan([options.sample_runs() / chosen.table]) if chosen.table else None
        lines = [" ".join(["fa-tui", *step]) for step in chosen.commands("DIR", "DIR", "replication")]
        blocks = list(experiment_blocks(chosen, lines, compared(chosen, Scan(), published)))
        text = to_markdown(blocks)
        text = "\n".join(f"    {line}" if line.startswith("fa-tui ") else line for line in text.splitlines())
        seconds = sum(time_of(plan, data, device, seen) for plan in plans(chosen))
        pages.append(f"{text.rstrip()}\n\nExtrapolated: {seconds / 3600:.1f} h of training.")
        print(f"{chosen.name}: {seconds / 3600:.1f} h", file=sys.stderr)
    machine = (
        torch.cuda.get_device_name(device) if device != "cpu" else f"{os.cpu_count()} cores ({platform.machine()})"
    )
    (HERE / "cifar.md").write_text(
        "\n\n".join([INTRO.format(machine=machine).rstrip(), *pages]) + "\n", encoding="utf-8"
    )


def plans(chosen: Experiment) -> list[RunPlan]:
    """The runs of an experiment, each once."""
    found = {}
    for words in chosen.commands("DIR", "DIR", "replication"):
        given = options.command("train").make_context("train", words[1:]).params
        found |= {plan.name: plan for plan in plans_of(given)}
    return list(found.values())


def time_of(plan: RunPlan, data: DataSet, device: str, seen: dict[str, float]) -> float:
    """Seconds of the steps of a run, from the quickest of three times `STEPS` of them."""
    kind = f"{plan.method} {plan.arch} {plan.arch_args} {plan.method_args}"
    if kind not in seen:
        run = Run(plan, data, HERE, torch.device(device), None)
        seen[kind] = 0.0
        if run.optimizer:
            times = []
            for epoch in range(1, 4):
                start = time.perf_counter()
                run.epoch(epoch)
                times.append(time.perf_counter() - start)
            seen[kind] = min(times) / STEPS
    return seen[kind] * plan.recipe.epochs * (TRAINING // 128)


if __name__ == "__main__":
    main(*sys.argv[1:] or ["cpu"])
