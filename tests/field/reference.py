"""Norms, gradients, drift and Γ in float64, from states kept by hand and plain autograd."""

from itertools import combinations

import torch
from torch.nn import functional as F

IGNORED = -100


def ce(z, y):
    return F.cross_entropy(z.flatten(0, -2), y.flatten(), ignore_index=IGNORED)


def batches(kind, k=8):
    """K batches; labels of float inputs are the largest of their first columns."""
    generator = torch.Generator().manual_seed(1)

    def words(*shape, least=0):
        return torch.randint(least, 9, shape, generator=generator)

    found = []
    for _ in range(k):
        y = torch.randint(4, (16,), generator=generator)
        if kind in ("words", "words first"):
            ids = words(16, 6)
            x, y = ids[:, :-1], torch.where(ids[:, 1:] == 0, IGNORED, ids[:, 1:])
            found.append((x, y) if kind == "words" else (x.T, y.T))
        elif kind == "pair":
            found.append({"source": words(16, 7), "target": words(16, 5), "labels": y})
        elif kind == "padded":
            ends = torch.randint(2, 6, (16, 1), generator=generator)
            found.append((torch.where(torch.arange(6) < ends, words(16, 6, least=1), 0), y))
        elif kind == "labelled":
            x = torch.randn(16, 1, generator=generator).double()
            found.append((torch.cat([F.one_hot(y, 4), x], 1), y))
        else:
            x = torch.randn(kind, generator=generator).double()
            found.append((x, x[:, :4].argmax(1) if x.ndim == 2 else y))
    return found


def by_hand(net, batch):
    """(states, gradients, e_T) of one batch, of the tokens that the head reads."""
    if isinstance(batch, dict):
        x, y = [batch["source"], batch["target"]], batch["labels"]
    else:
        x, y = [batch[0].requires_grad_(batch[0].is_floating_point())], batch[1]
    logits, hidden = net.states(*x)
    *gradients, error = torch.autograd.grad(ce(logits, y), [*hidden, logits])
    seen = getattr(net, "seen", lambda h: h)
    return [seen(h.detach()) for h in hidden], [seen(g) for g in gradients], error


def lower_median(values):
    return values.sort().values[(len(values) - 1) // 2]


def medians(states, y):
    """Of the samples' norms; with a label per token, a sample's is that of its labelled tokens."""
    if y.ndim == 1:
        return [float(lower_median(t.flatten(1).norm(dim=1))) for t in states]
    per_sample = [
        [lower_median(h[keep].norm(dim=1)) for h, keep in zip(t, y != IGNORED, strict=True)]
        for t in states
    ]
    return [float(lower_median(torch.stack(norms))) for norms in per_sample]


def drift(gradients):
    """The mean cosine of pairs of batch-mean gradients at layer L//2."""
    means = [g[(len(g) - 1) // 2].flatten(1).mean(0) for g in gradients]
    pairs = [float(a @ b / (a.norm() * b.norm())) for a, b in combinations(means, 2)]
    return sum(pairs) / len(pairs)


def gammas(credit, gradients):
    """Γ_l: the mean over samples of cos(a_l, g_l)."""
    found = []
    for a, g in zip(credit, gradients, strict=True):
        cosines = (a * g).sum(1) / (a.norm(dim=1) * g.norm(dim=1))
        found.append(float(cosines.mean()))
    return found
