"""Measuring a checkpoint: four separate passes, and the fused one, over the bare pass.

    python -m tests.bench.bench_passes [--networks 3 --rounds 5 --device cuda]

Networks of the published size (ResMLP d=256 L=4, 3,072 inputs), accuracy on 10,000 test samples, K = 10 batches of
128 of them. The ways alternate, so that a busy machine hits all of them; ratios are medians of paired runs. The bare
pass is the activation gradients of the batches and one forward pass over every other sample.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from fa_core.measure.accuracy import run_accuracy
from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.isolate import full_float32
from fa_core.zoo.models import build
from tests.bench.clock import clock_for
from tests.bench.figures import Figure, amount, ratio_within, report

Batches = list[tuple[Tensor, Tensor]]
FLOOR_BUDGET = 1.15
SAMPLES, TEST_BATCH, K, B = 10_000, 1000, 10, 128


@dataclass(frozen=True)
class Samples:
    """What a checkpoint is measured on.

    Attributes:
        batches: for the diagnostics.
        rest: the other samples of the test part.
        test: the whole test part.
        count: how many samples that is.
    """

    batches: Batches
    rest: Batches
    test: Batches
    count: int


def drawn(inputs, device, count=SAMPLES, batch=B):
    """Random samples, the first of them in K batches."""
    x, y = torch.randn(count, inputs, device=device), torch.randint(10, (count,), device=device)

    def cut(start, stop, size):
        if start >= stop:
            return []
        return list(zip(x[start:stop].split(size), y[start:stop].split(size), strict=True))

    batched = K * batch
    batches, rest = cut(0, batched, batch), cut(batched, count, TEST_BATCH)
    return Samples(batches, rest, cut(0, count, TEST_BATCH), count)


def stream_pass(net, samples):
    """(a): norms of the stream."""
    with torch.no_grad():
        for h in net(samples.batches[0][0], return_hidden=True)[1]:
            h.norm(dim=1).median().item()


def gradient_pass(net, samples):
    """(b): norms of its gradients."""
    for g in _all_gradients(net, *samples.batches[0]):
        g.norm(dim=1).median().item()


def drift_pass(net, samples):
    """(c): cosines of the batches' mean gradients."""
    middle = net.n_blocks // 2
    means = [_all_gradients(net, x, y)[middle].mean(dim=0) for x, y in samples.batches]
    for one, other in itertools.combinations(means, 2):
        F.cosine_similarity(one, other, dim=0).item()


def accuracy_pass(net, samples):
    """(d): the test accuracy."""
    with torch.no_grad():
        sum((net(x).argmax(dim=1) == y).sum().item() for x, y in samples.test)


PASSES = (stream_pass, gradient_pass, drift_pass, accuracy_pass)


def four_passes(net, samples):
    """The protocol as four scripts would run it, numbers fetched one by one."""
    for one in PASSES:
        one(net, samples)


def _all_gradients(net, x, y):
    """`loss.backward()` with the stream's gradients kept: the weights get theirs, too."""
    logits, hidden = net(x, return_hidden=True)
    for h in hidden:
        h.retain_grad()
    F.cross_entropy(logits, y).backward()
    net.zero_grad()
    return [h.grad for h in hidden if h.grad is not None]


def fused(net, samples):
    """The path of this project: the batches' samples count for the accuracy, too."""
    hits = int(torch.cat(run_accuracy(net, samples.rest).right).sum()) if samples.rest else 0
    diagnosis = run_diagnosis(net, samples.batches)
    hits += int(torch.cat(list(diagnosis.right)).sum())
    diagnosis.report(headline_acc=hits / samples.count)


def bare(net, samples):
    """Nothing but the passes."""
    with torch.no_grad():
        for x, _ in samples.rest:
            net(x)
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    for x, y in samples.batches:
        logits, hidden = net(x.detach().requires_grad_(), return_hidden=True)
        torch.autograd.grad(F.cross_entropy(logits, y), hidden)
    for parameter in net.parameters():
        parameter.requires_grad_(True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    clock = clock_for(given.device)
    torch.manual_seed(0)
    nets = [build("resmlp", seed=seed).to(given.device) for seed in range(given.networks)]
    samples = drawn(3072, given.device)
    taken = []
    for one in range(given.rounds + 1):
        spent = dict.fromkeys(("bare", "four passes", "fused"), 0.0)
        for net, (name, way) in itertools.product(
            nets, zip(spent, (bare, four_passes, fused), strict=True)
        ):
            with full_float32():
                spent[name] += clock.seconds(partial(way, net, samples)) / len(nets)
        if one:  # the first warms up
            taken.append(spent)
    ours, floor, four = (
        amount(1000 * statistics.median(found[name] for found in taken), "ms")
        for name in ("fused", "bare", "four passes")
    )
    over = statistics.median(found["fused"] / found["bare"] for found in taken)
    gain = statistics.median(found["four passes"] / found["fused"] for found in taken)
    report(
        "A checkpoint of the published size",
        [
            ratio_within(
                "audit over the arithmetic", over, FLOOR_BUDGET, ours, f"bare pass {floor}"
            ),
            Figure(
                "audit against four passes",
                f"{gain:.2f}× as fast",
                f"(a), (b), (c) and the network's accuracy {four}",
            ),
        ],
    )


if __name__ == "__main__":
    main()
