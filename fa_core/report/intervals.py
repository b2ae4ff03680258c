"""95 % intervals of (b), (c) and (d) from the samples of one audit. Pure Python.

(a)'s is in `fa_core.measure.norms`. The same audit gives the same interval. Coverage was
simulated (`python -m tests.bench.coverage`; the table is in docs/protocol/intervals.md). A number
without an interval (an old file, too few samples) is judged as a point.
"""

from __future__ import annotations

import binascii
import math
from collections import Counter
from collections.abc import Sequence
from functools import cache

from fa_core.report.provenance import Interval

LEVEL = 0.95
"""Coverage probability of an interval."""

TAIL = (1 - LEVEL) / 2
"""Probability that the number lies beyond one end."""

REFERENCE_BATCH, MIN_BATCHES = 128, 8
"""B at which the thresholds of (b) and (c) are meant, and the fewest batches for (c)
(docs/protocol.md §3)."""

FEWEST = 20
"""Minimum samples for an interval of growth: fewer may miss a second group of samples."""

_EXACT_UP_TO = 1000
"""Maximum number of samples for exact binomial sums."""

_HALVINGS = 60
"""Steps of a bisection within [0, 1], to the last bit of a float."""

Z_OF_ONE = 1.959963984540054
"""The normal distribution's quantile at (1 + LEVEL)/2."""


@cache
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
    if samples > _EXACT_UP_TO:
        k = int((samples - Z_OF_ONE * math.sqrt(samples)) / 2)
    else:
        k = 0
        outcomes = 1
        all_outcomes = 2**samples
        while outcomes / all_outcomes <= TAIL:
            k += 1
            outcomes += math.comb(samples, k)
    if k == 0:
        return None
    return k - 1, samples - k


LOOKS = (8, 16, 32, 64)
"""K at which `--batches auto` looks whether (c) is decided; it takes no more."""

Z_OF_LOOKS = 2.497705474412285
"""The normal distribution's quantile at 1 − 0.05/8: four looks share 5 % (Bonferroni)."""

ON_A_LINE = 0.8
"""Mean squared cosine of pairs of batches from which on their mean gradients count as on one
line."""

NEAR_A_LINE = 0.5
"""The same from which on a drift near 0 may be a larger one that the batches' sides hide."""

FEWEST_ON_A_LINE = 20
"""Minimum batches for an interval of a drift on one line: fewer may miss a flip of the sign."""


def drift_interval(
    drift: float, cosines: Sequence[Sequence[float]], z: float = Z_OF_ONE
) -> Interval | None:
    """(c): of the mean cosine over pairs of K batches, as a U-statistic.

        c ± t_{K−1}·√(4(K−2)/(K(K−1))·s²(c_k) + 2/(K(K−1))·s²(c_jk)),  c_k = mean_{j≠k} c_jk

    s² are sample variances: of the mean cosine of each batch with the others, and of the cosines of
    pairs, Hoeffding's two terms. The low end is also that of artanh c, at t_{(K−1)/3}: batches that
    agree may have missed those few that do not, and a cosine ends at 1.

    The first term vanishes with c. Near a line (mean c_jk² = q ≥ `NEAR_A_LINE`) the high end is
    also the largest x whose own error, with x·(√q − x) as s²(c_k), leaves c possible.

    Where the mean gradients lie on one line (`is_on_a_line`), batches that agree do not show that
    no batch points the other way: then the ends also hold (2q − 1)² times the mean |c_jk|, q within
    Wilson's interval of the share of batches that point one way; and fewer than `FEWEST_ON_A_LINE`
    say nothing.

    Args:
        drift: c, as it is reported.
        cosines: c_jk, (K, K).
        z: the normal quantile of the level; of 95 %, or `Z_OF_LOOKS`.

    Returns:
        Within [−1, 1], and holds c; None for K < 3 or a value that is not finite.

    Source: Hoeffding, Annals of Mathematical Statistics 19, 1948; the second low end and the line
    are ours. Coverage: docs/protocol/intervals.md.

    >>> alike = [[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]]
    >>> drift_interval(0.5, alike)
    (0.5, 0.5)
    """
    k = len(cosines)
    whole = drift + sum(map(sum, cosines))
    if k < 3 or not math.isfinite(whole):
        return None
    pairs = _pairs(cosines)
    square = _mean_square(pairs)
    is_line = square >= ON_A_LINE
    if is_line and k < FEWEST_ON_A_LINE:
        return -1.0, 1.0
    # c_k, the mean cosine of each batch with the others
    means = [(sum(row) - row[place]) / (k - 1) for place, row in enumerate(cosines)]
    first = 4 * (k - 2) / (k * (k - 1))
    second = 2 / (k * (k - 1)) * _variance(pairs)
    error = math.sqrt(first * _variance(means) + second)
    t = t_quantile(k - 1, z)
    ends = [drift, drift - t * error, drift + t * error]
    if error and abs(drift) < 1:
        wide = t_quantile((k - 1) / 3, z)
        stretched = wide * error / (1 - drift**2)
        ends.append(math.tanh(math.atanh(drift) - stretched))
    if square >= NEAR_A_LINE:
        ends.append(_end_near_a_line(drift, math.sqrt(square), first * t**2, second * t**2))
    if is_line:
        size = sum(map(abs, pairs)) / len(pairs)
        ends += [size * share for share in _flipped(cosines, z)]
    return max(-1.0, min(ends)), min(1.0, max(ends))


def _end_near_a_line(drift: float, root: float, first: float, second: float) -> float:
    """The largest x ≤ √q with (x − c)² = first·x·(√q − x) + second."""
    middle = drift + first * root / 2
    factor = 1 + first
    rest = factor * (drift**2 - second)
    reach = middle + math.sqrt(max(middle**2 - rest, 0.0))
    return min(root, reach / factor)


def is_on_a_line(cosines: Sequence[Sequence[float]]) -> bool:
    """Whether the mean gradients of K batches lie on one line, on either side: the mean c_jk² of
    pairs is at least `ON_A_LINE`."""
    return _mean_square(_pairs(cosines)) >= ON_A_LINE


def _mean_square(pairs: Sequence[float]) -> float:
    return sum(cosine**2 for cosine in pairs) / len(pairs)


def _pairs(cosines: Sequence[Sequence[float]]) -> list[float]:
    return [cosine for place, row in enumerate(cosines) for cosine in row[:place]]


def _variance(values: Sequence[float]) -> float:
    """The sample variance."""
    mean = sum(values) / len(values)
    squares = [(value - mean) ** 2 for value in values]
    return sum(squares) / (len(values) - 1)


def _flipped(cosines: Sequence[Sequence[float]], z: float) -> Interval:
    """The least and the greatest (2q − 1)², q the share of batches on one side of the line."""
    k = len(cosines)
    # the batch that is most on the line
    row = max(cosines, key=lambda row: sum(map(abs, row)))
    same_side = sum(cosine > 0 for cosine in row)
    ends = share_interval(same_side, k, z)
    squares = [(2 * share - 1) ** 2 for share in ends]
    least = min(squares)
    if ends[0] <= 0.5 <= ends[1]:
        least = 0.0
    return least, max(squares)


_T_TERMS: Sequence[tuple[int, dict[int, int]]] = (
    (4, {3: 1, 1: 1}),
    (96, {5: 5, 3: 16, 1: 3}),
    (384, {7: 3, 5: 19, 3: 17, 1: -15}),
    (92160, {9: 79, 7: 776, 5: 1482, 3: -1920, 1: -945}),
)
"""Polynomials of z, per order in 1/freedom: a divisor, and power → factor."""


@cache
def t_quantile(freedom: float, z: float = Z_OF_ONE) -> float:
    """Student's t at a level, by its expansion about the normal: at 95 % within 3e-4 from 5 degrees
    of freedom on.

    Args:
        freedom: degrees of freedom; ∞ gives the normal quantile.
        z: the normal quantile of the level.

    Source: Abramowitz & Stegun, Handbook of Mathematical Functions, 1964, 26.7.5.

    >>> round(t_quantile(9), 3)
    2.262
    """
    correction = 0.0
    for order, (divisor, factors) in enumerate(_T_TERMS, start=1):
        total = 0.0
        for power, factor in factors.items():
            total += factor * z**power
        term = total / divisor
        correction += term / freedom**order
    return z + correction


def share_interval(hits: float, samples: int, z: float = Z_OF_ONE) -> Interval:
    """Wilson's interval of a share hits/n on random samples.

    Args:
        hits: 0..n.
        samples: n, 1 or more.
        z: the normal quantile of the level.

    Source: Wilson, Journal of the American Statistical Association 22, 1927.

    >>> low, high = share_interval(180, 360)
    >>> round(low, 3), round(high, 3)
    (0.449, 0.551)
    """
    p = hits / samples
    z2 = z**2 / samples
    middle = (p + z2 / 2) / (1 + z2)
    of_share = z2 * p * (1 - p)
    variance = of_share + z2**2 / 4
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
    low = (b - c) / n
    high = 1.0
    slope = 2 * n - b + c
    for _ in range(_HALVINGS):
        delta = (low + high) / 2
        # q solves 2n·q² + linear·q − c·δ(1 − δ) = 0
        linear = slope * delta - b - c
        constant = 8 * n * c * delta * (1 - delta)
        root = math.sqrt(linear**2 + constant)
        q = (root - linear) / (4 * n)
        share = 2 * q + delta * (1 - delta)
        beyond = max(n * delta - b + c - 0.5, 0.0)
        allowed = Z_OF_ONE**2 * n * share
        if beyond**2 <= allowed:
            low = delta
        else:
            high = delta
    return high


def sample_count(right: str) -> int:
    """The number of samples that `packed` text is about; 0 for other texts."""
    samples, _ = _bits_of(right)
    return samples


def unlike(right: str, other: str) -> str:
    """In how many samples two `packed` texts differ.

    >>> unlike(packed([True, False, True]), packed([True, True, True])), unlike("", "3:BQ==")
    ('1 of 3 samples differ', '0 → 3 samples')
    """
    samples, ours = _bits_of(right)
    other_samples, theirs = _bits_of(other)
    if samples != other_samples:
        return f"{samples} → {other_samples} samples"
    return f"{(ours ^ theirs).bit_count()} of {samples} samples differ"


def _bits_of(text: str) -> tuple[int, int]:
    """n and the bits of a `packed` text; (0, 0) for other texts."""
    count, _, code = text.partition(":")
    try:
        samples = int(count)
        bits = binascii.a2b_base64(code)
    except ValueError:
        return 0, 0
    if len(bits) != (samples + 7) // 8:
        return 0, 0
    return samples, int.from_bytes(bits, "little")


def noise_scale(drift: float, sizes: Sequence[int]) -> float:
    """N, the gradient noise scale in samples: at B = N half of a batch-mean gradient is noise.

    Args:
        drift: (c), 0 < c < 1, of which E c = mean over pairs of 1/√((1 + N/B_i)·(1 + N/B_j)); with
            one B that is 1/(1 + N/B).
        sizes: B of every batch; one if all are equal.

    Source: McCandlish et al., An Empirical Model of Large-Batch Training, 2018.

    >>> round(noise_scale(0.26, [128]))
    364
    """
    counts = Counter(sizes)
    batches = len(sizes)
    wanted = drift * batches * (batches - 1)
    per_sample = 1 / drift - 1
    low = min(counts) * per_sample
    high = max(counts) * per_sample
    while low < (middle := (low + high) / 2) < high:
        shares = {size: 1 / math.sqrt(1 + middle / size) for size in counts}
        total = math.fsum(many * shares[size] for size, many in counts.items())
        own = math.fsum(many * shares[size] ** 2 for size, many in counts.items())
        if total**2 - own > wanted:
            low = middle
        else:
            high = middle
    return high
