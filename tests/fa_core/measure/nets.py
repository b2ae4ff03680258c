"""Small networks whose norms and gradients can be written down or computed slowly."""

import torch
from torch import nn

OUTSIDE = (
    "weights before h_0: embed; behind h_L: head; between states: blocks.0 to blocks.2 (3 steps)"
)
"""The note on a `Stack`."""


class Block(nn.Module):
    """h + f(h), f linear, a pre-LN GELU branch, or another module."""

    def __init__(self, width, kind="linear", inplace=False):
        super().__init__()
        self.inplace = inplace
        if kind == "linear":
            self.f = nn.Linear(width, width, bias=False)
        elif kind == "gelu":
            inner = nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
            self.f = nn.Sequential(nn.LayerNorm(width), *inner)
        else:
            self.f = kind

    def forward(self, h):
        if self.inplace:
            h += self.f(h)
            return h
        return h + self.f(h)


class Stack(nn.Module):
    """embed, blocks, head; with `adds` the blocks give f(h) alone, and the network adds it.

    `show` says how a state is handed over: as it is, as a copy, a view, ...
    """

    def __init__(self, embed, blocks, head, adds=False):
        super().__init__()
        self.embed, self.blocks, self.head = embed, nn.ModuleList(blocks), head
        self.adds = adds
        self.show = lambda h: h

    def readout(self, h):
        return self.head(h)

    def states(self, x):
        h = self.embed(x)
        found = [self.show(h)]
        for block in self.blocks:
            h = h + block(h) if self.adds else block(h)
            found.append(self.show(h))
        return h, found

    def forward(self, x):
        return self.readout(self.states(x)[0])


class Streaming(Stack):
    """The same, which offers its stream."""

    def forward(self, x, return_hidden=False):
        h, hidden = self.states(x)
        logits = self.readout(h)
        return (logits, hidden) if return_hidden else logits


class Residual(Streaming):
    """embed, blocks, optional terminal LN, head."""

    def __init__(self, width=6, depth=3, classes=4, kind="linear", out_ln=False, inplace=False):
        embed = nn.Linear(5, width, bias=False)
        blocks = [Block(width, kind, inplace) for _ in range(depth)]
        super().__init__(embed, blocks, nn.Linear(width, classes, bias=False))
        self.out_ln = nn.LayerNorm(width) if out_ln else nn.Identity()

    def readout(self, h):
        return self.head(self.out_ln(h))


class Hookable(Stack):
    """The same network without a stream of its own."""

    readout = Residual.readout

    def __init__(self, inner):
        super().__init__(inner.embed, inner.blocks, inner.head)
        self.out_ln = inner.out_ln


class Turned(torch.autograd.Function):
    """Nothing forward; backward the gradient turned by one place."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g.roll(1, -1)


class FirstToken(nn.Module):
    """A head that reads one token."""

    def __init__(self, head):
        super().__init__()
        self.of_first = head

    def forward(self, h):
        return self.of_first(h[:, 0])


def encoder(head):
    """Token ids, two layers of attention, and a head on the first token; in eval mode."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)
    blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).layers
    return Streaming(nn.Embedding(11, 8), blocks, FirstToken(head)).eval()


def cosines(net, data):
    """(K, K) float64: cosines of the batch-mean gradients at h_1."""
    means = []
    for x, y in data:
        logits, hidden = net(x, return_hidden=True)
        loss = nn.functional.cross_entropy(logits, y)
        means.append(torch.autograd.grad(loss, hidden[1])[0].mean(dim=0).double())
    units = nn.functional.normalize(torch.stack(means))
    return units @ units.T


def batches(k=10, size=16, width=5, classes=4):
    """k batches of Gaussian inputs with random labels."""
    draws = torch.Generator().manual_seed(0)
    return [
        (
            torch.randn(size, width, generator=draws),
            torch.randint(classes, (size,), generator=draws),
        )
        for _ in range(k)
    ]


def targets(outputs, y):
    """One-hot labels in the outputs' type."""
    return nn.functional.one_hot(y, outputs.shape[1]).to(outputs)


ERRORS = {
    "ce": lambda z, t: z.softmax(1) - t,
    "bce": lambda z, t: (z.sigmoid() - t) / z.shape[1],
    "bce of probabilities": lambda p, t: (p - t) / (p * (1 - p)) / p.shape[1],
    "mse": lambda z, t: 2 * (z - t) / z.shape[1],
    "a function": lambda z, t: (z - t) ** 3,
}
"""e_T of every loss in closed form, of outputs and one-hot targets; the function is a quartic."""
