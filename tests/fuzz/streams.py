"""Random residual networks whose states are known: the guess has them."""

import random
from itertools import chain

import torch
from torch import nn
from torch.nn import functional as F

from fa_core import diagnose
from tests.field.reference import lower_median

D, TOKENS, CLASSES = 8, 8, 4
CHOICES = {
    "norm": (nn.LayerNorm, nn.RMSNorm, nn.Identity),
    "order": ("pre", "post", "parallel", "sandwich"),
    "mixer": ("attention", "tokens", "none"),
    "copies": ("no", "clone", "in place"),
    "returns": ("state", "tuple"),
    "gain": (0, 1),
    "stem": ("layer", "norm", "activation"),
    "place": (0, 1),
    "stages": ((3,), (2,), (1, 1), (1, 2), (1, 1, 1)),
    "box": ("list", "stages", "attributes"),
    "last": ("none", "norm", "norm and activation", "activation"),
    "pool": ("mean", "max", "token", "flat", "attention"),
    "head": ("layer", "two", "norm", "dropout"),
}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, h):
        return self.out(F.scaled_dot_product_attention(*self.qkv(h).chunk(3, -1)))


class Tokens(nn.Linear):
    def forward(self, h):
        return super().forward(h.transpose(1, 2)).transpose(1, 2)


class Block(nn.Module):
    """Adds what a mixer and two layers give."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        mixer = {"attention": Attention, "tokens": lambda: Tokens(TOKENS, TOKENS)}.get(how["mixer"])
        self.branches = nn.ModuleList([mixer()] if mixer else [])
        self.branches.append(nn.Sequential(nn.Linear(D, D), nn.GELU(), nn.Linear(D, D)))
        self.norms = nn.ModuleList(how["norm"](D) for _ in range(4))
        self.gain = nn.Parameter(torch.full((D,), 0.5)) if how["gain"] else 1.0

    def forward(self, h):
        order = self.how["order"]
        if self.how["copies"] != "no":
            h = h.clone()
        if order == "parallel":
            read = self.norms[0](h)
            h = self.add(h, sum(branch(read) for branch in self.branches))
        else:
            for branch, norm, other in zip(self.branches, self.norms, self.norms[2:], strict=False):
                given = branch(h if order == "post" else norm(h))
                h = self.add(h, other(given) if order == "sandwich" else given)
                h = norm(h) if order == "post" else h
        return (h, None) if self.how["returns"] == "tuple" else h

    def add(self, h, given):
        given = self.gain * given
        return h.add_(given) if self.how["copies"] == "in place" else h + given


class Network(nn.Module):
    """Keeps its states by hand, in `hidden`."""

    def __init__(self, how):
        super().__init__()
        self.how, self.hidden = how, []
        self.stem, self.first = nn.Linear(5, D), how["norm"](D)
        self.place = nn.Parameter(torch.randn(TOKENS, D)) if how["place"] else None
        stages = [[Block(how) for _ in range(depth)] for depth in how["stages"]]
        self.downs = nn.ModuleList(nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D)) for _ in stages)
        if how["box"] == "stages":
            self.stages = nn.ModuleList(map(nn.ModuleList, stages))
        elif how["box"] == "list":
            self.blocks = nn.ModuleList(chain(*stages))
        else:
            for number, block in enumerate(chain(*stages)):
                self.add_module(f"block{number}", block)
        self.order = stages
        self.norm, self.query = nn.LayerNorm(D), nn.Linear(D, 1)
        size = D * TOKENS if how["pool"] == "flat" else D
        first = {"two": nn.Linear(size, size), "norm": nn.LayerNorm(size)}
        self.head = nn.Linear(size, CLASSES)
        # outputs in [0, 1] would be taken for probabilities
        self.head.bias.data = torch.linspace(-9, 9, CLASSES)
        if how["head"] != "layer":
            self.head = nn.Sequential(first.get(how["head"], nn.Dropout(0.1)), nn.ReLU(), self.head)

    def forward(self, x):
        how = self.how
        h = self.stem(x)
        h = {"layer": nn.Identity(), "norm": self.first, "activation": F.silu}[how["stem"]](h)
        h = h if self.place is None else h + self.place
        self.hidden = [h]
        for stage, down in zip(self.order, [None, *self.downs], strict=False):
            for step in [down, *stage] if down else stage:
                given = step(h)
                h = given[0] if isinstance(given, tuple) else given
                self.hidden.append(h)
        h = self.norm(h) if "norm" in how["last"] else h
        h = h.tanh() if "activation" in how["last"] else h
        pools = {
            "mean": lambda: h.mean(1),
            "max": lambda: h.amax(1),
            "token": lambda: h[:, -1],
            "flat": lambda: h.flatten(1),
            "attention": lambda: (self.query(h).softmax(1) * h).sum(1),
        }
        return self.head(pools[how["pool"]]())


def guess(_, number):
    """The guess of a network has its states.

    Raises:
        AssertionError: it has others, or leaves some out.
    """
    chance = random.Random(number)
    how = {name: chance.choice(kinds) for name, kinds in CHOICES.items()}
    torch.manual_seed(number)
    net = Network(how).double().eval()
    data = [(torch.randn(8, TOKENS, 5).double(), torch.arange(8) % CLASSES) for _ in range(2)]
    with torch.no_grad():
        net(data[0][0])
    read = [h[:, -1] if how["pool"] == "token" else h for h in net.hidden]
    wanted = [float(lower_median(h.flatten(1).norm(dim=1))) for h in read]
    report = diagnose(net, data)
    found = report.residual_norms
    near = len(found) == len(wanted) and torch.allclose(torch.tensor(found), torch.tensor(wanted))
    assert near and not report.partial_stream, (how, found, wanted, report.tap_names)
