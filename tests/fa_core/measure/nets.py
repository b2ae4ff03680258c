"""Small networks whose norms and gradients can be written down or computed slowly."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """h + scale·f(h), f linear or a pre-LN GELU branch."""

    def __init__(self, width, kind="linear", inplace=False):
        super().__init__()
        self.inplace = inplace
        if kind == "linear":
            self.f = nn.Linear(width, width, bias=False)
        else:
            self.f = nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 2 * width),
                nn.GELU(),
                nn.Linear(2 * width, width),
            )

    def forward(self, h):
        if self.inplace:
            h += self.f(h)
            return h
        return h + self.f(h)


class Residual(nn.Module):
    """embed, blocks, optional terminal LN, head; offers its stream.

    `show` says how a state is handed over: as it is, as a copy, a view, ...
    """

    def __init__(
        self,
        width=6,
        depth=3,
        classes=4,
        kind="linear",
        out_ln=False,
        inplace=False,
    ):
        super().__init__()
        self.embed = nn.Linear(5, width, bias=False)
        self.blocks = nn.ModuleList(Block(width, kind, inplace) for _ in range(depth))
        self.out_ln = nn.LayerNorm(width) if out_ln else nn.Identity()
        self.head = nn.Linear(width, classes, bias=False)
        self.show = lambda h: h

    def readout(self, h):
        return self.head(self.out_ln(h))

    def forward(self, x, return_hidden=False):
        h = self.embed(x)
        hidden = [self.show(h)]
        for block in self.blocks:
            h = block(h)
            hidden.append(self.show(h))
        logits = self.readout(h)
        return (logits, hidden) if return_hidden else logits


class Hookable(nn.Module):
    """The same network without a stream of its own."""

    def __init__(self, inner):
        super().__init__()
        self.embed, self.blocks, self.out_ln, self.head = (
            inner.embed,
            inner.blocks,
            inner.out_ln,
            inner.head,
        )

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.head(self.out_ln(h))


class Tokens(nn.Module):
    """cls token + T tokens, blocks that mix them linearly, and a head on the cls token or on their mean."""

    def __init__(self, width=6, depth=2, classes=4, reads="cls"):
        super().__init__()
        self.cls = nn.Parameter(torch.randn(1, 1, width))
        self.embed = nn.Embedding(11, width)
        self.mix = nn.ParameterList(torch.randn(4, 4) * 0.3 for _ in range(depth))
        self.head = nn.Linear(width, classes)
        self.reads = reads

    def forward(self, x, return_hidden=False):
        h = torch.cat([self.cls.expand(len(x), -1, -1), self.embed(x)], dim=1)
        hidden = [h]
        for mix in self.mix:
            h = h + torch.einsum("st,btd->bsd", mix, h)
            hidden.append(h)
        logits = self.head(h[:, 0] if self.reads == "cls" else h.mean(dim=1))
        return (logits, hidden) if return_hidden else logits


def cosines(net, data, layer=1):
    """(K, K) float64: cosines of the batch-mean gradients at a layer."""
    means = []
    for x, y in data:
        logits, hidden = net(x, return_hidden=True)
        loss = nn.functional.cross_entropy(logits, y)
        means.append(torch.autograd.grad(loss, hidden[layer])[0].mean(dim=0).double())
    units = nn.functional.normalize(torch.stack(means))
    return units @ units.T


def batches(k=10, size=16, width=5, classes=4, seed=0):
    """k batches of Gaussian inputs with random labels."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(size, width, generator=generator),
            torch.randint(classes, (size,), generator=generator),
        )
        for _ in range(k)
    ]
