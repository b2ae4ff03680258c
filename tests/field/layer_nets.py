"""Rows of layers, and forwards that are no plain function of the batch."""

from functools import partial
from itertools import chain

import torch
from torch import nn
from torch.nn import functional as F

from tests.field.residual_nets import C, D, Ends, Net


class Flat(Net):
    """One flat `nn.Sequential`: Linear, BatchNorm, ReLU, and so on."""

    def __init__(self, layer=nn.Linear, *pool):
        super().__init__()
        rows = [[layer(5 if l == 0 else D, D), nn.BatchNorm1d(D), nn.ReLU()] for l in range(3)]
        self.net = nn.Sequential(*chain(*rows), *pool, nn.Linear(D, C))

    def forward(self, x):
        return self.net(x)

    def states(self, x):
        hidden = []
        for module in self.net:
            x = module(x)
            if isinstance(module, nn.ReLU):
                hidden.append(x)
        return x, hidden


class PooledConvolutions(Flat):
    """A global pool behind the row, and one linear layer."""

    x = (16, 5, 4)

    def __init__(self):
        layer = partial(nn.Conv1d, kernel_size=3, padding=1)
        super().__init__(layer, nn.AdaptiveAvgPool1d(1), nn.Flatten())


class ReadsOneRow(Net):
    """Blocks of pixels, of which the head reads the last row."""

    x = (16, 5, 3, 3)
    layer, read = nn.Conv2d, 3 * D

    def __init__(self):
        super().__init__()
        self.embed, self.head = self.layer(5, D, 1), nn.Linear(self.read, C)
        self.blocks = nn.ModuleList(self.layer(D, D, 3, padding=1) for _ in range(2))

    def next_state(self, block, h):
        return h + block(h).relu()

    def readout(self, h):
        return h[:, :, -1].flatten(1)


class ReadsLastStep(ReadsOneRow):
    """Convolutions over a series (B, C, T), of which the head reads the last step."""

    x = (16, 5, 7)
    layer, read = nn.Conv1d, D


class NormThenMean(Net):
    """A norm in front of a mean over the tokens; one ReLU runs behind every layer."""

    x = (16, 4, 5)

    def __init__(self):
        super().__init__()
        self.net = nn.ModuleList(nn.Linear(5 if l == 0 else D, D) for l in range(3))
        self.hidden, self.head, self.act = nn.LayerNorm(D), nn.Linear(D, C), nn.ReLU()

    def stream(self, x):
        found = []
        for layer in self.net:
            x = self.act(layer(x))
            found.append(x)
        return found

    def readout(self, h):
        return self.hidden(h).mean(1)


class NormThenActivation(NormThenMean):
    """A final norm in front of an activation and a mean, as no other layer has."""

    def readout(self, h):
        return torch.tanh(self.hidden(h)).mean(1)


class TwoRowsNormed(NormThenActivation):
    """Two states."""

    def __init__(self):
        super().__init__()
        del self.net[2]


class Graph(NormThenMean):
    """Its nodes of all samples are rows of a BatchNorm."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.BatchNorm1d(D) for _ in range(3))
        self.register_buffer("near", torch.rand(4, 4))

    def stream(self, x):
        found = []
        for layer, norm in zip(self.net, self.norms, strict=True):
            x = norm((self.near @ layer(x)).flatten(0, 1)).view(len(x), 4, D).relu()
            found.append(x)
        return found

    def readout(self, h):
        return h.mean(1)


class LastToken(NormThenMean):
    """The last token alone is read, by a hidden layer."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(D, D)

    def stream(self, x):
        found = super().stream(x)
        return [*found, self.act(self.hidden(found[-1][:, -1]))]

    def readout(self, h):
        return h

    def seen(self, h):
        return h[:, -1] if h.ndim == 3 else h


class Dead(Flat):
    """A layer whose ReLUs are all off."""

    def __init__(self):
        super().__init__()
        self.net[4].bias.data.fill_(-50)


class BuildsLayers(Net):
    """Its layers come with the first batch."""

    def forward(self, x):
        self.net = nn.Sequential(nn.Linear(5, D), nn.Tanh(), nn.Linear(D, C)).to(x)
        return self.net(x)


class OneReadsTheLast(Flat):
    """One place of the batch reads another one."""

    def forward(self, x):
        return super().forward(torch.cat([x[:3], x[3:4] + x[-1:], x[4:]]))


class WordCounts(Net):
    """Wide and deep: a row of layers over embedded words, and a linear map of their counts."""

    x = "padded"

    def __init__(self):
        super().__init__()
        self.emb, self.wide = nn.Embedding(9, D), nn.Linear(9, C)
        self.net = nn.Sequential(nn.Linear(D, D), nn.Tanh(), nn.Linear(D, D), nn.Tanh())
        self.head = nn.Linear(D, C)

    def forward(self, ids):
        counts = F.one_hot(ids, 9).sum(1).to(self.wide.weight)
        return self.head(self.net(self.emb(ids).mean(1))) + self.wide(counts)


class ThroughNumpy(Flat):
    """A forward that computes a part of its logits in NumPy."""

    def forward(self, x):
        return super().forward(x) + torch.from_numpy(x.detach().numpy()[:, :C])


class Alternates(Flat):
    """Every second call, or every n-th, gives other logits."""

    calls, every = 0, 2

    def forward(self, x):
        self.calls += 1
        return super().forward(x) * (2 if self.calls % self.every == 0 else 1)


class EnergyForward(Net):
    """Equilibrium propagation: the states relax by the gradient of an energy."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(5, D), nn.Linear(D, D), nn.Linear(D, C)])

    def states(self, x):
        sizes = (D, D, C)
        h = [torch.full((len(x), n), 0.1, requires_grad=True, dtype=x.dtype) for n in sizes]
        for _ in range(4):
            pairs = zip(self.layers, [x, *h], h, strict=False)
            energy = sum((f(before) * after).sum() for f, before, after in pairs)
            h = [torch.tanh(g) for g in torch.autograd.grad(energy, h, create_graph=True)]
        return 5 * h[2], h[:2]


class NoGradForward(Flat):
    """Forward-forward's prediction."""

    @torch.no_grad()
    def forward(self, x):
        return self.net(x)


class Spikes(Ends):
    """Leaky neurons: their potential lives on from one call to the next until `reset`."""

    def __init__(self, resets=False):
        super().__init__()
        self.blocks, self.resets = nn.ModuleList(nn.Linear(D, D) for _ in range(2)), resets
        self.potential = [0.0, 0.0]

    def stream(self, x):
        if self.resets:
            self.potential = [0.0, 0.0]
        hidden = [self.embed(x)]
        for l, block in enumerate(self.blocks):
            for _ in range(2):
                self.potential[l] = 0.9 * self.potential[l] + block(hidden[-1])
            hidden.append(torch.sigmoid(4 * self.potential[l]))
            self.potential[l] = self.potential[l].detach()
        return hidden


class SpikesResetInForward(Spikes):
    def __init__(self):
        super().__init__(resets=True)


class SpikesInTime(Net):
    """Rows of layers, each over all time steps of its input: leaky sums, or a recurrent layer's."""

    x = (16, 3, 5)

    def __init__(self, layer=nn.Linear):
        super().__init__()
        options = {} if layer is nn.Linear else {"batch_first": True}
        self.blocks = nn.ModuleList(layer(D if l else 5, D, **options) for l in range(3))
        self.head = nn.Linear(D, C)

    def over_time(self, layer, h):
        potential, found = 0.0, []
        for step in range(h.shape[1]):
            potential = 0.9 * potential + layer(h[:, step])
            found.append(potential.tanh())
        return torch.stack(found, 1)

    def states(self, x):
        hidden = [x]
        for layer in self.blocks:
            hidden.append(self.over_time(layer, hidden[-1]))
        return self.head(hidden[-1]).mean(1), hidden[1:]


class SpikesOfOneInput(SpikesInTime):
    x = (16, 5)

    def states(self, x):
        return super().states(x[:, None].repeat(1, 3, 1))


class RecurrentRows(SpikesInTime):
    def __init__(self):
        super().__init__(nn.GRU)

    def over_time(self, layer, h):
        return layer(h)[0]


class NormedTwice(NormThenMean):
    """A norm behind every layer, and one more at the end."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(3))

    def states(self, x):
        found = []
        for layer, norm in zip(self.net, self.norms, strict=True):
            found.append(layer(x).tanh())
            x = norm(found[-1])
        return self.head(self.hidden(x).mean(1)), found
