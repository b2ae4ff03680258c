"""Final norms, however they are written, and the states and taps around them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fa_core import diagnose
from fa_core.errors import TapError
from tests.fa_core.measure.nets import Hookable, Residual, batches
from tests.fa_core.measure.test_streams import TAPS, WIDTH, Classifier, hidden_states, sentences
from tests.field.layer_nets import NormThenActivation, NormThenMean, TwoRowsNormed

FINAL = "what the final norm reads"


def spelled(forward):
    class Spelled(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(width))

        def forward(self, h):
            wide = h.float()
            return forward(
                wide, wide.pow(2).mean(-1, keepdim=True) + 1e-6, self.weight.float()
            ).type_as(h)

    return Spelled


def standardised(h, square, w):
    """A LayerNorm from its definition."""
    centred = h - h.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + 1e-5) * (1.0 + w)


WRITTEN = {
    "a LayerNorm": lambda h, square, w: F.layer_norm(h, h.shape[-1:]),
    "an RMSNorm": lambda h, square, w: F.rms_norm(h, h.shape[-1:]),
    "a LayerNorm by its definition": standardised,
    "one plus the weight": lambda h, square, w: h * torch.rsqrt(square) * (1.0 + w),
    "a power": lambda h, square, w: h * torch.pow(square, -0.5) * (1.0 + w),
    "one group": lambda h, square, w: F.group_norm(h.flatten(0, 1), 1).view_as(h) * (1.0 + w),
    "an instance norm": lambda h, square, w: F.instance_norm(h),
    "neighbours": lambda h, square, w: F.local_response_norm(h, 3),
    "a clip": lambda h, square, w: torch.where(square > 1e-3, h * square.rsqrt(), h),
    "rows": lambda h, square, w: torch.stack([row / row.norm() for row in h]),
    "norms of rows": lambda h, square, w: torch.stack([F.rms_norm(row, row.shape) for row in h]),
    "a distance": lambda h, square, w: h / torch.cdist(h, torch.zeros(1, WIDTH)),
}


def left_out(model, taps):
    """What taps leave out of the stream."""
    return diagnose(model, sentences(1), taps=taps).partial_stream


@pytest.mark.parametrize("case", WRITTEN)
def test_a_final_norm_is_found_however_it_is_written(case):
    model = Classifier(norm=spelled(WRITTEN[case]))
    model.transformer.h[-1].register_forward_hook(lambda _, args, output: (1e9 * output[0], None))
    assert (left_out(model, hidden_states), left_out(model, TAPS)) == (FINAL, "")
    assert "a" in diagnose(model, sentences(1), taps=TAPS).flags


@pytest.mark.parametrize(
    "written",
    [
        lambda h, s, w: h * (1.0 + w),
        lambda h, s, w: h * h**2,
        lambda h, s, w: h * F.silu(h),
        lambda h, s, w: h * torch.sigmoid(h),
        lambda h, s, w: 0.5 * h * (1.0 + torch.tanh(0.8 * (h + 0.0447 * h**3))),
        lambda h, s, w: h / (1.0 + h.abs()),
        lambda h, s, w: h * (h >= h.kthvalue(3, -1, keepdim=True)[0]).to(h),
        lambda h, s, w: h * torch.sigmoid(F.layer_norm(h, h.shape[-1:])),
        lambda h, s, w: h * torch.sigmoid(h.mean(-1, keepdim=True) * (1.0 + w)),
    ],
)
def test_gains_and_gates_are_no_norms(written):
    net = Classifier(norm=spelled(written))
    assert diagnose(net, sentences(1), taps=hidden_states).coverage == "ab"


def with_normed_embedding(**options):
    model = Classifier(**options)
    model.transformer.wte = nn.Sequential(model.transformer.wte, nn.LayerNorm(WIDTH))
    return model


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("taps", [hidden_states, [*TAPS, "transformer.ln_f"]])
def test_a_normed_embedding_does_not_hide_the_final_norm(depth, taps):
    assert left_out(with_normed_embedding(depth=depth), taps) == FINAL


@pytest.mark.parametrize(("depth", "taps"), [(1, TAPS), (3, TAPS), (3, hidden_states)])
def test_post_norm_blocks_behind_a_normed_embedding_are_measured(depth, taps):
    report = diagnose(with_normed_embedding(depth=depth, post=True), sentences(1), taps=taps)
    assert len(report.residual_norms) == depth + 1 and not report.partial_stream


def last_state(model, ids):
    logits, states = hidden_states(model, ids)
    return logits, states[-1:]


@pytest.mark.parametrize("taps", [last_state, "transformer.ln_f"])
def test_blocks_before_h_0_and_a_final_norm_are_said(taps):
    blocks = "transformer.h.0, transformer.h.1, transformer.h.2"
    assert left_out(Classifier(), taps) == f"{blocks}, {FINAL}"


@pytest.mark.parametrize("kind", [NormThenMean, NormThenActivation, TwoRowsNormed])
def test_a_norm_in_front_of_a_pool_is_a_final_one(kind):
    net, batch = kind(), (torch.randn(16, 4, 5), torch.randint(3, (16,)))
    taps = [f"net.{l}:in" for l in range(1, len(net.net))]
    assert diagnose(net, [batch], taps=[*taps, "hidden"]).partial_stream == FINAL


@pytest.mark.parametrize(
    "behind",
    [
        nn.Softplus(),
        lambda h: h.clamp(min=1e-6).pow(3).mean(1, keepdim=True).pow(1 / 3),
        lambda h: h.sort(1)[0],
    ],
)
@pytest.mark.parametrize("norm", [nn.LayerNorm(6), nn.RMSNorm(6)])
def test_what_lies_behind_a_final_norm_does_not_hide_it(norm, behind):
    net, batch = NormThenMean(), (torch.randn(16, 4, 5), torch.randint(3, (16,)))
    net.hidden = norm
    net.readout = lambda h: behind(norm(h)).mean(1)
    assert diagnose(net, [batch], taps="net.1:in,net.2:in,hidden").partial_stream == FINAL
    guessed = diagnose(net, [batch])
    assert guessed.tap_names[-1] in ("act (call 3)", "hidden:in") and not guessed.partial_stream


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("norm", [nn.BatchNorm1d, lambda width: nn.GroupNorm(1, width)])
def test_a_norm_in_every_layer_is_no_final_one(norm, depth):
    layers = [(nn.Conv1d(5 if l == 0 else 6, 6, 3), norm(6), nn.ReLU()) for l in range(depth)]
    net = nn.Sequential(
        *(nn.Sequential(*one) for one in layers),
        nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(6, 3)),
    )
    batch = torch.randn(16, 5, 12), torch.randint(3, (16,))
    taps = [f"{l}" for l in range(depth)]
    assert not diagnose(net, [batch], taps=taps).partial_stream


class Block(nn.Module):
    def __init__(self, *last):
        super().__init__()
        self.layer, self.last = nn.Linear(8, 8), nn.Sequential(*last)

    def forward(self, h):
        return self.last(h + torch.tanh(self.layer(h)))


@pytest.mark.parametrize("behind", [nn.Identity(), nn.ReLU()])
def test_a_last_block_may_run_the_final_norm(behind):
    last = Block(nn.LayerNorm(8), behind)
    net = nn.Sequential(nn.Sequential(Block(), Block(), Block(), last), nn.Linear(8, 3))
    batch = torch.randn(16, 8), torch.randint(3, (16,))
    for taps in ("0.0:in, 0.*", "0.*:in, 1:in"):
        assert FINAL in diagnose(net, [batch], taps=taps).partial_stream
    guessed = diagnose(net, [batch])
    assert guessed.tap_names[-1] == "0.3.last:in" and not guessed.partial_stream


class Bare(Hookable):
    """Logits in an output object, or picked from those of every token."""

    def forward(self, x):
        return {"logits": super().forward(x)[:, :]}


@pytest.mark.parametrize("kind", [Hookable, Bare])
def test_logits_are_no_hidden_state(kind):
    net = kind(Residual(out_ln=True))
    with pytest.raises(TapError, match=r"the last tap, head, gives the logits.*leave it out"):
        diagnose(net, batches(1), taps="embed, blocks.*, out_ln, head")
    assert diagnose(net, batches(1), taps="embed, blocks.*").coverage == "ab"
