"""Write docs/cifar.md again: ``python docs/cifar.py [DEVICE]`` (some minutes: a step of every kind of run is timed).

Everything on the page comes from ``fa_core/training/replication.toml`` and the published audit files, but for the times: each
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
from fa_core.formats import scan
from fa_core.reporting.blocks import to_markdown
from fa_core.training.experiments import experiments
from fa_core.training.plan import RunPlan
from fa_core.training.replication import compared
from fa_core.training.train import Training
from fa_tui.commands.replicate import experiment_blocks
from fa_tui.samples import sample_runs

HERE = Path(__file__).parent
STEPS, TRAINING = 10, 50_000
INTRO = """# The published experiments, redone

Every published experiment as the commands that redo it with CIFAR-10 and CIFAR-100 in a folder, the published figures,
and the band within which a figure counts as the same. `fa-tui replicate NAME --cifar10 DIR --out replication --run`
runs them, goes on where it was stopped, and compares; without `--run` it prints the commands and compares what is
there. Runs that experiments share are trained once. `--quick --run` first: one epoch of one seed shows within minutes
whether the folders and the machine can do it.

What is compared: finished runs of the experiment's own recipe, all seeds of them; what is missing, unfinished or
trained otherwise is said and never agrees. Where the band comes from:

- *band* is where the mean over the seeds may lie; of `growth`, `h_L` and `g_L`, which span decades, the geometric mean.
  With s the published sample deviation over n seeds it is the published mean ± 3·s·√(2/n), three standard deviations
  of the difference between two such means; of geometric means by logarithms. Where the figures of the seeds are
  published (a/b/c), mean and s are taken from them.
- A figure published without a deviation has that of a neighbour: accuracies ± 0.02 (DFA's 0.306 ± 0.008), Γ ± 0.06,
  margins ± 0.24 points (DFA's accuracy with penalty). Norms have a factor of 3, being orders of magnitude.
- Epochs of a first fire: the same, at least ± 1 epoch, and it fires on as many seeds. Letters: the same on each seed.
- Where the published seeds differ so much that nothing could lie outside (a band of more than ± 0.3 for a drift, (c)'s
  ceiling, or a factor of 10 for a norm), and where only an order can be compared, the figure is shown and not checked.
- s is known from three seeds only: a faithful repetition leaves a band about one time in ten (|t| > 3 at two degrees of
  freedom). One figure of many that differs is no failed repetition.
- `deep_gamma` leaves out a layer whose credit comes free; `deep_gamma_with_free` counts it in, as FA's Γ is published.

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
        published = scan([sample_runs() / chosen.table]) if chosen.table else None
        lines = [
            " ".join(["fa-tui", *step]) for step in chosen.commands("DIR", "DIR", "replication")
        ]
        blocks = list(experiment_blocks(chosen, lines, compared(chosen, {}, published)))
        text = to_markdown(blocks)
        text = "\n".join(
            f"    {line}" if line.startswith("fa-tui ") else line for line in text.splitlines()
        )
        seconds = sum(time_of(plan, data, device, seen) for plan in chosen.plans().values())
        pages.append(f"{text.rstrip()}\n\nExtrapolated: {seconds / 3600:.1f} h of training.")
        print(f"{chosen.name}: {seconds / 3600:.1f} h", file=sys.stderr)
    machine = (
        torch.cuda.get_device_name(device)
        if device != "cpu"
        else f"{os.cpu_count()} cores ({platform.machine()})"
    )
    (HERE / "cifar.md").write_text(
        "\n\n".join([INTRO.format(machine=machine).rstrip(), *pages]) + "\n", encoding="utf-8"
    )


def time_of(plan: RunPlan, data: DataSet, device: str, seen: dict[str, float]) -> float:
    """Seconds of the steps of a run, from the quickest of three times `STEPS` of them."""
    kind = f"{plan.method} {plan.arch} {plan.arch_args} {plan.method_args}"
    if kind not in seen:
        run = Training(plan, data, HERE, torch.device(device), None)
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
