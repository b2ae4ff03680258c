"""How often each interval holds the number it is about, and how often a decision is wrong: simulations.

    python -m tests.bench.coverage [--repeats 300]

Nominal: 95 %. Samples are drawn from distributions whose true number is known: in closed form for medians and shares,
as the mean of many draws for the drift. *held*: the interval holds the number, or the limit too (undecided).
"""

import argparse
import math
import statistics
from functools import partial
from itertools import product

import numpy as np
import torch

from fa_core.measure.norms import growth_interval
from fa_core.report.intervals import (
    drift_interval,
    median_ranks,
    packed,
    paired_margin,
    share_interval,
)
from tests.bench.figures import table

RNG = np.random.default_rng(0)
DRIFT_CEILING = 0.3


def judged(draw, true, limits, repeats):
    """Shares of intervals that hold the true number, that hold it or a limit, and of wrong decisions at the worst
    of the limits."""
    found = [ends for ends in (draw() for _ in range(repeats)) if ends is not None]
    # where a sample's noise is the same at both layers the ends are the number, up to rounding
    holds = [low * (1 - 1e-9) <= true <= high * (1 + 1e-9) for low, high in found]
    wrong, open_ones = [], [False] * len(found)
    for limit in limits:
        fires = true > limit
        wrong.append(sum((high <= limit) if fires else (low > limit) for low, high in found))
        open_ones = [
            so_far or low <= limit < high
            for so_far, (low, high) in zip(open_ones, found, strict=True)
        ]
    held = sum(map(max, holds, open_ones)) / len(found)
    return sum(holds) / len(found), held, max(wrong, default=0.0) / len(found)


def growing(logs, growth):
    """Norms of these logs, at each layer larger by a factor."""
    return np.exp(logs + np.arange(len(logs))[:, None] * math.log(growth))


def lognormal(samples, blocks, growth, shared=0.9):
    """Blocks that all grow alike; a sample's noise is partly the same at every layer."""
    common, own = RNG.standard_normal((1, samples)), RNG.standard_normal((blocks + 1, samples))
    logs = 0.5 * np.where(RNG.random((1, samples)) < shared, common, own)
    return growing(logs, growth)


def cauchy(samples, blocks, growth):
    """Log norms of Cauchy noise, apart at every layer."""
    logs = 0.3 * RNG.standard_cauchy((blocks + 1, samples)).clip(-300, 300)
    return growing(logs, growth)


def gate(samples, blocks, growth, share=0.52):
    """A gate that a share of the samples opens in the first block; the others do nothing."""
    first = np.exp(0.1 * RNG.standard_normal(samples))
    opened = np.where(RNG.random(samples) < share, growth, 1.0)
    return np.stack([first, *[first * opened] * blocks])


def changing_sides(samples, blocks, growth):
    """Two groups with a gap of ×8 between; half of the samples change sides from layer to layer."""
    layers = blocks + 1
    fixed, fresh = RNG.random(samples) < 0.52, RNG.random((layers, samples)) < 0.52
    upper = np.where(RNG.random((layers, samples)) < 0.5, fixed, fresh)
    logs = np.where(upper, math.log(8), 0.0) + 0.1 * RNG.standard_normal((layers, samples))
    return growing(logs, growth)


STREAMS = {
    "blocks that grow alike": lognormal,
    "Cauchy tails": cauchy,
    "a gate open for 52 %": gate,
    "groups that change sides": changing_sides,
}
"""Norms (L+1, n) of a network."""


def true_growth(norms, blocks, growth):
    """The growth of the medians: as it is set, but behind a gate."""
    if norms is not gate:
        return growth
    first, opened, *_ = np.median(norms(2_000_001, 1, growth), axis=1)
    return float(opened / first)


def growth(norms, samples, blocks, ratio):
    return growth_interval(torch.from_numpy(norms(samples, blocks, ratio)))


def median(samples):
    """(b), of log-normal norms around 1."""
    low, high = median_ranks(samples)
    ordered = np.sort(np.exp(RNG.standard_normal(samples)))
    return float(ordered[low]), float(ordered[high])


def pointed(signal, noise, axes, tail=None):
    """Batch-mean gradients of unit length: one signal, and noise along some axes.

    Args:
        signal: the number of batches → the signal's size of each batch.
        noise: its size.
        axes: how many.
        tail: the number of batches → a factor of each batch's noise.
    """

    def draw(batches):
        means = RNG.standard_normal((batches, axes)) * noise / math.sqrt(axes)
        if tail is not None:
            means *= tail(batches)[:, None]
        means[:, 0] += signal(batches)
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    return draw


def flipped(share):
    return lambda batches: np.where(RNG.random(batches) < share, 1.0, -1.0)


def two_classes(middle):
    """The mean error of two classes is one number per batch, times the same vector."""
    return lambda batches: middle + RNG.standard_normal(batches)


TAILS = {
    "normal noise": None,
    "noise of t, 2": lambda batches: np.sqrt(2.0 / RNG.chisquare(2.0, batches)),
    "noise of t, 1": lambda batches: np.sqrt(1.0 / RNG.chisquare(1.0, batches)),
}


def gradients():
    """(name, draws of mean gradients) of every case of the drift."""
    for (tail, factor), axes, noise in product(TAILS.items(), (4, 64), (8.0, 2.0, 1.0, 0.5)):
        yield f"{tail}, {axes} axes", pointed(np.ones, noise, axes, factor)
    for axes, noise in product((4, 64), (0.0, 0.1, 0.3)):
        kind = f"noise of {noise:g} along {axes} axes" if noise else "on one line"
        for share in (0.5, 0.77, 0.9, 0.95):
            yield f"sign flips, {kind}", pointed(flipped(share), noise, axes)
        for middle in (0.0, 0.5, 1.0, 2.0):
            yield f"two classes, {kind}", pointed(two_classes(middle), noise, axes)


def mean_cosine(cosines):
    k = len(cosines)
    return float(cosines.sum() - k) / (k * (k - 1))


def drift(draw, batches):
    units = draw(batches)
    cosines = units @ units.T
    return drift_interval(mean_cosine(cosines), cosines.tolist())


def true_drift(draw):
    """E⟨u, u'⟩ = ‖E u‖²."""
    return float(np.square(draw(100_000).mean(axis=0)).sum())


def margin(samples, better, worse):
    """(d) on the same samples: a share `better` is right in the run alone, `worse` in its baseline alone."""
    place = RNG.random(samples)
    ours, theirs = place < 0.5 + better, (place < 0.5) | (place > 1 - worse)
    return paired_margin(packed(ours.tolist()), packed(theirs.tolist()))


def cases(repeats):
    """(interval, kind, coverage, held, wrong decisions) of one simulation each."""
    for (kind, norms), blocks in product(STREAMS.items(), (1, 4)):
        ratio = 60.0 if norms is gate else 3.0
        true = true_growth(norms, blocks, ratio)
        for samples in (20, 128, 512):
            draw = partial(growth, norms, samples, blocks, ratio)
            found = judged(draw, true, (true * 0.7, true * 1.3), repeats)
            yield "(a) growth", kind, *found
    for samples in (20, 128, 1280):
        found = judged(partial(median, samples), 1.0, (0.7, 1.3), repeats)
        yield "(b) ‖g_L‖", "log-normal", *found
    for kind, draw in gradients():
        true = true_drift(draw)
        for batches in (8, 10, 16, 20, 32, 40):
            found = judged(partial(drift, draw, batches), true, (DRIFT_CEILING,), repeats)
            yield "(c) drift", kind, *found
    for samples in (20, 100, 360, 10_000):
        for better, worse in MARGINS:
            true = 100 * (better - worse)
            draw = partial(margin, samples, better, worse)
            yield "(d) margin", "paired", *judged(draw, true, (2.0,), repeats)
        for acc in (0.1, 0.5, 0.9, 0.98):
            draw = partial(accuracy, samples, acc)
            yield "(d) accuracy", "", *judged(draw, acc, (), repeats)


MARGINS = ((0.01, 0.01), (0.025, 0.008), (0.1, 0.0005), (0.06, 0.04), (0.18, 0.13), (0.45, 0.001))
"""Shares of samples on which only the run, and only its baseline, is right."""


def accuracy(samples, acc):
    return share_interval(int(RNG.binomial(samples, acc)), samples)


def main():
    parser = argparse.ArgumentParser(description="How often each interval holds its number.")
    parser.add_argument("--repeats", type=int, default=300, metavar="R")
    given = parser.parse_args()
    by_kind = {}
    for name, kind, *shares in cases(given.repeats):
        by_kind.setdefault(f"{name}: {kind}", []).append(shares)
    rows = []
    for name, each in by_kind.items():
        held = [share for _, share, _ in each]
        least = f"{min(share for share, _, _ in each):.2f}"
        between = f"{min(held):.2f}, {statistics.median(held):.2f}"
        rows.append(
            (name, str(len(each)), least, between, f"{max(wrong for _, _, wrong in each):.3f}")
        )
    title = f"95 % intervals, {given.repeats} repeats a case"
    columns = ("interval", "cases", "least coverage", "held: least, median", "wrong: most")
    table(columns, rows, title)


if __name__ == "__main__":
    main()
