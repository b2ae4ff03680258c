"""One FA or DFA step of a ResMLP by hand, in NumPy: no autograd, no torch."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = dict[str, Array]
LN_EPS = 1e-5


def normal_cdf(z: Array) -> Array:
    return np.array([[0.5 * (1 + math.erf(value / math.sqrt(2))) for value in row] for row in z])


def gelu(z: Array) -> Array:
    return z * normal_cdf(z)


def gelu_slope(z: Array) -> Array:
    slope: Array = normal_cdf(z) + z * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return slope


def standardise(h: Array) -> Array:
    unit: Array = (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + LN_EPS)
    return unit


def gradients(
    w: Weights, feedback: list[Array], method: str, x: Array, y: NDArray[np.int64], lam: float
) -> Weights:
    """∂loss/∂weight of every parameter for one batch of the local loss with penalty λ."""
    L, B = sum(name.endswith("w1.weight") for name in w), len(x)
    grad: Weights = {}

    h = x @ w["embed.weight"].T + w["embed.bias"]
    seen = []
    for l in range(L):
        p = f"blocks.{l}."
        unit = standardise(h)
        u = unit * w[p + "ln.weight"] + w[p + "ln.bias"]
        z = u @ w[p + "w1.weight"].T + w[p + "w1.bias"]
        f = gelu(z) @ w[p + "w2.weight"].T + w[p + "w2.bias"]
        seen.append((unit, u, z, f))
        h = h + f
    unit = standardise(h)
    u = unit * w["out_ln.weight"] + w["out_ln.bias"]
    logits = u @ w["out_head.weight"].T + w["out_head.bias"]

    e = np.exp(logits - logits.max(1, keepdims=True))
    e /= e.sum(1, keepdims=True)
    e[np.arange(B), y] -= 1

    grad["out_head.weight"], grad["out_head.bias"] = e.T @ u / B, e.sum(0) / B
    to_u = e @ w["out_head.weight"] / B
    grad["out_ln.weight"], grad["out_ln.bias"] = (to_u * unit).sum(0), to_u.sum(0)

    if method == "dfa":
        credit = [e @ matrix for matrix in feedback]
    else:
        credit = [e @ w["out_head.weight"]]
        for matrix in reversed(feedback):
            credit.insert(0, credit[0] @ matrix)

    grad["embed.weight"], grad["embed.bias"] = credit[0].T @ x / B, credit[0].sum(0) / B
    for l, (unit, u, z, f) in enumerate(seen):
        p = f"blocks.{l}."
        to_f = (credit[l + 1] + 2 * lam * f) / B
        grad[p + "w2.weight"], grad[p + "w2.bias"] = to_f.T @ gelu(z), to_f.sum(0)
        to_z = to_f @ w[p + "w2.weight"] * gelu_slope(z)
        grad[p + "w1.weight"], grad[p + "w1.bias"] = to_z.T @ u, to_z.sum(0)
        to_u = to_z @ w[p + "w1.weight"]
        grad[p + "ln.weight"], grad[p + "ln.bias"] = (to_u * unit).sum(0), to_u.sum(0)
    return grad
