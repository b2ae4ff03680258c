"""Gradients of other losses than cross entropy, and outputs that are probabilities."""

from statistics import fmean

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fa_core import diagnose
from fa_core.errors import MeasureError, UsageError
from fa_core.measure.credit import credit_quality, own_credit_quality
from fa_core.measure.loss import are_probabilities, settled
from fa_core.measure.passes import PassOptions
from fa_core.measure.reference_precision import reference_precision
from tests.fa_core.measure.nets import ERRORS, Hookable, Residual, Turned, batches, targets

DATA = batches(8)


class Squashed(Residual):
    """A network whose outputs are probabilities."""

    def __init__(self, squash=torch.sigmoid, **options):
        super().__init__(**options)
        self.squash = squash

    def readout(self, h):
        return self.squash(super().readout(h))


def quartic(z, y):
    return ((z - targets(z, y)) ** 4).sum(1) / 4


CASES = {
    "ce": (Residual, "ce", nn.CrossEntropyLoss()),
    "bce": (Residual, "bce", nn.BCEWithLogitsLoss()),
    "bce of probabilities": (Squashed, "bce", nn.BCELoss()),
    "mse": (Residual, "mse", nn.MSELoss()),
    "a function": (Residual, quartic, lambda z, t: ((z - t) ** 4).sum(1).mean() / 4),
}
"""Name → network, loss, and what its user trained with."""


@pytest.mark.parametrize(("name", "case"), CASES.items())
def test_norms_and_drift_are_those_of_the_criterion_in_training(name, case):
    make, loss, criterion = case
    net = make().double()
    report = diagnose(net, DATA, loss=loss)
    means, e_norms = [], []
    for x, y in DATA:
        outputs, hidden = net(x.double(), return_hidden=True)
        t = y if name == "ce" else targets(outputs, y)
        gradients = torch.autograd.grad(criterion(outputs, t), hidden)
        means.append(gradients[report.stability_layer].mean(0))
        e_norms.append(ERRORS[name](outputs.detach(), targets(outputs, y)).norm(dim=1).median())
        if len(means) == 1:
            norms = [float(g.norm(dim=1).median()) for g in gradients]
    assert report.bp_grad_norms == pytest.approx(norms, rel=1e-12)
    assert report.error_norm == pytest.approx(float(e_norms[0]), rel=1e-12)
    units = F.normalize(torch.stack(means))
    pairs = [float(units[j] @ units[k]) for j in range(8) for k in range(j)]
    assert report.cross_batch_stability == pytest.approx(fmean(pairs), rel=1e-10)
    if name == "ce":
        assert "loss" not in report.provenance and report.loss == "ce"
    else:
        recorded = f"{__name__}:quartic" if name == "a function" else name
        assert report.loss == report.provenance["loss"] == recorded
        assert f"gradients are of {recorded}: (b) is in its unit" in report.notes


@pytest.mark.parametrize("name", CASES)
def test_e_t_is_the_derivative_by_differences(name):
    _, loss, _ = CASES[name]
    draws = torch.Generator().manual_seed(1)
    z = torch.rand(16, 4, generator=draws, dtype=torch.float64) * 0.8 + 0.1
    if name != "bce of probabilities":
        z = 10 * z - 5
    y = torch.arange(16) % 4
    chosen = settled(loss, z, y)
    steps = 1e-6 * torch.eye(4, dtype=torch.float64)[:, None]
    differences = chosen.change(z, z + steps, y) - chosen.change(z, z - steps, y)
    assert torch.allclose(chosen.error(z, y), differences.T / 2e-6, rtol=1e-6, atol=1e-8)


def test_probabilities_and_their_logits_have_one_gradient():
    net = Squashed()
    of_probabilities = diagnose(net, DATA, loss="bce")
    of_logits = diagnose(net, DATA, loss="bce", logits=torch.logit)
    assert of_logits.loss == "bce"
    assert of_probabilities.bp_grad_norms == pytest.approx(of_logits.bp_grad_norms, rel=1e-4)
    as_ce = diagnose(Squashed(lambda z: z.softmax(1)), DATA, loss="ce", logits=torch.log)
    assert as_ce.loss == "ce" and "probabilities" not in as_ce.notes


def test_the_digits_of_certain_outputs_are_kept():
    z = torch.tensor([[60.0, -60.0]])
    error = settled("bce", z, torch.tensor([0])).error(z, torch.tensor([0]))
    assert error.tolist() == [pytest.approx([-4.37825e-27, 4.37825e-27], rel=1e-5)]


def test_an_output_of_zero_for_its_label_has_no_gradient_and_is_said():
    p = torch.tensor([[0.0, 0.5], [1.0, 1.0]]).repeat(8, 1)
    y = torch.zeros(16, dtype=torch.int64)
    loss = settled("bce", p, y)
    assert "in 16 of the first 16 samples an output is 0 or 1 against its label" in loss.note
    assert loss.error(p, y)[:2].tolist() == [[0.0, 1.0], [-0.5, 0.0]]


PROBABLE = torch.rand(64, 10, generator=torch.Generator().manual_seed(0))
LOGITS = torch.randn(64, 10, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (PROBABLE, True),
        (PROBABLE[:, :2], True),
        (LOGITS.softmax(1), True),
        (LOGITS.half().softmax(1), True),
        (LOGITS.bfloat16().softmax(1), True),
        (LOGITS[:1].softmax(1), True),
        (PROBABLE[:1], True),
        (PROBABLE.view(8, 8, 10), True),
        (torch.sigmoid(LOGITS[:, :2].clone().requires_grad_() / 9), True),
        (LOGITS - LOGITS.mean(1, keepdim=True) + 0.1, True),
        (LOGITS, False),
        (1e12 * (LOGITS - LOGITS.mean(1, keepdim=True)), False),
        (LOGITS.bfloat16(), False),
        (LOGITS.log_softmax(1), False),
        (torch.zeros(64, 10), False),
        (torch.full((64, 10), 0.1), False),
        (torch.zeros(1, 2), False),
        (torch.tensor([[0.2, 0.4]]), False),
        (0.2 + PROBABLE[:, :2] / 10, False),
        (torch.full((64, 10), torch.nan), False),
        (torch.full((64, 10), torch.inf), False),
    ],
)
def test_outputs_are_probabilities_by_their_sums_or_the_interval(outputs, expected):
    assert are_probabilities(outputs) is expected


@pytest.mark.parametrize(
    ("squash", "said"),
    [
        (torch.sigmoid, r"the outputs lie in \[0, 1\] as probabilities do"),
        (lambda z: z.softmax(1), r"lie in \[0, 1\].*loss=\"bce\" or \"mse\".*logits="),
        (lambda z: z - z.mean(1, keepdim=True) + 0.25, "the outputs sum to 1 as probabilities do"),
    ],
)
def test_probabilities_are_refused_until_the_loss_or_the_logits_are_named(squash, said):
    net = Squashed(squash)
    with pytest.raises(MeasureError, match=said):
        diagnose(net, DATA)
    for named in ({"loss": "bce"}, {"loss": "mse"}, {"logits": lambda z: z}):
        if "bce" not in named.values() or "lie" in said:
            assert diagnose(net, DATA, **named).coverage == "abc"


def test_logits_that_may_be_probabilities_are_said():
    net = Residual(classes=2)
    nn.init.zeros_(net.head.weight)
    assert "[0, 1]" not in diagnose(net, batches(8, classes=2)).notes
    net.head.bias = nn.Parameter(torch.tensor([0.1, 0.2]))
    notes = diagnose(net, batches(8, classes=2)).notes
    assert "the outputs of the first batch lie in [0, 1] and are taken for logits" in notes


def test_a_function_may_write_into_its_arguments():
    def writing(z, y):
        z -= targets(z, y)
        y += 1
        return z.square().sum(1)

    def plain(z, y):
        return (z - targets(z, y)).square().sum(1)

    net = Residual()
    expected, wrote = (diagnose(net, DATA, loss=loss) for loss in (plain, writing))
    assert wrote.bp_grad_norms == expected.bp_grad_norms
    assert wrote.headline_acc == expected.headline_acc


def unlinked(z, y):
    return z.detach().sum(1)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        ("bcee", "unknown loss 'bcee'; did you mean bce"),
        (None, "unknown loss 'None'"),
        (F.cross_entropy, r"cross_entropy returned a float32 tensor of shape \(\) for 16 samples"),
        (lambda z, y: z, r"returned a float32 tensor of shape \(16, 4\) .*reduction=\"none\""),
        (lambda z, y: z.mean(0).repeat(4), "another value in its batch than alone|returned"),
        (lambda z, y: z.sum(1) - z.sum(), "another value in its batch than alone"),
        (lambda z, y: z.sum(1) / 0, "not finite for sample 0"),
        (lambda z, y: (z * 0).sqrt().sum(1), "its derivative is not finite for sample 0"),
        (unlinked, "unlinked has no gradient"),
        (lambda z, y: z @ z, "failed on a float32 tensor"),
    ],
)
def test_what_is_no_loss_per_sample_is_refused_in_one_line(loss, said):
    with pytest.raises((MeasureError, UsageError), match=said):
        diagnose(Residual(), DATA, loss=loss)


def test_later_outputs_outside_the_interval_and_labels_per_token_are_refused():
    net = Squashed(lambda z: z.sigmoid() if z.abs().max() < 50 else z)
    with pytest.raises(MeasureError, match=r"outputs outside \[0, 1\], after a batch of prob"):
        diagnose(net, [*DATA, (1e3 * DATA[0][0], DATA[0][1])], loss="bce")
    token = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.Linear(4, 3))
    ids = torch.arange(20).view(4, 5) % 5
    with pytest.raises(MeasureError, match=r"the loss mse and labels of shape \(4, 5\)"):
        diagnose(token, [(ids, ids % 3)], taps="0,1", loss="mse")


@pytest.mark.parametrize("loss", ["bce", "mse", quartic])
def test_credit_and_precision_are_by_the_same_loss(loss):
    net, taps = Residual(kind="gelu"), "embed, blocks.*"
    x, y = DATA[0]
    outputs, hidden = net(x, return_hidden=True)
    chosen = settled(loss, outputs, y)
    gradients = torch.autograd.grad(outputs, hidden, chosen.error(outputs, y).float())
    found = credit_quality(Hookable(net), gradients, (x, y), PassOptions(taps, loss=loss))
    assert found["gamma"] == pytest.approx([1.0] * 4, abs=1e-6)
    assert min(found["rho"]) > 0.999 and max(found["nudge"]) < 0
    other = credit_quality(net, gradients, (x, y))
    assert other["gamma"][-1] < 0.99
    assert min(reference_precision(net, DATA[0], PassOptions(loss=loss)).cosine) > 1 - 1e-6


def test_own_credit_is_compared_with_the_gradient_of_the_loss():
    net = Residual()
    net.blocks[2].register_forward_hook(lambda module, given, output: Turned.apply(output))
    report = diagnose(net, DATA, loss="mse")
    of_mse = own_credit_quality(net, DATA[0], PassOptions(loss="mse"), 0)["gamma"]
    assert report.credit["gamma"] == pytest.approx(of_mse, abs=1e-6)
    of_ce = own_credit_quality(net, DATA[0], PassOptions(), 0)["gamma"]
    assert report.loss == "mse" and of_mse != of_ce
