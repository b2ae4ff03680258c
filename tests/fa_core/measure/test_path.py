"""Measuring runs a network as training does: each against plain float64 autograd in eval mode."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear, normalize, pad

from fa_core import diagnose
from fa_core.errors import FaError, MeasureError
from fa_core.measure.accuracy import accuracy, depth_ablation
from fa_core.measure.credit import credit_quality
from fa_core.measure.passes import PassOptions
from tests.fa_core.measure.nets import Hookable, Residual, batches

TAPS = "embed, blocks.*"
DATA = batches(8)


def plain():
    torch.manual_seed(0)
    return Hookable(Residual(kind="gelu", out_ln=True))


def of_class(kind):
    """The plain network as another class."""
    net = plain()
    net.__class__ = kind
    return net


def independent(net, data=DATA):
    """Norms, gradient norms and drift by float64 autograd, and the accuracy."""
    net = copy.deepcopy(net).double().eval()
    modules = [net.embed, *net.blocks]
    hidden, units, norms, right = [], [], [], []
    for module in modules:
        module.register_forward_hook(lambda module, given, h: hidden.append(h))
    for x, y in data:
        hidden.clear()
        logits = net(x.double() if x.is_floating_point() else x)
        gradients = torch.autograd.grad(cross_entropy(logits, y), hidden)
        norms.append([v.flatten(1).norm(dim=1).median().item() for v in (*hidden, *gradients)])
        units.append(normalize(gradients[(len(hidden) - 1) // 2].mean(0).flatten(), dim=0))
        right.append(logits.argmax(1) == y)
    cosines = torch.stack(units) @ torch.stack(units).T
    k = len(data)
    drift = (cosines.sum().item() - k) / (k * (k - 1))
    return [*norms[0], drift, torch.cat(right).double().mean().item()]


def measured(net, data=DATA, **options):
    report = diagnose(net, data, taps=TAPS, **options)
    drift, share = report.cross_batch_stability, report.headline_acc
    return [*report.residual_norms, *report.bp_grad_norms, drift, share]


class RelaxesInside(Hookable):
    """Needs gradients in its forward, of its weights and of its input."""

    def forward(self, x):
        x = x.requires_grad_()
        h, _ = self.states(x)
        torch.autograd.grad(h.sum(), [x, self.embed.weight], retain_graph=True)
        return self.readout(h)


class CallsBackward(Hookable):
    def forward(self, x):
        logits = super().forward(x)
        logits.sum().backward(retain_graph=True)
        return logits


class Trains(nn.Linear):
    """Its train() is no switch."""

    def train(self, positive, negative):
        raise NotImplementedError


class Caches(nn.Linear):
    """Merges into its weight in eval mode, as low-rank adapters do."""

    merged = False

    def train(self, mode=True):
        if mode == self.merged:
            self.weight.data.add_(-1.0 if mode else 1.0)
            self.merged = not mode
        return super().train(mode)

    def forward(self, x):
        return linear(x, self.weight if self.merged else self.weight + 1.0)


class SwitchedAbove(Hookable):
    def eval(self):
        self.switched = True
        return super().eval()

    def forward(self, x):
        return super().forward(x) if self.switched else None


class KeepsItsStates(Hookable):
    def forward(self, x):
        h, self.kept = self.states(x)
        return self.readout(h)


def with_head(kind):
    net = plain()
    net.head = kind(6, 4, bias=False)
    return net


def in_place():
    """h += f(h): f's layer norm has kept the h that is overwritten."""
    net = plain()
    for block in net.blocks:
        block.inplace = True
    return net


def called_once():
    net = of_class(KeepsItsStates)
    net(DATA[0][0])
    return net


def with_old_weight_norm():
    net = plain()
    nn.utils.weight_norm(net.blocks[0].f[1])
    net(DATA[0][0])
    return net


def with_hooks():
    """A hook that doubles the input, one that halves an output, and one that needs a graph."""
    net = plain()
    first, second, third = net.blocks
    first.register_forward_pre_hook(lambda module, given: (2 * given[0],))
    second.register_forward_hook(lambda module, given, output: output / 2)
    third.register_forward_hook(lambda module, given, output: output.retain_grad())
    return net


@pytest.mark.filterwarnings("ignore:.*weight_norm.*")
@pytest.mark.parametrize(
    ("made", "reference"),
    [
        (lambda: of_class(RelaxesInside), plain),
        (lambda: of_class(CallsBackward), plain),
        (lambda: with_head(Trains), lambda: with_head(nn.Linear)),
        (lambda: with_head(Caches), lambda: with_head(Caches).eval()),
        (lambda: of_class(SwitchedAbove), plain),
        (called_once, plain),
        (lambda: called_once().requires_grad_(False), plain),
        (in_place, plain),
        (with_old_weight_norm, plain),
        (with_hooks, with_hooks),
    ],
    ids=[
        "gradients inside",
        "backward inside",
        "train() trains",
        "train(mode) merges",
        "eval() of its own",
        "keeps activations",
        "frozen by its owner",
        "writes in place",
        "old weight norm",
        "hooks",
    ],
)
def test_a_network_is_measured_as_it_trains(made, reference):
    net = made()
    weights = copy.deepcopy(net.state_dict())
    flags = [p.requires_grad for p in net.parameters()]
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    expected = independent(reference())
    # in a copy
    assert measured(net, dtype="float64") == pytest.approx(expected, rel=1e-6)
    assert measured(net) == pytest.approx(expected, rel=1e-4)
    assert accuracy(net, DATA) == expected[-1]
    assert depth_ablation(net, DATA, taps=TAPS).accuracy == expected[-1]
    assert all(torch.equal(kept, weights[name]) for name, kept in net.state_dict().items())
    assert all(bool((p.grad == 1).all()) for p in net.parameters())
    assert [p.requires_grad for p in net.parameters()] == flags
    assert all(module.training for module in net.modules())


class Padded(nn.Module):
    """torch's encoder on padded token ids, by its defaults."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 8, padding_idx=0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.blocks, self.head = self.encoder.layers, nn.Linear(8, 4)

    def forward(self, ids):
        keep = ids != 0
        h = self.encoder(self.embed(ids), src_key_padding_mask=~keep)
        h = pad(h, (0, 0, 0, ids.shape[1] - h.shape[1]))
        return self.head((h * keep[..., None]).sum(1) / keep.sum(1, keepdim=True))


@pytest.mark.parametrize("frozen", [False, True])
def test_attention_takes_no_fast_path(frozen):
    draws = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 50, (8, 16, 7), generator=draws)
    ids[torch.arange(7) >= torch.randint(3, 6, (8, 16, 1), generator=draws)] = 0
    data = list(zip(ids, torch.randint(4, (8, 16), generator=draws), strict=True))
    net = Padded().eval()
    expected = independent(net, data)
    net.requires_grad_(not frozen)
    assert measured(net, data) == pytest.approx(expected, rel=1e-4)
    assert accuracy(net, data) == expected[-1]
    assert torch.backends.mha.get_fastpath_enabled()


class Kept(torch.autograd.Function):
    """Feedback of a stored error by a matrix."""

    @staticmethod
    def forward(ctx, h, store, matrix):
        ctx.store, ctx.matrix = store, matrix
        return h.clone()

    @staticmethod
    def backward(ctx, g):
        return ctx.store @ ctx.matrix, None, None


class StoresItsError(Hookable):
    """Writes its outputs into a plain tensor, which its backward pass reads."""

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = Kept.apply(block(h), self.store, self.matrix)
        logits = self.readout(h)
        self.store.data.copy_(logits.detach().softmax(1))
        return logits


def storing():
    net = of_class(StoresItsError)
    net.store, net.matrix = torch.zeros(16, 4), torch.randn(4, 6)
    return net


class ReadsWhatItWrote(StoresItsError):
    def forward(self, x):
        return super().forward(x) + self.store


class AddsItsShares(Hookable):
    def forward(self, x):
        logits = super().forward(x)
        return logits + logits.softmax(1)


@pytest.mark.parametrize(
    ("kind", "same"), [(StoresItsError, Hookable), (ReadsWhatItWrote, AddsItsShares)]
)
def test_a_forward_that_writes_into_a_tensor_it_keeps_has_its_derivative(kind, same):
    net = storing()
    net.__class__ = kind
    assert measured(net) == pytest.approx(independent(of_class(same)), rel=1e-4)


class ReadsAnotherView(StoresItsError):
    def forward(self, x):
        return super().forward(x) + self.view


def test_a_forward_that_writes_one_view_and_reads_another_gets_one_line_and_no_gradient():
    net = storing()
    net.view = net.store.view(16, 4)
    net.__class__ = ReadsAnotherView
    report = diagnose(net, DATA, taps=TAPS)
    assert report.unmeasured["b"].endswith(
        "what it computes from a batch is not the same every time, or does not stay in torch"
    )


@pytest.mark.parametrize("made", [plain, called_once, storing])
def test_credit_is_compared_in_a_float64_copy_of_a_network_that_keeps_tensors(made):
    (x, y), *_ = DATA
    draws = torch.Generator().manual_seed(0)
    credit = [torch.randn(16, 6, generator=draws) for _ in range(4)]
    net = plain().double().eval()
    hidden = net.states(x.double())[1]
    gradients = torch.autograd.grad(cross_entropy(net.readout(hidden[-1]), y), hidden)
    cosines = [
        torch.cosine_similarity(a.double(), g).mean().item()
        for a, g in zip(credit, gradients, strict=True)
    ]
    found = credit_quality(made(), credit, (x, y), PassOptions(TAPS), directions=0)
    assert found["gamma"] == pytest.approx(cosines)


class CallsForward(Hookable):
    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = block.forward(h)
        return self.readout(h)


class InTransform(Hookable):
    def forward(self, x):
        return torch.vmap(super().forward)(x)


class FailsToSwitch(Hookable):
    def train(self, mode=True):
        raise RuntimeError("no")


REFUSED = [
    (CallsForward, TAPS, "does not call: blocks.0, blocks.1, blocks.2; .*block.forward"),
    (CallsForward, "blocks.*:in, head:in", "does not call: blocks.0:in, .*block.forward"),
    (InTransform, TAPS, "module embed runs inside a transform of torch.func; give a function"),
    (FailsToSwitch, TAPS, r"FailsToSwitch.eval\(\) failed: no; put the network into eval mode"),
]


@pytest.mark.parametrize(("kind", "taps", "said"), REFUSED)
def test_what_cannot_be_tapped_or_switched_is_one_line(kind, taps, said):
    with pytest.raises(FaError, match=said):
        diagnose(of_class(kind), DATA, taps=taps)


def test_an_internal_assertion_of_torch_is_not_printed():
    class Asserts(Hookable):
        def forward(self, x):
            raise RuntimeError("false INTERNAL ASSERT FAILED at x.cpp, please report a bug")

    with pytest.raises(MeasureError, match="PyTorch does not support what it does") as caught:
        diagnose(of_class(Asserts), DATA, taps=TAPS)
    assert "INTERNAL" not in str(caught.value)


def test_no_pass_that_overwrites_its_stream_is_repeated():
    net, calls = in_place(), []
    net.head.register_forward_pre_hook(lambda module, given: calls.append(1))
    diagnose(net, DATA, taps=TAPS)
    # and three trials
    assert len(calls) == len(DATA) + 3
