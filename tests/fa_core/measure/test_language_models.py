"""Networks that are called by name, and labels per token: closed forms, the model hub's own loss, and refusals."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fa_core import diagnose
from fa_core.errors import MeasureError, TapError
from fa_core.measure.accuracy import accuracy
from fa_core.measure.batch_input import IGNORED, KEPT, SHIFTED
from fa_core.measure.gradients import loss_gradient
from fa_core.measure.passes import PassOptions
from fa_core.measure.reference_precision import reference_precision
from tests.fa_core.measure.nets import OUTSIDE, Stack, Turned

transformers = pytest.importorskip("transformers")
TAPS = ["transformer.drop", "transformer.h.*"]
VOCAB = 64


def gpt2():
    config = transformers.GPT2Config(
        n_layer=2, n_embd=32, n_head=2, vocab_size=VOCAB, n_positions=16
    )
    return transformers.GPT2LMHeadModel(config).eval()


def batch(size=5, length=7, pads=True):
    ids, mask = torch.randint(VOCAB, (size, length)), torch.ones(size, length, dtype=torch.long)
    labels = ids.clone()
    if pads:
        for row in range(1, size):
            mask[row, length - row % 4 :] = 0
        labels[mask == 0] = IGNORED
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def medians(norms, counting):
    per_sample = [
        row[keep].median() for row, keep in zip(norms, counting, strict=True) if keep.any()
    ]
    return float(torch.stack(per_sample).median().detach())


def test_the_loss_gradient_is_that_of_cross_entropy_with_ignored_labels():
    z = torch.randn(3, 5, 7, dtype=torch.float64, requires_grad=True)
    y = torch.randint(7, (3, 5))
    y[0, 2:] = y[2] = IGNORED
    (expected,) = torch.autograd.grad(F.cross_entropy(z.flatten(0, 1), y.flatten()), z)
    start, norms = loss_gradient(z, y)
    norms = norms[..., 0]
    assert torch.allclose(start, expected, atol=1e-15)
    assert torch.allclose(norms, (expected * (y != IGNORED).sum()).norm(dim=2), atol=1e-14)
    assert torch.equal(norms == 0, y == IGNORED)


def next_tokens(each):
    return F.pad(each["labels"][:, 1:], (0, 1), value=IGNORED)


@pytest.mark.parametrize(("dtype", "rel"), [("float32", 1e-4), ("float64", 1e-10)])
def test_gpt2_is_measured_by_the_hubs_own_loss(dtype, rel):
    net, data = gpt2().to(getattr(torch, dtype)), [batch() for _ in range(8)]
    report = diagnose(net, data, taps=TAPS)
    assert accuracy(net, data) == report.headline_acc
    hidden = []
    for name in ("transformer.drop", "transformer.h.0", "transformer.h.1"):
        net.get_submodule(name).register_forward_hook(
            lambda _, args, out: hidden.append(out if isinstance(out, Tensor) else out[0])
        )
    out, y = net(**data[0]), next_tokens(data[0])
    own = F.cross_entropy(out.logits.flatten(0, 1), y.flatten())
    # the hub computes its loss in float32
    assert float(out.loss.detach()) == pytest.approx(float(own.detach()), rel=1e-6)
    counting = y != IGNORED
    gradients = torch.autograd.grad(own, hidden)
    expected = [medians(g.norm(dim=2), counting) for g in gradients]
    assert report.bp_grad_norms == pytest.approx(expected, rel=rel)
    e = out.logits.softmax(dim=2) - F.one_hot(y.clamp(min=0), VOCAB)
    assert report.error_norm == pytest.approx(medians(e.norm(dim=2), counting), rel=rel)
    labels = sum(int((next_tokens(each) != IGNORED).sum()) for each in data)
    assert report.headline_acc_source == f"measured on {labels} eval labels"
    terms = int(counting.sum())
    assert report.batch_size == terms
    reduction = f"per token over {terms} counting labels of 5 samples"
    assert report.provenance["reduction"] == reduction
    assert (report.flatten, report.coverage) == ("per token", "abc")
    assert report.notes.startswith(
        f"{SHIFTED}; weights before h_0: transformer.wte, transformer.wpe; "
    )
    assert "acc" not in report.intervals


def test_parts_generators_and_padding_to_other_lengths_change_nothing():
    net, data = gpt2(), [batch(length=6 + k % 3) for k in range(8)]
    whole = diagnose(net, data, taps=TAPS)
    longer = [
        {k: F.pad(v, (0, 3), value=IGNORED if k == "labels" else 0) for k, v in b.items()}
        for b in data
    ]
    for other in (
        diagnose(net, data, taps=TAPS, largest_pass=2),
        diagnose(net, (transformers.BatchEncoding(b) for b in data), taps=TAPS),
        diagnose(net, longer, taps=TAPS),
    ):
        assert other.residual_norms == pytest.approx(whole.residual_norms, rel=1e-5)
        assert other.bp_grad_norms == pytest.approx(whole.bp_grad_norms, rel=1e-4)
        assert other.cross_batch_stability == pytest.approx(whole.cross_batch_stability, abs=1e-5)
        assert other.headline_acc == whole.headline_acc


def test_masked_language_models_are_not_shifted():
    sizes = dict.fromkeys(("hidden_size", "intermediate_size"), 16)
    layers = dict.fromkeys(("num_hidden_layers", "num_attention_heads"), 2)
    config = transformers.BertConfig(vocab_size=VOCAB, **sizes, **layers)
    net, data = transformers.BertForMaskedLM(config).eval(), batch()
    report = diagnose(net, [data], taps="bert.embeddings, bert.encoder.layer.*")
    right = net(**data).logits.argmax(2) == data["labels"]
    counting = data["labels"] != IGNORED
    assert report.headline_acc == pytest.approx(float(right[counting].float().mean()))
    assert report.notes == (
        "weights before h_0: bert.embeddings; behind h_L: cls, bert.embeddings.word_embeddings; "
        "between states: bert.encoder.layer.0 to bert.encoder.layer.1 (2 steps); outputs "
        "of norms, which set ‖h_l‖: h_0, h_1, h_2"
    )


class Tokens(Stack):
    """A network of one's own with token inputs, and those of a decoder if there is one."""

    def __init__(self):
        blocks = [nn.Linear(8, 8) for _ in range(3)]
        super().__init__(nn.Embedding(VOCAB, 8), blocks, nn.Linear(8, VOCAB), adds=True)

    def forward(self, source, target=None, **_):
        h = self.embed(source)
        if target is not None:
            h = self.embed(target) + h.mean(1, keepdim=True)
        for block in self.blocks:
            h = h + block(h)
        return self.head(h)


def test_labels_of_a_network_of_ones_own_are_shifted_only_if_they_are_its_tokens():
    net, tokens, others = Tokens(), torch.randint(VOCAB, (4, 6)), torch.randint(VOCAB, (4, 6))
    counting = tokens.clone()
    counting[0, 3:] = IGNORED
    before = F.pad(others[:, :-1], (1, 0))
    places = torch.arange(6).expand(4, 6)
    for inputs, labels, note in (
        ({"source": tokens}, tokens, SHIFTED),
        ({"source": tokens}, counting, SHIFTED),
        ({"source": tokens}, others, ""),
        ({"source": tokens, "position_ids": places, "mask": places > 0}, tokens, SHIFTED),
        ({"source": tokens, "target": before}, others, ""),
        # the decoder is given the labels themselves, or a copying task
        ({"source": tokens, "target": others}, others, KEPT),
        ({"source": tokens, "target": before}, tokens, KEPT),
        ({"source": tokens[:, :4], "target": before}, others, ""),
    ):
        each = {**inputs, "labels": labels}
        report = diagnose(net, [each], taps="blocks.*:in, head:in")
        y = next_tokens(each) if note == SHIFTED else labels
        right = (net(**inputs).argmax(2) == y)[y != IGNORED]
        assert report.headline_acc == pytest.approx(float(right.float().mean()))
        assert report.notes == "; ".join(filter(None, [note, OUTSIDE]))


def test_a_pair_is_never_shifted_and_takes_inputs_by_name_alone():
    net, tokens = Tokens(), torch.randint(VOCAB, (4, 6))
    report = diagnose(net, [({"source": tokens}, tokens)], taps="blocks.*:in, head:in")
    right = net(tokens).argmax(2) == tokens
    assert (report.headline_acc, report.notes) == (
        pytest.approx(float(right.float().mean())),
        OUTSIDE,
    )
    with pytest.raises(MeasureError, match=r"inputs are 2 in a tuple; give them by the names"):
        diagnose(net, [((tokens, tokens), tokens)])


def test_what_a_language_model_lacks_is_one_line():
    net, good = gpt2(), batch(pads=False)
    ids = good["input_ids"]
    for bad, words in (
        ({**good, "labels": torch.full_like(ids, IGNORED)}, "no label counts: all are -100"),
        ({**good, "labels": torch.where(ids > 5, ids, -7)}, "label -7 is negative"),
        ({"labels": ids}, "holds labels alone"),
        ({**good, "labels": ids[:, 0]}, r"output is \(5, 7, 64\) for 5 labels"),
        ({**good, "labels": ids[:, :3]}, "an encoder–decoder needs the decoder's inputs"),
        ({**good, "position_ids": ids + 99}, r"inputs input_ids of shape \(5, 7\), int64, att"),
    ):
        with pytest.raises(MeasureError, match=words) as caught:
            diagnose(net, [bad], taps=TAPS)
        assert "eval batch 0" in str(caught.value)
    inner = nn.Sequential(nn.Flatten(), nn.Linear(7, 14), nn.Tanh(), nn.Unflatten(1, (7, 2)))
    with pytest.raises(TapError, match=r"tap 1 has shape \(5, 14\) for labels \(5, 7\); labels"):
        diagnose(inner, [(ids.float(), ids % 2)], taps="1")


def test_the_reference_of_a_language_model_is_judged_per_token():
    found = reference_precision(gpt2(), batch(), PassOptions(TAPS))
    assert all(c > 1 - 1e-9 for c in found.cosine if c is not None)
    assert found.samples == int((batch()["labels"][:, 1:] != IGNORED).sum())


def test_a_decoder_with_feedback_in_it_has_gamma_per_token():
    net, data = gpt2(), [batch() for _ in range(8)]
    for each in data:
        # the hub looks at its values, which a trace cannot follow
        del each["attention_mask"]
    expected = diagnose(net, data, taps=TAPS)
    net.transformer.h[1].ln_1.register_forward_hook(lambda module, args, out: Turned.apply(out))
    report = diagnose(net, data, taps=TAPS)
    assert report.bp_grad_norms == pytest.approx(expected.bp_grad_norms, rel=1e-4)
    assert report.provenance["custom_backward"] == ["Turned"]
    assert report.credit["samples"] == report.batch_size
    assert report.credit["gamma"][2] == pytest.approx(1) and report.credit["gamma"][0] < 0.999
