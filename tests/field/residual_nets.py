"""Networks with residual blocks. `stream` is [h_0..h_L], kept by hand."""

from collections import OrderedDict
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

D, C = 6, 4


def through(blocks, h, *beside):
    """[h, what the first block gives of it, what the second gives of that, ...]; all read `beside`."""
    hidden = [h]
    for block in blocks:
        hidden.append(block(hidden[-1], *beside))
    return hidden


class Net(nn.Module):
    """A network whose forward shows its logits alone."""

    x = (16, 5)

    def first_state(self, x):
        return self.embed(x)

    def next_state(self, block, h):
        return block(h)

    def stream(self, x):
        hidden = [self.first_state(x)]
        for block in self.blocks:
            hidden.append(self.next_state(block, hidden[-1]))
        return hidden

    def readout(self, h):
        """What the head reads of h_L."""
        return h

    def states(self, *inputs):
        """(logits, [h_0..h_L])."""
        hidden = self.stream(*inputs)
        return self.head(self.readout(hidden[-1])), hidden

    def forward(self, x):
        return self.states(x)[0]


def mlp(width=D):
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())


class Ends(Net):
    """A layer in front of the blocks, and one behind them; three blocks, if they are of one kind."""

    Block = None

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(5, D), nn.Linear(D, C)
        if self.Block is not None:
            self.blocks = nn.ModuleList(self.Block() for _ in range(3))


class Normed(Ends):
    """A norm in front of the head."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(D)

    def readout(self, h):
        return self.norm(h)


class Residual(Normed):
    """A list of branches: the network adds them itself."""

    Block = staticmethod(mlp)

    def next_state(self, block, h):
        return h + block(h)


class LogProbabilities(Residual):
    """A function lies behind the head."""

    def states(self, x):
        logits, hidden = super().states(x)
        return logits.log_softmax(1), hidden


class Bottleneck(Residual):
    """Two plain layers between its residual blocks."""

    def __init__(self):
        super().__init__()
        self.narrow, self.wide = nn.Linear(D, 2), nn.Linear(2, D)

    def stream(self, x):
        hidden = [self.embed(x)]
        for l, block in enumerate(self.blocks):
            if l == 2:
                hidden.append(self.narrow(hidden[-1]))
                hidden.append(self.wide(hidden[-1]))
            hidden.append(hidden[-1] + block(hidden[-1]))
        return hidden


class NoStemAdds(Residual):
    """The network adds its first block to the raw input."""

    x = (16, D)

    def __init__(self):
        super().__init__()
        self.embed = nn.Identity()


class NormsBefore(Residual):
    """The network calls small norms itself: before a block that adds, and before two that do not."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(3))
        for norm in self.norms:
            nn.init.constant_(norm.weight, 1e-3)

    def stream(self, x):
        hidden = [self.embed(x)]
        for l, (norm, block) in enumerate(zip(self.norms, self.blocks, strict=True)):
            hidden.append(block(norm(hidden[-1])) + (hidden[-1] if l == 1 else 0))
        return hidden


class RowOfNorms(NormsBefore):
    """Single layers, each behind its norm."""

    Block = partial(nn.Linear, D, D)

    def stream(self, x):
        hidden = [self.embed(x)]
        for norm, block in zip(self.norms, self.blocks, strict=True):
            hidden.append(block(norm(hidden[-1])).relu())
        return hidden

    def readout(self, h):
        return h


class InPlace(Residual):
    """The same numbers, written into one tensor."""

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h += block(h)
        return self.head(self.norm(h))


class SometimesAdds(nn.Module):
    def __init__(self, adds):
        super().__init__()
        self.f, self.adds = mlp(), adds

    def forward(self, h):
        return h + self.f(h) if self.adds else self.f(h)


class Diffuses(nn.Module):
    """A block without weights."""

    def forward(self, h):
        return h + 3 * (h.roll(1, 1) - h)


class Distances(Ends):
    """The last block has no weights, and neither has the readout a layer."""

    def __init__(self, adds=True):
        super().__init__()
        last = Diffuses() if adds else SometimesAdds(adds)
        self.blocks = nn.ModuleList([SometimesAdds(adds), SometimesAdds(adds), last])
        self.prototypes = nn.Parameter(torch.randn(C, D))

    def states(self, x):
        hidden = self.stream(x)
        return -torch.cdist(hidden[-1], self.prototypes), hidden


class NumberedStem(Distances):
    """A stem of two layers, with a GELU behind them."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(5, D), nn.Linear(D, D)
        self.embed = nn.GELU()

    def first_state(self, x):
        return self.embed(self.fc2(self.fc1(x)))


class RowDistances(Distances):
    """Its blocks add nothing."""

    def __init__(self):
        super().__init__(adds=False)


class NoStem(Distances):
    """The first block reads the raw input."""

    x = (16, D)

    def first_state(self, x):
        return x


class SkipsWhereShapesAgree(Ends):
    """MobileNetV2's list: the first block, two in a row, and the last have no sum."""

    def __init__(self):
        super().__init__()
        flags = (False, True, False, False, True, False)
        self.blocks = nn.ModuleList(map(SometimesAdds, flags))


class ReadsTwoStates(SkipsWhereShapesAgree):
    """The head reads the last two states at once."""

    def states(self, x):
        hidden = self.stream(x)
        return self.head(hidden[-1] * hidden[-2]), hidden


class OneBlockInARow(SkipsWhereShapesAgree):
    """SAGAN's row: single layers, and one that adds."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(D, D) for _ in range(5))
        self.blocks.insert(2, SometimesAdds(True))


class NamedMembers(SkipsWhereShapesAgree):
    """The same with names for numbers."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(OrderedDict(zip("uvwxyz", self.blocks, strict=True)))


class ReadsBoth(nn.Module):
    """Its first argument is no state."""

    def __init__(self):
        super().__init__()
        self.f, self.g = nn.Linear(5 + D, D), mlp()

    def forward(self, x, h):
        h = h + torch.tanh(self.f(torch.cat([x, h], 1)))
        return h + self.g(h)


class ReadsInputAgain(Ends):
    """Perceiver's blocks: two sums, and the first one's branch reads the input beside the state."""

    Block = ReadsBoth

    def __init__(self, side=nn.Identity):
        super().__init__()
        self.side = side(5, 5)

    def stream(self, x):
        hidden, side = [self.embed(x)], self.side(x)
        for block in self.blocks:
            hidden.append(block(side, hidden[-1]))
        return hidden


class ConditionFirst(ReadsInputAgain):
    """Its blocks are called with a condition, then the state."""

    def __init__(self):
        super().__init__(nn.Linear)


class LocalLosses(Residual):
    """`.detach()` between blocks, a head at each, and the heads' outputs behind the logits."""

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(D, C) for _ in range(3))

    def forward(self, x):
        h, local = self.embed(x), []
        for block, head in zip(self.blocks, self.heads, strict=True):
            h = h.detach()
            h = h + block(h)
            local.append(head(h))
        return self.head(self.norm(h)), local


class ReversesGradients(Residual):
    """A second head, of the domain, behind a hook that turns its gradient round."""

    def __init__(self):
        super().__init__()
        self.domain = nn.Linear(D, 2)

    def forward(self, x):
        logits, (*_, h) = self.states(x)
        h = h.view_as(h)
        h.register_hook(torch.neg)
        return {"domain": self.domain(h), "logits": logits}


class LabelInInput(Residual):
    """Forward-forward's overlay: the first columns of x are a label, one-hot."""

    def stream(self, x):
        return super().stream(torch.cat([F.one_hot(x[:, :C].argmax(1), C).to(x), x[:, C:]], 1))


class Shared(Ends):
    """One cell, called three times: a recurrent network with tied weights."""

    def __init__(self):
        super().__init__()
        self.cell = mlp()

    def stream(self, x):
        return through(3 * [lambda h: h + self.cell(h)], self.embed(x))


class Experts(nn.Module):
    """A block of two sums; the second adds experts and a shared one, all behind one norm."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = mlp(), nn.LayerNorm(D)
        self.gate, self.routed, self.shared = (nn.Linear(D, D) for _ in range(3))

    def forward(self, h):
        h = h + self.first(h)
        normed = self.norm(h)
        return h + (self.gate(normed).sigmoid() * self.routed(normed) + self.shared(normed))


class SharedExpert(Normed):
    Block = Experts


class PostNorm(nn.Module):
    def __init__(self, inner=None):
        super().__init__()
        self.inner, self.branch = inner or nn.Identity(), nn.Linear(D, D)
        self.norm = nn.LayerNorm(D)

    def forward(self, h):
        h = self.inner(h)
        return self.norm(h + self.branch(h))


class TiedPostNorm(Ends):
    """One block of two post-norm sums, run three times."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([PostNorm(PostNorm())])

    def stream(self, x):
        return through(3 * [*self.blocks], self.embed(x))


class BlocksBeside(Residual):
    """The last block alone reads a second embedding, which is no start of the stream."""

    def __init__(self):
        super().__init__()
        self.values = nn.Linear(5, D)

    def stream(self, x):
        h = first = self.embed(x)
        for block in self.blocks[:2]:
            h = 0.9 * h + 0.1 * first
            h = h + block(h)
        values = self.values(x)
        h = 0.9 * h + 0.1 * first + values
        return [values, h + self.blocks[2](h)]


class BasicBlock(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.shortcut = nn.Identity()
        if stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(into, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, h):
        f = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(h)))))
        return F.relu(f + self.shortcut(h))


class Stage(nn.Sequential):
    """Keeps what its parts give."""

    def forward(self, h):
        self.found = []
        for part in self:
            h = part(h)
            self.found.append(h)
        return h


class ResNet(Net):
    """CIFAR's ResNet, two stages."""

    x = (16, 3, 8, 8)

    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4)
        self.layer1 = Stage(BasicBlock(4, 4, 1), BasicBlock(4, 4, 1))
        self.layer2 = Stage(BasicBlock(4, 8, 2), BasicBlock(8, 8, 1))
        self.head = nn.Linear(8, C)

    def stream(self, x):
        h = F.relu(self.bn(self.conv(x)))
        self.layer2(self.layer1(h))
        return [h, *self.layer1.found, *self.layer2.found]

    def readout(self, h):
        return h.mean((2, 3))


class Attention(nn.Module):
    """One head by hand, then an MLP: two sums, one block."""

    def __init__(self, causal=False, reads_memory=False):
        super().__init__()
        self.qkv, self.out, self.causal = nn.Linear(D, 3 * D), nn.Linear(D, D), causal
        self.norm, self.mlp = nn.LayerNorm(D), mlp()
        self.memory = nn.Linear(D, D) if reads_memory else None

    def forward(self, h, memory=None):
        q, k, v = self.qkv(self.norm(h)).chunk(3, -1)
        scores = q @ k.mT / D**0.5
        if self.causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        h = h + self.out(scores.softmax(-1) @ v)
        if self.memory is not None:
            h = h + (h @ memory.mT).softmax(-1) @ self.memory(memory)
        return h + self.mlp(h)


class ViT(Normed):
    """The head reads the cls token alone."""

    x = (16, 4, 5)
    Block = Attention

    def __init__(self):
        super().__init__()
        self.cls, self.pos = nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(5, D))

    def first_state(self, x):
        return torch.cat([self.cls.expand(len(x), 1, D), self.embed(x)], 1) + self.pos

    def readout(self, h):
        return self.norm(h)[:, 0]

    def seen(self, h):
        return h[:, 0]


class Swin(ViT):
    """Stages of two blocks, which differ in what drops their paths, then a norm and a layer."""

    def __init__(self):
        super().__init__()
        merges = (nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D)) for _ in range(2))
        self.blocks = nn.ModuleList(Stage(Attention(), Attention(), merge) for merge in merges)
        for stage in self.blocks:
            stage[0].drop_path, stage[1].drop_path = nn.Identity(), nn.Dropout()

    def stream(self, x):
        embedded, *_ = super().stream(x)
        return [embedded, *self.blocks[0].found, *self.blocks[1].found]


class ViTNormedLast(ViT):
    """The final norm reads the cls token alone."""

    def readout(self, h):
        return self.norm(h[:, 0])


class ViTTurned(ViT):
    """The final norm reads the last token, as the first one of tokens that are turned."""

    def readout(self, h):
        return self.norm(h.flip(1)[:, 0])

    def seen(self, h):
        return h[:, -1]


class ViTWritten(ViT):
    """The final norm reads the last token, written over the first one."""

    def readout(self, h):
        first = torch.arange(h.shape[1])[:, None] == 0
        return self.norm(torch.where(first, h[:, -1:], h)[:, 0])


class ViTPooled(ViT):
    """The final norm reads the mean token, which a pool of (B, d, T) gives."""

    def readout(self, h):
        return self.norm(F.adaptive_avg_pool1d(h.transpose(1, 2), 1).squeeze(-1))

    def seen(self, h):
        return h


class ViTRegisters(ViTPooled):
    """The final norm reads all tokens but two, and the head their mean."""

    def readout(self, h):
        return self.norm(h[:, 2:]).mean(1)


class DropsTokens(ViTPooled):
    """Behind its first block two tokens are left."""

    def kept(self, h):
        return h.index_select(1, torch.tensor([0, 3]))

    def stream(self, x):
        first, *others = self.blocks
        return through((first, self.kept, *others), self.first_state(x))


class MergesTokens(DropsTokens):
    """Behind its first block neighbours are one token; no token is dropped."""

    def __init__(self):
        super().__init__()
        self.merge = nn.Linear(2 * D, D)

    def kept(self, h):
        return self.merge(torch.cat([h[:, 0:4:2], h[:, 1::2]], -1) + h[:, 4:].sum((1, 2), True))


class PooledThenAdds(ViTPooled):
    """A residual layer behind the pool."""

    def readout(self, h):
        h = super().readout(h)
        return h + self.embed(h[:, :5])


class Pruned(ViTNormedLast):
    """One block hands on what it reads."""

    def __init__(self):
        super().__init__()
        self.blocks.insert(2, nn.Identity())

    def stream(self, x):
        hidden = super().stream(x)
        del hidden[3]
        return hidden


class FNet(ViTPooled):
    """Its mixers have no weights, and the first one adds to what a norm gives."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.mlp = nn.LayerNorm(D), nn.LayerNorm(D), mlp()

        def forward(self, h):
            h = self.first(h + torch.fft.fft2(h).real)
            return self.second(h + self.mlp(h))

    def __init__(self):
        super().__init__()
        self.start = nn.LayerNorm(D)

    def first_state(self, x):
        return self.start(self.embed(x))

    def readout(self, h):
        return h.mean(1)


class MergesInEveryBlock(Normed):
    """A norm and a layer behind every sum: the next block adds to what the layer gives."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.f, self.merge = mlp(), nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D))

        def forward(self, h):
            return self.merge(h + self.f(h))


class Mamba(Normed):
    """Blocks that hand on (branch, sum of the branches before)."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.mlp = mlp()

        def forward(self, branch, stream):
            return self.mlp(branch + stream), branch + stream

    def forward(self, x):
        branch, stream = self.embed(x), 0
        for block in self.blocks:
            branch, stream = block(branch, stream)
        return self.head(self.norm(branch + stream))


class Latents(ViT):
    """A Perceiver: learned states read the input in every block."""

    def stream(self, x):
        hidden = [self.pos.expand(len(x), 5, D)]
        for block in self.blocks:
            hidden.append(block(hidden[-1] + self.embed(x).mean(1, keepdim=True)))
        return hidden

    def readout(self, h):
        return h.mean(1)


class Complex(Net):
    """Blocks of a complex stream."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(nn.Linear(5, D), nn.Tanh()).to(torch.complex128)
        self.head = nn.Linear(D, C)

    def forward(self, x):
        return self.head(self.blocks(x.to(torch.complex128)).abs())


class GPT(Net):
    """A causal decoder with tied embeddings; labels (B, T)."""

    x = "words"

    def __init__(self):
        super().__init__()
        self.wte, self.wpe, self.ln_f = nn.Embedding(9, D), nn.Embedding(5, D), nn.LayerNorm(D)
        self.h = nn.ModuleList(Attention(causal=True) for _ in range(3))

    def states(self, ids):
        hidden = through(self.h, self.wte(ids) + self.wpe.weight)
        return self.ln_f(hidden[-1]) @ self.wte.weight.T, hidden


class MaskedEncoder(Net):
    """`nn.TransformerEncoder` with a padding mask."""

    x = "padded"

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(D, 2, 8, dropout=0.3, batch_first=True)
        self.emb, self.enc = nn.Embedding(9, D), nn.TransformerEncoder(layer, 3)
        self.head = nn.Linear(D, C)

    def forward(self, ids):
        h = self.enc(self.emb(ids), src_key_padding_mask=ids == 0)
        keep = (ids != 0)[..., None]
        return self.head((h * keep).sum(1) / keep.sum(1))

    def states(self, ids):
        hidden, pad, keep = [self.emb(ids)], ids == 0, (ids != 0)[..., None]
        for layer in self.enc.layers:
            hidden.append(layer(hidden[-1], src_key_padding_mask=pad))
        return self.head((hidden[-1] * keep).sum(1) / keep.sum(1)), hidden


class EncoderDecoder(Net):
    """The stream is the decoder's; the encoder's memory comes in from the side."""

    x = "pair"

    def __init__(self):
        super().__init__()
        self.emb, self.norm, self.head = nn.Embedding(9, D), nn.LayerNorm(D), nn.Linear(D, C)
        self.encoder = nn.ModuleList(Attention() for _ in range(2))
        self.decoder = nn.ModuleList(Attention(reads_memory=True) for _ in range(3))

    def stream(self, source, target):
        memory = through(self.encoder, self.emb(source))[-1]
        return through(self.decoder, self.emb(target), memory)

    def readout(self, h):
        return self.norm(h)[:, -1]

    def forward(self, source, target):
        return self.states(source, target)[0]

    def seen(self, h):
        return h[:, -1]


class OfClass(Net):
    """A class scales and shifts in every block, as in diffusion networks."""

    x = "pair"

    def __init__(self):
        super().__init__()
        self.words, self.of_class = nn.Embedding(9, D), nn.Embedding(9, D)
        self.embed, self.head = nn.Linear(D, D), nn.Linear(D, C)
        self.blocks = nn.ModuleList(Conditioned() for _ in range(3))

    def condition(self, target):
        return self.of_class(target[:, 0])

    def stream(self, source, target):
        h = self.embed(self.words(source).mean(1))
        return through(self.blocks, h, self.condition(target))

    def forward(self, source, target):
        return self.states(source, target)[0]


class Conditioned(nn.Module):
    def __init__(self):
        super().__init__()
        self.f, self.mod = mlp(), nn.Linear(D, 2 * D)

    def forward(self, h, condition):
        shift, scale = self.mod(condition).chunk(2, 1)
        return h + scale * self.f(h * (1 + shift))


class OfTime(OfClass):
    """The condition is an integer that is no index."""

    def condition(self, target):
        return self.of_class.weight[0] * target[:, :1]


class SequenceFirst(GPT):
    """(T, B) in, (T, B, words) out: PyTorch's own default for sequences."""

    x = "words first"

    def forward(self, ids):
        return self.states(ids.T)[0].transpose(0, 1)


class UNet(Net):
    """A skip that is concatenated."""

    def __init__(self):
        super().__init__()
        self.down, self.mid = nn.Linear(5, D), nn.Sequential(*(mlp() for _ in range(3)))
        self.up = nn.Linear(2 * D, C)

    def forward(self, x):
        h = self.down(x)
        return self.up(torch.cat([h, self.mid(h)], 1))


class AddedUNet(Net):
    """Skips that are added; its layers are attributes."""

    def __init__(self):
        super().__init__()
        self.embed, self.down, self.mid = nn.Linear(5, D), nn.Linear(D, D), nn.Linear(D, D)
        self.up, self.head = nn.Linear(D, D), nn.Linear(D, C)

    def forward(self, x):
        h = F.relu(self.embed(x))
        low = F.relu(self.down(h))
        low = F.relu(self.mid(low)) + low
        return self.head(F.relu(self.up(low)) + h)


class TwoBranches(Ends):
    """Two trunks of the same depth, summed."""

    def __init__(self):
        super().__init__()
        self.left = nn.Sequential(*(mlp() for _ in range(3)))
        self.right = nn.Sequential(*(mlp() for _ in range(3)))

    def forward(self, x):
        h = self.embed(x)
        return self.head(self.left(h) + self.right(h))


class Couple(nn.Module):
    """Adds to one of two halves."""

    def __init__(self):
        super().__init__()
        self.branch = mlp(D // 2)

    def forward(self, a, b):
        return b, a + self.branch(b)


class Halves(Ends):
    """A reversible network: its blocks read the state as two halves."""

    Block = Couple

    def next_state(self, block, h):
        return torch.cat(block(*h.chunk(2, 1)), 1)


class Coupled(Couple):
    """Splits and joins the state itself."""

    def forward(self, h):
        a, b = h.chunk(2, 1)
        b = b + self.branch(a)
        return torch.cat([a + self.branch(b), b], 1)


class HalvesOfInput(Ends):
    """The first block reads the raw input."""

    x = (16, D)
    Block = Coupled

    def first_state(self, x):
        return x


class Some(nn.Module):
    """Adds to half of the entries, by their places."""

    def __init__(self):
        super().__init__()
        self.branch = nn.Linear(D // 2, D // 2)

    def forward(self, h):
        places = torch.arange(D // 2).expand(len(h), -1)
        return h.scatter_add(1, places, self.branch(h.gather(1, places)))


class SomeOfInput(HalvesOfInput):
    Block = Some


class Adds(nn.Module):
    """Adds to a copy of what it reads."""

    def __init__(self):
        super().__init__()
        self.branch = mlp()

    def forward(self, h):
        h = h.clone()
        return h + self.branch(h)


class Copies(Normed):
    """Every block copies what it reads."""

    Block = Adds


class CopiesFirst(Copies):
    """The stem ends in a norm."""

    def __init__(self):
        super().__init__()
        self.start = nn.LayerNorm(D)

    def first_state(self, x):
        return self.start(self.embed(x))


class Spread(Copies):
    """A code at three places, as a broadcast decoder has it."""

    def first_state(self, x):
        return self.embed(x)[:, None].expand(-1, 3, -1)

    def readout(self, h):
        return h.mean(1)


class OneBlockStages(Normed):
    """Each stage has one block; transitions begin with a norm, as the readout does (ConvNeXt)."""

    def __init__(self):
        super().__init__()
        self.layer1, self.layer2 = nn.Sequential(Adds()), nn.Sequential(Adds())
        self.downs = nn.ModuleList([nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D))])

    def stream(self, x):
        return through((self.layer1, self.downs[0], self.layer2), self.embed(x))


class Columns(Spread):
    """Numbers of a table are tokens (FT-Transformer): each times a vector of its own."""

    x = (16, 4)

    def __init__(self):
        super().__init__()
        self.embed, self.each = None, nn.Parameter(torch.randn(4, D))

    def first_state(self, x):
        return x[..., None] * self.each


class Pool(nn.Module):
    """Attention of one learned vector to all tokens."""

    def __init__(self):
        super().__init__()
        self.key, self.value = nn.Linear(D, D), nn.Linear(D, D)
        self.query = nn.Parameter(torch.randn(1, 1, D))

    def forward(self, h):
        weights = (self.query @ self.key(h).transpose(1, 2)).softmax(-1)
        return (weights @ self.value(h))[:, 0]


class PoolsByAttention(Copies):
    """Its readout attends to the tokens."""

    x = (16, 3, 5)

    def __init__(self):
        super().__init__()
        self.pool = Pool()

    def readout(self, h):
        return self.pool(h)


class SpreadLater(Spread):
    """The code is repeated between two blocks."""

    def stream(self, x):
        hidden = [self.embed(x)]
        for l, block in enumerate(self.blocks):
            read = hidden[-1][:, None].expand(-1, 3, -1) if l == 1 else hidden[-1]
            hidden.append(block(read))
        return hidden


class ComplexHalves(Halves):
    """The halves are real and imaginary parts."""

    def next_state(self, block, h):
        whole = torch.view_as_complex(h.view(-1, D // 2, 2))
        return torch.stack(block(whole.real, whole.imag), -1).flatten(1)


class Directions(Copies):
    """The head reads directions, as a cosine head does; an activation lies behind the last sum."""

    def __init__(self):
        super().__init__()
        self.act, self.normed = nn.Tanh(), nn.Identity()

    def readout(self, h):
        return self.normed(F.normalize(self.act(h), dim=1))


class BoundedCode(Copies):
    """An activation between two stages."""

    def __init__(self):
        super().__init__()
        self.code, self.decoder = nn.Tanh(), nn.ModuleList(Adds() for _ in range(2))

    def stream(self, x):
        return through((*self.blocks, self.code, *self.decoder), self.embed(x))

    def readout(self, h):
        return h
