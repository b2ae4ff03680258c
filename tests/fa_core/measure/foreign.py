"""Networks as people write them, each with its stream kept by hand."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F

D = 12
CLASSES = 4


class MLP(nn.Module):
    """A pre-LN block; subclasses are the same code under another class."""

    def __init__(self, d=D, gain=0.5):
        super().__init__()
        self.norm, self.up, self.down, self.gain = (
            nn.LayerNorm(d),
            nn.Linear(d, d),
            nn.Linear(d, d),
            gain,
        )

    def forward(self, h):
        return h + self.gain * self.down(F.gelu(self.up(self.norm(h))))


class LastMLP(MLP):
    pass


class Attending(nn.Module):
    """Attention and an MLP: two sums, one block."""

    def __init__(self, causal=False, post=False, cross=False):
        super().__init__()
        self.causal, self.post = causal, post
        self.att = nn.MultiheadAttention(D, 2, batch_first=True)
        self.cross = nn.MultiheadAttention(D, 2, batch_first=True) if cross else None
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def part(self, h, f, norm):
        return norm(h + f(h)) if self.post else h + f(norm(h))

    def forward(self, h, memory=None):
        mask = torch.full((h.shape[1],) * 2, float("-inf")).to(h).triu(1) if self.causal else None
        h = self.part(
            h, lambda q: self.att(q, q, q, attn_mask=mask, need_weights=False)[0], self.norms[0]
        )
        if self.cross is not None:
            h = self.part(
                h, lambda q: self.cross(q, memory, memory, need_weights=False)[0], self.norms[1]
            )
        return self.part(h, self.mlp, self.norms[2])


class Kept(nn.Module):
    """Keeps h_0..h_L of its last forward, for the test alone."""

    def keep(self, h):
        if getattr(self, "kept", None) is not None:
            self.kept.append(h.detach().clone())
        return h


class LastOfAnotherClass(Kept):
    x = (16, 8)

    def __init__(self):
        super().__init__()
        self.emb = nn.Linear(8, D)
        self.blocks = nn.ModuleList([MLP(), MLP(), MLP(), LastMLP(gain=3000.0)])
        self.ro = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, CLASSES))

    def forward(self, x):
        h = self.keep(self.emb(x))
        for block in self.blocks:
            h = self.keep(block(h))
        return self.ro(h)


class AddsItself(Kept):
    x = (16, 8)
    log = None

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(8, D), nn.Linear(D, CLASSES)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D), nn.ReLU()) for _ in range(4)
        )

    def forward(self, x):
        h = self.keep(self.embed(x))
        for block in self.blocks:
            h = self.keep(h + block(h))
            self.log = h.detach().norm(dim=1).mean()
        return self.head(h)


class DetachedBetween(Kept):
    x = (16, 8)

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(8, D), nn.Linear(D, CLASSES)
        self.blocks = nn.ModuleList(MLP() for _ in range(3))

    def forward(self, x):
        h = self.keep(self.embed(x))
        for block in self.blocks:
            h = self.keep(block(h.detach()))
        return self.head(h)


class EncMapDec(Kept):
    x = (16, 8)

    def __init__(self):
        super().__init__()
        self.emb, self.mid = nn.Linear(8, D), nn.Linear(D, D)
        self.enc = nn.ModuleList(MLP() for _ in range(4))
        self.dec = nn.ModuleList([MLP(gain=3000.0), MLP()])
        self.ro = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, CLASSES))

    def forward(self, x):
        h = self.emb(x)
        for block in self.enc:
            self.keep(h)
            h = block(h)
        h = self.keep(self.mid(h))
        for block in self.dec:
            h = self.keep(block(h))
        return self.ro(h)


class BasicBlock(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.c2, self.b2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
        self.short = nn.Sequential()
        if stride > 1 or a != b:
            self.short = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))

    def forward(self, x):
        h = self.b2(self.c2(F.relu(self.b1(self.c1(x)))))
        h += self.short(x)
        return F.relu(h)


class CifarResNet(Kept):
    x = (16, 3, 8, 8)

    def __init__(self):
        super().__init__()
        self.c, self.b = nn.Conv2d(3, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4)
        self.layer1 = nn.Sequential(BasicBlock(4, 4, 1), BasicBlock(4, 4, 1))
        self.layer2 = nn.Sequential(BasicBlock(4, 8, 2), BasicBlock(8, 8, 1))
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x):
        h = self.keep(F.relu(self.b(self.c(x))))
        for block in (*self.layer1, *self.layer2):
            h = self.keep(block(h))
        return self.fc(F.adaptive_avg_pool2d(h, 1).flatten(1))


class ViT(Kept):
    x = (16, 16)

    def __init__(self):
        super().__init__()
        self.pe = nn.Linear(4, D)
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(1, 5, D))
        self.blocks = nn.ModuleList(Attending() for _ in range(3))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, CLASSES)

    def forward(self, x):
        h = (
            torch.cat([self.cls.expand(len(x), -1, -1), self.pe(x.view(len(x), 4, 4))], 1)
            + self.pos
        )
        self.keep(h)
        for block in self.blocks:
            h = self.keep(block(h))
        return self.head(self.norm(h)[:, 0])


class TorchEncoder(Kept):
    x = "ids"

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(D, 2, 16, dropout=0.1, batch_first=True)
        self.emb, self.enc = (
            nn.Embedding(11, D),
            nn.TransformerEncoder(layer, 3, enable_nested_tensor=False),
        )
        self.head = nn.Linear(D, CLASSES)

    def forward(self, ids):
        h = self.keep(self.emb(ids))
        keep = ids != 0
        for layer in self.enc.layers:
            h = self.keep(layer(h, src_key_padding_mask=~keep))
        return self.head((h * keep[..., None]).sum(1) / keep.sum(1, keepdim=True))


class TiedGPT(Kept):
    x = "ids"

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(11, D), nn.Embedding(16, D)
        self.h = nn.ModuleList(Attending(causal=True) for _ in range(3))
        self.ln_f = nn.LayerNorm(D)

    def forward(self, ids):
        h = self.keep(self.wte(ids) + self.wpe(torch.arange(ids.shape[1])))
        for block in self.h:
            h = self.keep(block(h))
        return (self.ln_f(h) @ self.wte.weight.T)[:, -1]


class Bert(Kept):
    x = "ids"

    def __init__(self):
        super().__init__()
        self.tok, self.kind, self.norm = nn.Embedding(11, D), nn.Embedding(2, D), nn.LayerNorm(D)
        self.layer = nn.ModuleList(Attending(post=True) for _ in range(3))
        self.head = nn.Linear(D, CLASSES)

    def forward(self, ids):
        h = self.keep(self.norm(self.tok(ids) + self.kind((ids > 5).long())))
        for block in self.layer:
            h = self.keep(block(h))
        return self.head(h[:, 0])


class EncoderDecoder(Kept):
    """Source ids and target ids: the stream is the decoder's."""

    x = "pair"

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(11, D)
        self.encoder = nn.ModuleList(Attending() for _ in range(4))
        self.decoder = nn.ModuleList(Attending(causal=True, cross=True) for _ in range(2))
        self.enc_norm, self.norm, self.head = (
            nn.LayerNorm(D),
            nn.LayerNorm(D),
            nn.Linear(D, CLASSES),
        )

    def forward(self, src, tgt):
        memory = self.emb(src)
        for block in self.encoder:
            memory = block(memory)
        memory = self.enc_norm(memory)
        h = self.keep(self.emb(tgt))
        for block in self.decoder:
            h = self.keep(block(h, memory))
        return self.head(self.norm(h)[:, -1])


class Flat(Kept):
    x = (16, 8)

    def __init__(self):
        super().__init__()
        rows = [(nn.Linear(8 if i == 0 else D, D), nn.BatchNorm1d(D), nn.ReLU()) for i in range(4)]
        self.net = nn.Sequential(*(module for row in rows for module in row), nn.Linear(D, CLASSES))

    def forward(self, x):
        for place, module in enumerate(self.net):
            x = module(x)
            if place % 3 == 2:
                self.keep(x)
        return x


class OneChild(Kept):
    x = (16, 8)

    def __init__(self):
        super().__init__()
        self.module = nn.Module()
        self.module.a, self.module.b, self.module.c = (
            nn.Linear(8, D),
            nn.Linear(D, D),
            nn.Linear(D, CLASSES),
        )

    def forward(self, x):
        h = self.keep(torch.relu(self.module.a(x)))
        h = self.keep(torch.relu(self.module.b(h)))
        return self.module.c(h)


class ListWithOutput(Kept):
    x = (16, 8)

    def __init__(self):
        super().__init__()
        widths = (8, D, D, CLASSES)
        self.net = nn.ModuleList(
            nn.Sequential(nn.Linear(a, b), nn.Identity() if b == CLASSES else nn.Tanh())
            for a, b in itertools.pairwise(widths)
        )

    def forward(self, x):
        for layer in self.net[:-1]:
            x = self.keep(layer(x))
        return self.net[-1](x)


class ConvFlat(Kept):
    x = (16, 3, 8, 8)

    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.f1, self.f2 = nn.Linear(4 * 4, 8), nn.Linear(8, CLASSES)

    def forward(self, x):
        h = self.keep(F.max_pool2d(F.relu(self.c1(x)), 2))
        h = self.keep(F.max_pool2d(F.relu(self.c2(h)), 2))
        h = self.keep(F.relu(self.f1(h.flatten(1))))
        return self.f2(h)


class InPlaceAdds(Kept):
    x = (16, 8)

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(8, D), nn.Linear(D, CLASSES)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D), nn.ReLU()) for _ in range(3)
        )

    def forward(self, x):
        h = self.keep(self.embed(x))
        for block in self.blocks:
            h += block(h)
            self.keep(h)
        return self.head(h)


GUESSED = [
    LastOfAnotherClass,
    AddsItself,
    InPlaceAdds,
    DetachedBetween,
    EncMapDec,
    CifarResNet,
    ViT,
    TorchEncoder,
    TiedGPT,
    Bert,
    EncoderDecoder,
    Flat,
    ConvFlat,
    OneChild,
    ListWithOutput,
]


class UNet(nn.Module):
    x = (16, 3, 8, 8)

    def __init__(self):
        super().__init__()
        self.stem, self.down1, self.down2 = (
            nn.Conv2d(3, 4, 3, padding=1),
            nn.Conv2d(4, 4, 3, 2, 1),
            nn.Conv2d(4, 4, 3, 2, 1),
        )
        self.up2, self.up1 = nn.ConvTranspose2d(4, 4, 2, 2), nn.ConvTranspose2d(8, 4, 2, 2)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x):
        a = F.relu(self.stem(x))
        b = F.relu(self.down1(a))
        c = F.relu(self.down2(b))
        b = torch.cat([b, F.relu(self.up2(c))], 1)
        a = torch.cat([a, F.relu(self.up1(b))], 1)
        return self.out(a.mean((2, 3)))


class Trunks(nn.Module):
    x = (16, 8)

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(8, D)
        self.left = nn.Sequential(*(MLP() for _ in range(3)))
        self.right = nn.Sequential(*(MLP() for _ in range(3)))
        self.head = nn.Linear(D, CLASSES)

    def forward(self, x):
        h = self.stem(x)
        return self.head(self.left(h) + self.right(h))


class Catted(Trunks):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(2 * D, CLASSES)

    def forward(self, x):
        h = self.stem(x)
        return self.head(torch.cat([self.left(h), self.right(h)], 1))


class Spiking(nn.Module):
    """Neurons that keep their potential from call to call."""

    x = (16, 8)
    kept = None

    def __init__(self):
        super().__init__()
        self.embed, self.inner, self.head = nn.Linear(8, D), nn.Linear(D, D), nn.Linear(D, CLASSES)

    def forward(self, x):
        h = self.embed(x)
        self.kept = self.inner(h) if self.kept is None else 0.9 * self.kept.detach() + self.inner(h)
        return self.head(torch.tanh(self.kept))


class OverTheBatch(nn.Module):
    x = (16, 8)

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(8, D), nn.Linear(D, CLASSES)

    def forward(self, x):
        h = self.embed(x)
        return self.head(h + torch.relu(self.head(h)).mean() * h)


class SequenceFirst(nn.Module):
    """Ids (T, B), labels (T, B); its recurrence is causal."""

    def __init__(self):
        super().__init__()
        self.emb, self.rnn, self.head = nn.Embedding(11, D), nn.GRU(D, D), nn.Linear(D, CLASSES)

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


def inputs(kind, size=16):
    if kind.x == "ids":
        return torch.randint(1, 11, (size, 6))
    if kind.x == "pair":
        return {"src": torch.randint(1, 11, (size, 7)), "tgt": torch.randint(1, 11, (size, 5))}
    return torch.randn(size, *kind.x[1:])
