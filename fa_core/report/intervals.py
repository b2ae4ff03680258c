"""95 % intervals in closed form, from the samples of one audit. Pure Python.

No resampling: the same audit gives the same interval, and it costs nothing next to a forward pass.
Coverage was simulated (`python -m tests.bench.coverage`; the table is in docs/protocol.md §3). A
number without an interval (an old file, too few samples) is judged as a point.
"""

from __future__ import annotations

import binascii
import math
import sys
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from fa_core.report.diagnostics import NORM_RATIO_EPS, block_growths
from fa_core.report.measurements import Interval

LEVEL = 0.95
"""Coverage probability of an interval."""

TAIL = (1 - LEVEL) / 2
"""Probability that the number lies beyond one end."""

REFERENCE_BATCH = 128
"""B at which the thresholds of (b) and (c) are meant (docs/protocol.md §3)."""

_LARGEST = 709.0
"""Largest exponent of a finite exponential."""

FEWEST = 20
"""Minimum samples for an interval of growth: fewer may miss a second group of samples."""

_EXACT_UP_TO = 1000
"""Maximum number of samples for exact binomial sums."""

_HALVINGS = 60
"""Steps of a bisection within [0, 1], to the last bit of a float."""

_Z = 1.959963984540054
"""The normal distribution's quantile at (1 + LEVEL)/2."""


def growth_interval(
    medians: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
    agreement: Sequence[float],
    samples: int,
) -> Interval | None:
    """(a): of growth = max_l q_l, q_l = m_{l+1}/m_l, the m_l medians over the same samples.

        s_l = (log high_l − log low_l)/2z,  s²(l) = s_l² + s_{l+1}² − 2·r_l·s_l·s_{l+1}
        (max_l q_l·exp(−z'·s(l)), max_l q_l·exp(z·s(l)))

    low_l and high_l bound m_l (`median_ranks`) and so give the standard error of its logarithm; r_l
    is the correlation of the two medians' errors, from how often a sample lies on the same side of
    both. z' is z for L comparisons, since the largest of L lower bounds is reported.

    Args:
        medians, lows, highs: m_l and its bounds, l = 0..L.
        agreement: r_l = mean_i sign(‖h_l,i‖ − m_l)·sign(‖h_{l+1},i‖ − m_{l+1}), l = 0..L−1.
        samples: n.

    Returns:
        Ratios, which hold the growth. None for fewer than two layers or fewer than `FEWEST`
        samples; where a number is not finite, or the growth itself is not; where a norm is below
        `NORM_RATIO_EPS`, as in a stream that is 0.

    Source: McKean & Schrader, Communications in Statistics B 13, 1984 (standard error of a median).

    >>> low, high = growth_interval([1.0, 2.0], [0.9, 1.8], [1.1, 2.2], [0.5], 128)
    >>> round(low, 2), round(high, 2)
    (1.82, 2.2)
    """
    # imported where something is measured: it takes 8 ms, a first screen needs none of it
    from statistics import NormalDist

    if samples < FEWEST or len(medians) < 2 or not _has_logarithms([*medians, *lows, *highs]):
        return None
    ratios = block_growths(medians)
    if not math.isfinite(max(ratios)):
        return None
    _, tail = _median_bounds(samples)
    covered = NormalDist().inv_cdf(1 - tail)
    errors = []
    for low, high in zip(lows, highs, strict=True):
        width = math.log(high) - math.log(low)
        errors.append(width / (2 * covered))
    comparisons = len(ratios)
    several = NormalDist().inv_cdf(1 - (1 - LEVEL) / (2 * comparisons))
    bounds_below, bounds_above = [], []
    for q, (before, after), r in zip(ratios, pairwise(errors), agreement, strict=True):
        variance = before**2 + after**2 - 2 * r * before * after
        spread = math.sqrt(max(variance, 0.0))
        bounds_below.append(q * math.exp(-several * spread))
        bounds_above.append(q * math.exp(min(_Z * spread, _LARGEST)))
    return max(bounds_below), min(max(bounds_above), sys.float_info.max)


def _has_logarithms(norms: Sequence[float]) -> bool:
    """Whether no norm is below the smallest denominator of a growth ratio."""
    return all(map(math.isfinite, norms)) and min(norms) >= NORM_RATIO_EPS


def median_ranks(samples: int) -> tuple[int, int] | None:
    """(b): places in the sorted values, from 0, between which the population's median lies with
    probability ≥ `LEVEL`.

    The largest k with P(Binomial(n, ½) < k) ≤ (1 − LEVEL)/2 gives k − 1 and n − k: exact for every
    continuous distribution; by the normal one above n = 1,000.

    Args:
        samples: n.

    Returns:
        (low, high); None for n < 6, where no two values reach the level.

    Source: David & Nagaraja, Order Statistics, 2003, §7.1.

    >>> median_ranks(128), median_ranks(5)
    ((52, 75), None)
    """
    return _median_bounds(samples)[0]


@cache
def _median_bounds(samples: int) -> tuple[tuple[int, int] | None, float]:
    """The places, and the probability that the median lies below the lower one."""
    if samples > _EXACT_UP_TO:
        deviation = math.sqrt(samples)
        k = int((samples - _Z * deviation) / 2)
        distance = (samples + 1 - 2 * k) / math.sqrt(2 * samples)
        return (k - 1, samples - k), math.erfc(distance) / 2
    k, tail = 0, 0.0
    outcomes, all_outcomes = 1, 2**samples
    while outcomes / all_outcomes <= TAIL:
        tail = outcomes / all_outcomes
        k += 1
        outcomes += math.comb(samples, k)
    if k == 0:
        return None, tail
    return (k - 1, samples - k), tail


LOOKS = {8: 3.3353, 16: 2.8366, 32: 2.6519, 64: 2.5714}
"""K at which `--batches auto` looks → t_{K−1} at 1 − 0.05/8: of four looks, each 95 % after
Bonferroni."""


def drift_interval(
    drift: float, row_sums: Sequence[float], t: float | None = None
) -> Interval | None:
    """(c): of the mean cosine over pairs of K batches: the jackknife over batches, and over one
    more that was not seen.

        c = Σ_k s_k/K(K−1),  s_k = Σ_{j≠k} c_jk,  half = t_{K−1}·2·√(Σ(s_k − s̄)²/K(K−1))/(K−2)
        from the lower of the two c − half to the higher c + half: of s_1..s_K, and of s_1..s_K and
        s_{K+1} = 0

    K batches that agree do not show that every batch would: the one more is orthogonal to them.
    Without it the jackknife covers as little as 0.6 where one batch in ten is unlike the others, or
    the noise has heavy tails.

    Args:
        drift: c, as it is reported.
        row_sums: s_k, k = 1..K.
        t: the quantile; None = of 95 %.

    Returns:
        Within [−1, 1], and holds c; None for K < 3 or a value that is not finite.

    Source: Arvesen, Annals of Mathematical Statistics 40, 1969 (jackknifing U-statistics); the one
    more is ours, its coverage is simulated in docs/protocol.md §3.1.

    >>> low, high = drift_interval(0.9, [8.1] * 10)
    >>> round(low, 2), high
    (0.37, 1.0)
    """
    k = len(row_sums)
    if k < 3 or not math.isfinite(sum(row_sums) + drift):
        return None
    if t is None:
        t = t_quantile(k - 1)
    low, high = _jackknifed(row_sums, t)
    low_with_one_more, high_with_one_more = _jackknifed([*row_sums, 0.0], t)
    # c and the sums are rounded separately: include c itself
    lowest = min(low, low_with_one_more, drift)
    highest = max(high, high_with_one_more, drift)
    return max(-1.0, lowest), min(1.0, highest)


def _jackknifed(sums: Sequence[float], t: float) -> Interval:
    """c ± t·its standard error, from the sums s_k."""
    k = len(sums)
    middle = sum(sums) / k
    squares = sum((s - middle) ** 2 for s in sums)
    of_mean = math.sqrt(squares / (k * (k - 1)))
    error = 2 * of_mean / (k - 2)
    cosine = middle / (k - 1)
    return cosine - t * error, cosine + t * error


@cache
def t_quantile(freedom: float) -> float:
    """Student's t at (1 + LEVEL)/2, by its expansion about the normal: within 2e-4 from 5 degrees
    of freedom on.

    Args:
        freedom: degrees of freedom; ∞ gives the normal quantile.

    Source: Abramowitz & Stegun, Handbook of Mathematical Functions, 1964, 26.7.5.

    >>> round(t_quantile(9), 3)
    2.262
    """
    z, v = _Z, float(freedom)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    correction = 0.0
    for power, term in enumerate(terms, start=1):
        correction += term / v**power
    return z + correction


def share_interval(hits: float, samples: int) -> Interval:
    """Wilson's interval of a share hits/n on random samples.

    Args:
        hits: 0..n.
        samples: n, 1 or more.

    Source: Wilson, Journal of the American Statistical Association 22, 1927.

    >>> low, high = share_interval(180, 360)
    >>> round(low, 3), round(high, 3)
    (0.449, 0.551)
    """
    p = hits / samples
    z2 = _Z**2 / samples
    middle = (p + z2 / 2) / (1 + z2)
    variance = z2 * p * (1 - p) + z2**2 / 4
    half = math.sqrt(variance) / (1 + z2)
    # at 0 and n hits an end is p itself, up to rounding
    low = min(p, middle - half)
    high = max(p, middle + half)
    return max(0.0, low), min(1.0, high)


def packed(right: Sequence[bool]) -> str:
    """The correctly classified samples as text, ``"n:base64 of the bits"``.

    >>> packed([True, False, True])
    '3:BQ=='
    """
    digits = "".join("1" if hit else "0" for hit in reversed(right))
    bits = int(digits or "0", 2)
    data = bits.to_bytes((len(right) + 7) // 8, "little")
    code = binascii.b2a_base64(data, newline=False)
    return f"{len(right)}:{code.decode()}"


def paired_margin(right: str, baseline_right: str) -> Interval | None:
    """(d): of 100·(acc − baseline), both counted on the same n samples: Tango's score interval.

        b samples are right in the run alone, c in the baseline alone, of n:
        all δ with |b − c − n·δ| − ½ ≤ z·√(n·(2q + δ(1 − δ))),  q the likeliest share of c under δ

    It stays within ±100 and has width also where all samples differ, or none. The ½ is for counts
    being whole: without it one end is missed in up to 4 % of the cases instead of 2.5 %.

    Args:
        right, baseline_right: as `packed` gives them, of the same samples in the same order.

    Returns:
        Percentage points; None for unequal lengths or invalid texts.

    Source: Tango, Statistics in Medicine 17, 1998.

    >>> low, high = paired_margin(packed([True] * 9 + [False] * 351),
    ...     packed([False] * 357 + [True] * 3))
    >>> round(low, 2), round(high, 2)
    (-0.42, 4.13)
    """
    samples, ours = _bits_of(right)
    other_samples, theirs = _bits_of(baseline_right)
    if not samples or samples != other_samples:
        return None
    b = (ours & ~theirs).bit_count()
    c = (theirs & ~ours).bit_count()
    # the lower end is the negated upper end of the reversed difference
    low = -_score_bound(c, b, samples)
    high = _score_bound(b, c, samples)
    return 100 * low, 100 * high


def _score_bound(b: int, c: int, n: int) -> float:
    """The largest difference of two paired shares that b and c of n samples leave possible, by
    bisection."""
    low, high = (b - c) / n, 1.0
    for _ in range(_HALVINGS):
        delta = (low + high) / 2
        # q solves 2n·q² + linear·q − c·δ(1 − δ) = 0
        linear = (2 * n - b + c) * delta - b - c
        root = math.sqrt(linear**2 + 8 * n * c * delta * (1 - delta))
        q = (root - linear) / (4 * n)
        share = 2 * q + delta * (1 - delta)
        beyond = max(n * delta - b + c - 0.5, 0.0)
        if beyond**2 <= _Z**2 * n * share:
            low = delta
        else:
            high = delta
    return high


def sample_count(right: str) -> int:
    """The number of samples that `packed` text is about; 0 for other texts."""
    samples, _ = _bits_of(right)
    return samples


def _bits_of(text: str) -> tuple[int, int]:
    """n and the bits of a `packed` text; (0, 0) for other texts."""
    count, _, code = text.partition(":")
    try:
        samples, bits = int(count), binascii.a2b_base64(code)
    except ValueError:
        return 0, 0
    if len(bits) != (samples + 7) // 8:
        return 0, 0
    return samples, int.from_bytes(bits, "little")


def at_reference_batch(drift: float, batch_size: int) -> float:
    """(c) rescaled to B = 128: c/(c + (1 − c)·B/128), from E c(B) = 1/(1 + N/B).

    A cosine ≤ 0 gives no estimate of N and is unchanged.

    >>> round(at_reference_batch(0.68, 1000), 2), at_reference_batch(-0.1, 1000)
    (0.21, -0.1)
    """
    if drift <= 0:
        return drift
    return drift / (drift + (1 - drift) * batch_size / REFERENCE_BATCH)


def noise_scale(drift: float, batch_size: int) -> float:
    """N = B·(1/c − 1), the gradient noise scale in samples: at B = N half of a batch-mean gradient
    is noise.

    Returns:
        +inf for c ≤ 0, where the batches share no direction that K of them could show.

    Source: McCandlish et al., An Empirical Model of Large-Batch Training, 2018.

    >>> round(noise_scale(0.26, 128))
    364
    """
    if drift <= 0:
        return math.inf
    return batch_size * (1 / drift - 1)
