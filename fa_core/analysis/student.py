"""Quantiles of Student's t for any number of degrees of freedom, without SciPy."""

from __future__ import annotations

import math

_STEPS = 200
"""Halvings of an interval: more than a float has bits."""


def student_cdf(t: float, freedom: int) -> float:
    """P(T ≤ t) of Student's t.

    The finite sums for whole degrees of freedom n, with θ = arctan(t/√n):

        n = 1:      A = 2θ/π
        n odd:      A = 2/π · (θ + sin θ · Σ_{k=1}^{(n−1)/2} a_k cos^{2k−1} θ),
                    a_1 = 1, a_{k+1} = a_k · 2k/(2k+1)
        n even:     A = sin θ · Σ_{k=0}^{n/2−1} b_k cos^{2k} θ,
                    b_0 = 1, b_{k+1} = b_k · (2k+1)/(2k+2)

    and P(T ≤ t) = (1 + A)/2.

    Args:
        t: any number.
        freedom: n ≥ 1.

    Source: Abramowitz & Stegun, Handbook of Mathematical Functions, 1964, 26.7.3 and 26.7.4.

    >>> round(student_cdf(2.776445, 4), 6), student_cdf(0.0, 3)
    (0.975, 0.5)
    """
    theta = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(theta), math.cos(theta)
    total = 0.0
    if freedom % 2:
        term = cosine
        for k in range(1, (freedom - 1) // 2 + 1):
            total += term
            term *= cosine * cosine * 2 * k / (2 * k + 1)
        within = 2 / math.pi * (theta + sine * total)
    else:
        term = 1.0
        for k in range(freedom // 2):
            total += term
            term *= cosine * cosine * (2 * k + 1) / (2 * k + 2)
        within = sine * total
    return (1 + within) / 2


def student_quantile(share: float, freedom: int) -> float:
    """The t with P(T ≤ t) = share.

    Args:
        share: in (0, 1).
        freedom: n ≥ 1.

    Source: `student_cdf`, halved until floats end.

    >>> round(student_quantile(0.975, 2), 4), round(student_quantile(0.8, 5), 4)
    (4.3027, 0.9195)
    """
    low, high = -1.0, 1.0
    while student_cdf(low, freedom) > share:
        low *= 2
    while student_cdf(high, freedom) < share:
        high *= 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if student_cdf(middle, freedom) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2
