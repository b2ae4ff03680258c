"""The slow, obvious way: four separate passes, one backward pass per layer and sample, float64 throughout."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.fa_core.measure.nets import Residual


def states(net: Residual, x: Tensor) -> list[Tensor]:
    with torch.no_grad():
        h = net.embed(x)
        found = [h.clone()]
        for block in net.blocks:
            h = block(h.clone())
            found.append(h.clone())
    return found


def gradient(net: Residual, h: Tensor, y: Tensor, layer: int) -> Tensor:
    """∂(batch-mean CE)/∂h_l by running only the tail, sample by sample."""
    rows = []
    for i in range(len(y)):
        leaf = h[i : i + 1].clone().requires_grad_()
        z = leaf
        for block in net.blocks[layer:]:
            z = block(z.clone())
        loss = F.cross_entropy(net.readout(z), y[i : i + 1]) / len(y)
        rows.append(torch.autograd.grad(loss, leaf)[0][0])
    return torch.stack(rows)


def middle(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def norm(row: Tensor) -> float:
    return sum(float(v) ** 2 for v in row) ** 0.5


def residual_norms(net: Residual, x: Tensor) -> list[float]:
    return [middle([norm(row) for row in h]) for h in states(net, x)]


def bp_grad_norms(net: Residual, x: Tensor, y: Tensor) -> list[float]:
    return [
        middle([norm(row) for row in gradient(net, h, y, l)]) for l, h in enumerate(states(net, x))
    ]


def stability(net: Residual, batches: list[tuple[Tensor, Tensor]], layer: int) -> float:
    units = []
    for x, y in batches:
        mean = gradient(net, states(net, x)[layer], y, layer).mean(dim=0)
        units.append(mean / norm(mean))
    pairs = list(itertools.combinations(units, 2))
    return sum(float(u @ v) for u, v in pairs) / len(pairs)


def accuracy(net: Residual, batches: list[tuple[Tensor, Tensor]]) -> float:
    right = total = 0
    for x, y in batches:
        for i in range(len(y)):
            logits = net(x[i : i + 1])[0].tolist()
            right += logits.index(max(logits)) == int(y[i])
            total += 1
    return right / total
