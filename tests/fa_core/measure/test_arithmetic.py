"""What a report says of the arithmetic is what ran, and float32 keeps the digits of a converged network's gradients."""

import copy

import pytest
import torch
from torch import nn

from fa_core import diagnose
from fa_core.measure.passes import PassOptions
from fa_core.measure.reference_precision import reference_precision
from fa_core.zoo.models import build
from tests.fa_core.measure.nets import Hookable, Residual, batches

TAPS = "embed, blocks.*"


def converged(confidence, seed):
    """A network whose logits are stretched, and labels that are its own answers: gaps of some `confidence` nats."""
    net = build("resmlp", input_dim=5, d=16, L=2, num_classes=4, seed=seed)
    x = [torch.randn(64, 5, generator=torch.Generator().manual_seed(k)) for k in range(8)]
    with torch.no_grad():
        logits = net(torch.cat(x))
        top = logits.topk(2, dim=1).values
        stretch = confidence / float((top[:, 0] - top[:, 1]).median())
        net.head.weight *= stretch
        net.head.bias *= stretch
    return net, [(part, net(part).argmax(dim=1)) for part in x]


def exactly(net, x, y):
    """Medians of ‖e_T‖ and of ‖g_l‖, in float64 throughout."""
    logits, states = copy.deepcopy(net).double()(x.double(), return_hidden=True)
    error = logits.softmax(dim=1) - nn.functional.one_hot(y, 4)
    gradients = torch.autograd.grad(nn.functional.cross_entropy(logits, y), states)
    medians = [sorted(row.norm(dim=1).tolist())[(len(y) - 1) // 2] for row in (error, *gradients)]
    return medians[0], medians[1:]


@pytest.mark.parametrize("confidence", [1.0, 14.0])
def test_a_converged_network_keeps_its_digits(confidence):
    net, eval_batches = converged(confidence, 0)
    error, gradients = exactly(net, *eval_batches[0])
    report = diagnose(net, eval_batches)
    # e_T follows exp(z): its relative error is the absolute one of float32 logits, a few ulp of the largest
    largest = max(float(net(x).abs().max()) for x, _ in eval_batches)
    rel = 8 * torch.finfo(torch.float32).eps * max(1.0, largest)
    assert rel < 3e-4
    assert report.error_norm == pytest.approx(error, rel=rel)
    assert report.bp_grad_norms == pytest.approx(gradients, rel=rel)
    assert report.headline_acc == 1.0


def test_an_autocast_inside_the_network_is_recorded():
    class Inside(Hookable):
        """As a Trainer leaves it: autocast around the forward, its output brought back."""

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return super().forward(x).float()

    inner = Residual(kind="gelu", out_ln=True)
    expected = diagnose(Hookable(inner), batches(8), taps=TAPS)
    found = diagnose(Inside(inner), batches(8), taps=TAPS)
    assert (expected.dtype, found.dtype) == ("float32", "float32, bfloat16 inside")
    assert "arithmetic: float32, bfloat16 inside" in found.notes
    assert found.residual_norms != pytest.approx(expected.residual_norms, rel=1e-5)


@pytest.mark.parametrize("taps", [None, TAPS])
def test_half_precision_inside_is_recorded(taps):
    class Cast(Residual):
        def readout(self, h):
            return (h.to(torch.float16) @ self.head.weight.T.to(torch.float16)).to(h.dtype)

    for found in (
        diagnose(Cast(), batches(8), taps=taps),
        reference_precision(Cast(), batches(1)[0], PassOptions(taps)),
    ):
        assert found.dtype == "float32, float16 inside"


@pytest.mark.parametrize(
    ("kind", "dtype", "said"),
    [
        (torch.float64, None, "float64"),
        (torch.bfloat16, None, "float32"),
        (torch.bfloat16, "as-is", "bfloat16"),
        (torch.float32, "float64", "float64"),
    ],
)
def test_one_arithmetic_is_one_word(kind, dtype, said):
    net = build("vit_mini", image=8, d=8, num_classes=4, seed=0).to(kind)
    data = [(torch.randn(8, 3, 8, 8), torch.arange(8) % 4)]
    assert diagnose(net, data, dtype=dtype).dtype == said
