"""Measuring many checkpoints: four passes one by one, fused one by one, and in a group, over the bare pass.

    python -m tests.bench.bench_group [--networks 15 --rounds 3 --device cuda --threads 2]

Networks of the published size (ResMLP d=256 L=4, 3,072 inputs), accuracy on 10,000 test samples, K = 10 batches of
128 of them. The ways alternate, so that a busy machine hits all of them; ratios are medians of paired runs. The bare
pass is the activation gradients of the batches and one forward pass over every other sample, with no number taken
from them: one by one and in a group, the faster of the two. Operations and waits are counted, and are the same on
every device.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from fa_core.measure.accuracy import run_accuracy
from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.group import measure_together
from fa_core.measure.isolate import full_float32
from fa_core.measure.passes import backward
from fa_core.measure.vmapped import VmappedNetworks
from fa_core.models import StreamNet, build
from tests.bench.figures import Figure, amount, ratio_within, report, table
from tests.bench.op_counts import count

Batches = list[tuple[Tensor, Tensor]]
FLOOR_BUDGET = 1.15
GAIN_ON_CPU, GAIN_ON_CUDA = 1.6, 10.0
FLOORS = ("bare, one by one", "bare, grouped")
PEER = "four passes and a baseline"
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


def drawn(inputs: int, device: str, count: int = SAMPLES, batch: int = B) -> Samples:
    """Random samples, the first of them in K batches."""
    x, y = torch.randn(count, inputs, device=device), torch.randint(10, (count,), device=device)

    def cut(start: int, stop: int, size: int) -> Batches:
        return (
            list(zip(x[start:stop].split(size), y[start:stop].split(size), strict=True))
            if start < stop
            else []
        )

    return Samples(
        cut(0, K * batch, batch),
        cut(K * batch, count, TEST_BATCH),
        cut(0, count, TEST_BATCH),
        count,
    )


def four_passes(net: StreamNet, samples: Samples) -> None:
    """The protocol as four scripts would run it, each diagnostic with its own pass, numbers fetched one by one."""
    batches = samples.batches
    x, y = batches[0]
    with torch.no_grad():
        for h in net(x, return_hidden=True)[1]:
            h.norm(dim=1).median().item()
    for g in _all_gradients(net, x, y):
        g.norm(dim=1).median().item()
    means = [_all_gradients(net, x, y)[net.n_blocks // 2].mean(dim=0) for x, y in batches]
    for one, other in itertools.combinations(means, 2):
        F.cosine_similarity(one, other, dim=0).item()
    _accuracy(net, samples)


def four_passes_and_baseline(net: StreamNet, samples: Samples) -> None:
    """The same, with the accuracy of the frozen baseline that (d) compares with: another network of this size."""
    four_passes(net, samples)
    _accuracy(net, samples)


def _accuracy(net: StreamNet, samples: Samples) -> None:
    with torch.no_grad():
        sum((net(x).argmax(dim=1) == y).sum().item() for x, y in samples.test)


def _all_gradients(net: StreamNet, x: Tensor, y: Tensor) -> list[Tensor]:
    """`loss.backward()` with the stream's gradients kept: the weights get theirs, too."""
    logits, hidden = net(x, return_hidden=True)
    for h in hidden:
        h.retain_grad()
    F.cross_entropy(logits, y).backward()
    net.zero_grad()
    return [h.grad for h in hidden if h.grad is not None]


def fused(net: StreamNet, samples: Samples) -> None:
    """The ordinary path of this project: the batches' samples count for the accuracy, too."""
    hits = int(torch.cat(run_accuracy(net, samples.rest).right).sum()) if samples.rest else 0
    diagnosis = run_diagnosis(net, samples.batches)
    diagnosis.report(headline_acc=(hits + diagnosis.hits) / samples.count)


def grouped(nets: Sequence[StreamNet], samples: Samples) -> None:
    """All of them together, the batches' samples counted for the accuracy, too."""
    for member in measure_together(nets, samples.batches, samples.rest, count_batches=True):
        assert member.diagnosis is not None and not member.note
        member.diagnosis.report(headline_acc=member.acc)


def bare(net: StreamNet, samples: Samples) -> None:
    """Nothing but the passes of one network."""
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


def bare_group(nets: Sequence[StreamNet], samples: Samples) -> None:
    """Nothing but the passes of all."""
    stack = VmappedNetworks(nets)
    for x, _ in samples.rest:
        stack.logits(x)
    for x, y in samples.batches:
        backward(stack.forward(x), y)


@dataclass(frozen=True)
class Clock:
    """Seconds of one call.

    Attributes:
        device: waited for before and after.
        processor: this process's processor time instead of the wall's: steady on a busy machine, with one thread.
    """

    device: str
    processor: bool = False

    def seconds(self, run: Callable[[], object]) -> float:
        read = time.process_time if self.processor else time.perf_counter
        self._wait()
        start = read()
        run()
        self._wait()
        return read() - start

    def _wait(self) -> None:
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()


def clock_for(device: str) -> Clock:
    """On a CPU processor time, and one thread from now on; both are steady on a machine that others use, too."""
    cuda = device.startswith("cuda")
    if not cuda:
        torch.set_num_threads(1)
    return Clock(device, processor=not cuda)


def counted(nets: Sequence[StreamNet], samples: Samples) -> None:
    """Operations and waits per checkpoint, in every way."""
    ways: dict[str, tuple[Callable[[], object], int]] = {
        "four passes": (lambda: four_passes(nets[0], samples), 1),
        "fused": (lambda: fused(nets[0], samples), 1),
        "grouped": (lambda: grouped(nets, samples), len(nets)),
    }
    rows = []
    for name, (run, checkpoints) in ways.items():
        found = count(run)
        rows.append(
            (name, f"{found.operations / checkpoints:.0f}", f"{found.waits / checkpoints:.1f}")
        )
    table(("way", "operations", "waits"), rows, "Asked of the device, per checkpoint")


def timed(
    nets: Sequence[StreamNet], samples: Samples, rounds: int, clock: Clock
) -> dict[str, float]:
    """Median seconds of every way for all checkpoints. One network after the other goes through the ways in turn."""
    singles = {
        FLOORS[0]: bare,
        "four passes": four_passes,
        PEER: four_passes_and_baseline,
        "fused": fused,
    }
    groups = {FLOORS[1]: bare_group, "grouped": grouped}
    taken: list[dict[str, float]] = []
    for one in range(rounds + 1):
        spent = dict.fromkeys((*singles, *groups), 0.0)
        for net, (name, way) in itertools.product(nets, singles.items()):
            with full_float32():
                spent[name] += clock.seconds(partial(way, net, samples))
        for name, together in groups.items():
            with full_float32():
                spent[name] += clock.seconds(partial(together, nets, samples))
        if one:  # the first warms up
            taken.append(spent)
    rows = []
    for name in spent:
        milliseconds = 1000 * statistics.median(found[name] for found in taken) / len(nets)
        rows.append((name, f"{milliseconds:.2f}", f"{_ratio(taken, name, *FLOORS):.2f}×"))
    table(("way", "milliseconds", "over the bare pass"), rows, "Every way, per checkpoint")
    cuda = clock.device.startswith("cuda")
    chosen, wanted = ("grouped", GAIN_ON_CUDA) if cuda else ("fused", GAIN_ON_CPU)
    over, gain = _ratio(taken, chosen, *FLOORS), 1 / _ratio(taken, chosen, "four passes")
    spent = {name: statistics.median(found[name] for found in taken) for name in spent}
    ours, floor, four, peer = (
        amount(1000 * seconds / len(nets), "ms")
        for seconds in (
            spent[chosen],
            min(spent[name] for name in FLOORS),
            spent["four passes"],
            spent[PEER],
        )
    )
    plain, gained = f"{gain:.2f}× as fast", f"{1 / _ratio(taken, chosen, PEER):.2f}× as fast"
    report(
        f"{len(nets)} checkpoints of the published size, per checkpoint",
        [
            ratio_within(
                "audit over the arithmetic", over, FLOOR_BUDGET, ours, f"bare pass {floor}"
            ),
            Figure(
                "audit against four passes",
                plain,
                f"(a), (b), (c) and the network's accuracy {four}",
                None,
                f"≥ {wanted:g}× as fast",
                gain >= wanted,
            ),
            # not like for like: the audit takes the baseline's accuracy as given
            Figure(
                "audit against " + PEER,
                gained,
                f"the same and the frozen network's accuracy {peer}",
            ),
        ],
    )
    return spent


def _ratio(taken: list[dict[str, float]], name: str, *over: str) -> float:
    """Median of paired ratios; of several to compare with, the fastest."""
    return statistics.median(found[name] / min(found[other] for other in over) for found in taken)


def against_the_card(
    nets: Sequence[StreamNet], samples: Samples, took: float, clock: Clock
) -> None:
    """Achieved FLOP/s and bytes/s of the group, over what a big product and a big copy reach on the same card."""
    with FlopCounterMode(display=False) as flops:
        bare_group(nets, samples)
    moved = count(lambda: bare_group(nets, samples)).bytes
    a, b = (torch.randn(8192, 8192, device=clock.device) for _ in range(2))
    big = torch.empty(2**28, device=clock.device)
    with full_float32():
        product = statistics.median(clock.seconds(lambda: a @ b) for _ in range(10))
    copy = statistics.median(clock.seconds(lambda: big.clone()) for _ in range(10))
    flop_rate, flop_ceiling = flops.get_total_flops() / took, 2 * 8192**3 / product
    byte_rate, byte_ceiling = moved / took, 2 * big.nbytes / copy
    print(
        f"arithmetic: {flop_rate / 1e12:.1f} of {flop_ceiling / 1e12:.1f} TFLOP/s ({flop_rate / flop_ceiling:.0%})"
    )
    print(
        f"memory: {byte_rate / 1e9:.0f} of {byte_ceiling / 1e9:.0f} GB/s ({byte_rate / byte_ceiling:.0%})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--networks", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--threads", type=int, help="measure wall time with that many, not processor time with one"
    )
    given = parser.parse_args()
    clock = clock_for(given.device)
    if given.threads:
        torch.set_num_threads(given.threads)
        clock = Clock(given.device)
    torch.manual_seed(0)
    nets = [build("resmlp", seed=seed).to(given.device) for seed in range(given.networks)]
    samples = drawn(3072, given.device)
    counted(nets, samples)
    took = timed(nets, samples, given.rounds, clock)
    if given.device.startswith("cuda"):
        against_the_card(nets, samples, took["grouped"], clock)


if __name__ == "__main__":
    main()
