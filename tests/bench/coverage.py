"""How often each interval holds the number it is about: simulations, with the functions of `fa_core.report.intervals`.

    python -m tests.bench.coverage [--repeats 2000]

Nominal: 95 %. Samples are drawn from distributions whose true number is known: in closed form for medians and shares,
as the mean of 20,000 draws for the drift.
"""

import argparse
import math
import statistics
from functools import partial
from itertools import product

import numpy as np

from fa_core.report.intervals import (
    drift_interval,
    growth_interval,
    median_ranks,
    packed,
    paired_margin,
    share_interval,
)
from tests.bench.figures import table

RNG = np.random.default_rng(0)


def covered(draw, true, repeats):
    """The share of intervals that hold the true number."""
    found = [ends for ends in (draw() for _ in range(repeats)) if ends is not None]
    return sum(low <= true <= high for low, high in found) / len(found)


NOISE = {
    "normal": lambda *shape: RNG.standard_normal(shape),
    "heavy tails (t, 3)": lambda *shape: RNG.standard_t(3, shape),
    "skewed (exponential)": lambda *shape: RNG.exponential(1.0, shape) - math.log(2),
    "in two groups": lambda *shape: RNG.normal(2.0 * RNG.choice([-1.0, 1.0], shape), 0.7),
}
"""Of log norms: every one has the median 0."""


STEPS = {"one block": [40.0], "4 blocks": [3.0, 40.0, 2.0, 1.1]}
"""The medians' true ratios, block by block."""


def growth(samples, steps, noise, shared):
    """(a) of norms whose logarithms share a part of their noise from layer to layer."""
    depth, places = len(steps) + 1, median_ranks(samples)
    common, own = NOISE[noise](1, samples), NOISE[noise](depth, samples)
    # a sample takes all of its noise from the common part, or its own: the median of every layer stays 0
    logs = (
        np.where(RNG.random((1, samples)) < shared, common, own)
        * np.linspace(0.3, 0.8, depth)[:, None]
    )
    norms = np.exp(logs + np.concatenate([[0.0], np.log(steps).cumsum()])[:, None])
    ordered = np.sort(norms, axis=1)
    medians = ordered[:, (samples - 1) // 2]
    side = np.sign(norms - medians[:, None])
    agreement = (side[1:] * side[:-1]).mean(axis=1)
    bounds = (ordered[:, place].tolist() for place in places)
    return growth_interval(medians.tolist(), *bounds, agreement.tolist(), samples)


def median(samples, noise):
    """(b), of norms around 1."""
    places = median_ranks(samples)
    ordered = np.sort(np.exp(NOISE[noise](samples)))
    return float(ordered[places[0]]), float(ordered[places[1]])


SPECTRA = {
    "in all directions": np.ones(64),
    "in 5 directions": np.repeat([1.0, 0.0], [5, 59]),
    "as 1/i": 1.0 / np.arange(1, 65),
    "in one direction": np.eye(64)[0],
    "mostly in one": np.where(np.arange(64) == 0, 63.0, 1.0),
}
"""Variance of the gradient noise along 64 axes."""


TAILS = {
    "normal": np.ones,
    "t, 2": lambda shape: np.sqrt(2.0 / RNG.chisquare(2.0, shape)),
    "t, 1": lambda shape: np.sqrt(1.0 / RNG.chisquare(1.0, shape)),
    "one in ten is noise": lambda shape: np.where(RNG.random(shape) < 0.1, 30.0, 1.0),
}
"""How large the noise of a batch is, per batch."""


def directions(batches, noise_over_batch, spectrum, count, tail="normal"):
    """(count, K, 64) batch-mean gradients of unit length: one signal, and noise of N/B times its power."""
    scale = np.sqrt(SPECTRA[spectrum] / SPECTRA[spectrum].sum() * noise_over_batch)
    noise = RNG.standard_normal((count, batches, 64)) * TAILS[tail]((count, batches, 1))
    means = noise * scale + np.full(64, 1 / 8.0)
    return means / np.linalg.norm(means, axis=2, keepdims=True)


def mean_cosine(units):
    k = units.shape[1]
    return (np.square(units.sum(axis=1)).sum(axis=1) - k) / (k * (k - 1))


def drift(batches, noise_over_batch, spectrum, tail, repeats):
    """(c): its true value, and the coverage of its interval."""
    drawn = (directions(batches, noise_over_batch, spectrum, 2_000, tail) for _ in range(5))
    true = statistics.fmean(float(mean_cosine(units).mean()) for units in drawn)
    hits = 0
    for units in directions(batches, noise_over_batch, spectrum, repeats, tail):
        sums = (units @ units.T).sum(axis=1) - 1
        ends = drift_interval(float(sums.sum()) / (batches * (batches - 1)), sums.tolist())
        hits += ends[0] <= true <= ends[1]
    return true, hits / repeats


def margin(samples, better, worse):
    """(d) on the same samples: a share `better` is right in the run alone, `worse` in its baseline alone."""
    place = RNG.random(samples)
    ours, theirs = place < 0.5 + better, (place < 0.5) | (place > 1 - worse)
    return paired_margin(packed(ours.tolist()), packed(theirs.tolist()))


def cases(repeats):
    """One simulation each."""
    for noise, samples in product(NOISE, (20, 128, 1280)):
        where = f"{noise}, n = {samples}"
        for shared, (label, steps) in product((0.0, 0.9), STEPS.items()):
            share = covered(partial(growth, samples, steps, noise, shared), max(steps), repeats)
            yield "(a) growth", f"{where}, {label}, {shared:.0%} of the noise shared", share
        yield "(b) ‖g_L‖", where, covered(partial(median, samples, noise), 1.0, repeats)
    for tail, spectrum, batches, ratio in product(
        TAILS, SPECTRA, (8, 10, 20), (0.05, 0.5, 2.0, 10.0)
    ):
        true, share = drift(batches, ratio, spectrum, tail, max(repeats // 4, 1))
        case = f"noise {spectrum}, {tail}, K = {batches}, c = {true:.2f}"
        yield f"(c) drift, {tail}", case, share
    for samples in (20, 100, 360, 10_000):
        for better, worse in MARGINS:
            draw = partial(margin, samples, better, worse)
            share = covered(draw, 100 * (better - worse), repeats)
            yield "(d) margin, paired", f"n = {samples}, {better:.1%}, {worse:.1%}", share
        for acc in (0.1, 0.5, 0.9, 0.98):
            share = covered(partial(accuracy, samples, acc), acc, repeats)
            yield "(d) accuracy", f"n = {samples}, accuracy {acc:g}", share


MARGINS = ((0.01, 0.01), (0.025, 0.008), (0.1, 0.0005), (0.06, 0.04), (0.18, 0.13), (0.45, 0.001))
"""Shares of samples on which only the run, and only its baseline, is right."""


def accuracy(samples, acc):
    return share_interval(int(RNG.binomial(samples, acc)), samples)


def main():
    parser = argparse.ArgumentParser(description="How often each interval holds its number.")
    parser.add_argument(
        "--repeats", type=int, default=2000, metavar="R", help="the drift takes R/4"
    )
    repeats = parser.parse_args().repeats
    print(f"Coverage of the 95 % intervals, {repeats} repeats (drift: {max(repeats // 4, 1)})\n")
    found = list(cases(repeats))
    table(
        ("interval", "drawn from", "coverage"),
        [(name, case, f"{share:.3f}") for name, case, share in found],
    )
    by_name = {}
    for name, _, share in found:
        by_name.setdefault(name, []).append(share)
    rows = [
        (name, str(len(each)), f"{min(each):.3f}, {statistics.median(each):.3f}, {max(each):.3f}")
        for name, each in by_name.items()
    ]
    table(("interval", "cases", "coverage"), rows, "Least, median and greatest")


if __name__ == "__main__":
    main()
