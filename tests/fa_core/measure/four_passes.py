"""The slow, obvious way: four separate passes, one backward pass per layer and sample, float64 throughout."""

import itertools

import torch
import torch.nn.functional as F


def states(net, x):
    with torch.no_grad():
        h = net.embed(x)
        found = [h.clone()]
        for block in net.blocks:
            h = block(h.clone())
            found.append(h.clone())
    return found


def gradient(net, h, y, layer):
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


def middle(values):
    return sorted(values)[(len(values) - 1) // 2]


def norm(row):
    return sum(float(v) ** 2 for v in row) ** 0.5


def residual_norms(net, x):
    return [middle([norm(row) for row in h]) for h in states(net, x)]


def bp_grad_norms(net, x, y):
    return [
        middle([norm(row) for row in gradient(net, h, y, l)]) for l, h in enumerate(states(net, x))
    ]


def stability(net, batches, layer):
    units = []
    for x, y in batches:
        mean = gradient(net, states(net, x)[layer], y, layer).mean(dim=0)
        units.append(mean / norm(mean))
    pairs = list(itertools.combinations(units, 2))
    return sum(float(u @ v) for u, v in pairs) / len(pairs)


def accuracy(net, batches):
    right = total = 0
    for x, y in batches:
        for i in range(len(y)):
            logits = net(x[i : i + 1])[0].tolist()
            right += logits.index(max(logits)) == int(y[i])
            total += 1
    return right / total
