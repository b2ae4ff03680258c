"""Decoders and other token streams: which token is read, what follows the final norm, which axis is the batch."""

import copy

import pytest
import torch
from torch import nn

from fa_core import diagnose
from fa_core.errors import TapError
from fa_core.measure.credit import credit_quality
from fa_core.measure.passes import PassOptions
from fa_core.measure.reference_precision import reference_precision

PAD, WORDS, CLASSES, WIDTH = 0, 11, 4, 6


class Layer(nn.Module):
    """Causal mixing and an MLP: pre-norm, or post-norm with the norm as the block's end."""

    def __init__(self, post=False, norm=nn.LayerNorm):
        super().__init__()
        self.ln, self.mix, self.post = norm(WIDTH), nn.Linear(WIDTH, WIDTH), post

    def forward(self, h):
        u = h if self.post else self.ln(h)
        causal = u.cumsum(1) / torch.arange(1, u.shape[1] + 1)[:, None]
        h = h + torch.tanh(self.mix(causal))
        return (self.ln(h) if self.post else h), None


class Decoder(nn.Module):
    """What a language model holds below its head."""

    def __init__(self, depth=3, post=False, norm=nn.LayerNorm):
        super().__init__()
        self.wte = nn.Embedding(WORDS, WIDTH)
        self.drop = nn.Dropout(0.1)
        self.h = nn.ModuleList(Layer(post, norm) for _ in range(depth))
        self.ln_f = nn.Identity() if post else norm(WIDTH)

    def forward(self, ids):
        h = self.drop(self.wte(ids))
        states = [h]
        for block in self.h:
            h = block(h)[0]
            states.append(h)
        states[-1] = self.ln_f(h)
        return states[-1], states


class Classifier(nn.Module):
    """A head on one token per sample: the first, the last, the last before padding; or on their mean."""

    def __init__(self, reads="last", **decoder):
        super().__init__()
        self.transformer = Decoder(**decoder)
        self.score = nn.Linear(WIDTH, CLASSES)
        self.reads = reads

    def read(self, ids):
        places = {"first": 0, "third": 2, "last": ids.shape[1] - 1}
        if self.reads in places:
            return torch.full((len(ids),), places[self.reads])
        return (ids != PAD).sum(dim=1) - 1

    def forward(self, ids):
        h, _ = self.transformer(ids)
        if self.reads == "mean":
            return self.score(h.mean(dim=1))
        return self.score(h[torch.arange(len(ids)), self.read(ids)])


TAPS = ["transformer.drop", "transformer.h.*"]
HOW = PassOptions(TAPS)


def hidden_states(model, ids):
    """As transformers returns them: the last one behind the final norm."""
    states = []
    handle = model.transformer.register_forward_hook(
        lambda _, args, output: states.extend(output[1])
    )
    logits = model(ids)
    handle.remove()
    return logits, states


def sentences(k=8, length=7, padded=False):
    data = []
    for _ in range(k):
        ids = torch.randint(1, WORDS, (16, length))
        if padded:
            ids[torch.arange(length) >= torch.randint(2, length + 1, (16, 1))] = PAD
        data.append((ids, torch.randint(CLASSES, (16,))))
    return data


def middle(rows):
    return sorted(float(row.norm()) for row in rows)[(len(rows) - 1) // 2]


def slowly(model, data):
    """Norms of the read token's states and gradients, sample by sample, and (c), in float64."""
    model = model.double().eval()
    means, h_norms, g_norms = [], [], []
    for ids, y in data:
        places = model.read(ids).tolist()
        states = [model.transformer.wte(ids).detach()]
        for block in model.transformer.h:
            states.append(block(states[-1])[0].detach())
        gradients = []
        for l, state in enumerate(states):
            rows = []
            for i, place in enumerate(places):
                leaf = state[i : i + 1].clone().requires_grad_()
                z = leaf
                for block in model.transformer.h[l:]:
                    z = block(z)[0]
                logits = model.score(model.transformer.ln_f(z)[0, place])
                loss = (torch.logsumexp(logits, 0) - logits[y[i]]) / len(y)
                rows.append(torch.autograd.grad(loss, leaf)[0][0, place])
            gradients.append(torch.stack(rows))
        h_norms.append([middle([h[i, p] for i, p in enumerate(places)]) for h in states])
        g_norms.append(list(map(middle, gradients)))
        mean = gradients[(len(states) - 1) // 2].mean(0)
        means.append(mean / mean.norm())
    pairs = [float(a @ b) for j, a in enumerate(means) for b in means[:j]]
    model.float()
    return h_norms[0], g_norms[0], sum(pairs) / len(pairs)


@pytest.mark.parametrize(
    ("reads", "padded", "way"),
    [
        ("first", False, "cls token"),
        ("third", False, "read token"),
        ("last", False, "last token"),
        ("before padding", False, "last token"),
        ("before padding", True, "read token"),
    ],
)
def test_a_token_that_the_head_reads_gives_the_vectors_of_every_layer(reads, padded, way):
    model, data = Classifier(reads), sentences(padded=padded)
    report = diagnose(model, data, taps=TAPS)
    assert report.flatten == way
    h, g, drift = slowly(model, data)
    assert report.residual_norms == pytest.approx(h, rel=1e-5)
    assert report.bp_grad_norms == pytest.approx(g, rel=1e-4)
    assert report.cross_batch_stability == pytest.approx(drift, abs=1e-5)


def test_the_read_token_is_found_batch_by_batch():
    model = Classifier("before padding")
    data = [*sentences(4, length=5), *sentences(4, length=9, padded=True)]
    report = diagnose(model, data, taps=TAPS)
    assert report.flatten == "last token"
    assert report.cross_batch_stability == pytest.approx(slowly(model, data)[2], abs=1e-5)


def test_a_head_that_reads_several_tokens_is_flattened():
    model, [(ids, y)] = Classifier("mean"), sentences(1)
    report = diagnose(model, [(ids, y)], taps=TAPS)
    assert report.flatten == "flattened"
    h = model.eval().transformer.wte(ids).flatten(1)
    assert report.residual_norms[0] == pytest.approx(float(h.norm(dim=1).median()))


def test_a_sample_without_any_gradient_is_read_where_the_others_are():
    model, [(ids, y)] = Classifier("last"), sentences(1)
    expected = diagnose(model, [(ids, y)], taps=TAPS)
    with torch.no_grad():
        model.score.weight *= 1e6
        y = torch.where(torch.arange(len(y)) < 5, model(ids).argmax(1), y)
    report = diagnose(model, [(ids, y)], taps=TAPS)
    assert report.flatten == "last token"
    assert report.residual_norms == expected.residual_norms


def test_the_read_token_is_that_of_credit_and_of_the_reference_precision():
    model, [(ids, y)] = Classifier("before padding", depth=1), sentences(1, padded=True)
    assert all(c > 1 - 1e-9 for c in reference_precision(model, (ids, y), HOW).cosine)
    wide = copy.deepcopy(model).double().eval()
    states = [wide.transformer.wte(ids).detach().requires_grad_()]
    states.append(wide.transformer.h[0](states[0])[0])
    logits = wide.score(wide.transformer.ln_f(states[1])[torch.arange(len(ids)), wide.read(ids)])
    credit = torch.autograd.grad(nn.functional.cross_entropy(logits, y), states)
    quality = credit_quality(model, credit, (ids, y), HOW, directions=8)
    assert quality["gamma"] == pytest.approx([1.0, 1.0], abs=1e-9)
    assert quality["rho"] == pytest.approx([1.0, 1.0], abs=1e-2)
    # another token's credit is none of what the head reads
    elsewhere = [a.roll(1, dims=1) for a in credit]
    quality = credit_quality(model, elsewhere, (ids, y), HOW, directions=0)
    assert abs(quality["gamma"][1] or 0.0) < 1e-9


def test_a_token_that_only_some_states_hold_is_asked_about():
    def pooled(model, ids):
        h = model.transformer.wte(ids)
        put = torch.cat([torch.zeros(len(ids), 1, WIDTH), h], dim=1)
        state = model.transformer.h[0](put)[0]
        return model.score(state[:, 0] + state[:, -1] * 0), [h, state]

    with pytest.raises(TapError, match=r"\[7, 8, 8\] tokens, of which the head reads one"):
        diagnose(Classifier(depth=1), sentences(1), taps=pooled)


class TimeFirst(nn.Module):
    """(T, B, d) inside, as PyTorch's recurrent layers have it by default."""

    def __init__(self):
        super().__init__()
        self.embed, self.mix = nn.Linear(5, WIDTH), nn.GRU(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, return_hidden=False):
        h = self.embed(x.transpose(0, 1))
        mixed = self.mix(h)[0]
        logits = self.head(mixed.mean(dim=0))
        return (logits, [h, mixed]) if return_hidden else logits


@pytest.mark.parametrize("taps", [None, "embed, mix"])
@pytest.mark.parametrize("length", [5, 8])
def test_states_whose_first_axis_is_time_are_refused_whatever_their_length(taps, length):
    data = [(torch.randn(8, length, 5), torch.randint(CLASSES, (8,)))]
    with pytest.raises(TapError, match=r"where the batch is a later axis.*transpose\(0, 1\)"):
        diagnose(TimeFirst(), data, taps=taps)


def test_features_before_the_logits_are_not_taken_for_them():
    class Both(Classifier):
        def forward(self, ids):
            features = self.transformer(ids)[0][:, -1]
            return features[:, :CLASSES] * 5.0, self.score(features)

    said = r"\(16, 4\): either may be the logits; say which, logits=0 or logits=1; or wrap .*net\.blocks"
    with pytest.raises(TapError, match=said):
        diagnose(Both(), sentences(1), taps=TAPS)
