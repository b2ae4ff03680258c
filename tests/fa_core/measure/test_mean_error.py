"""The part of (c) that the mean error makes: against Jacobians and sums over pairs."""

import itertools
import math
from statistics import fmean

import pytest
import torch
from msgspec.structs import replace
from torch import nn
from torch.func import jacrev

from fa_core import diagnose
from fa_core.measure.accumulator import MEAN_ERROR_BATCHES
from fa_core.measure.diagnose import run_diagnosis
from fa_core.measure.passes import PassOptions
from fa_core.report.beside import mean_error_remark, mean_error_text
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.provenance import MeanError
from tests.fa_core.measure.nets import ERRORS, Residual, batches, targets

LAYER = 1


def tail(net, h):
    """The logits of one sample from h_1 on."""
    for block in net.blocks[LAYER:]:
        h = block(h)
    return net.readout(h)


def gradients(net, x, y, loss):
    """Σ_i J_iᵀe_i, Σ_i J_iᵀē and ē, one Jacobian per sample."""
    with torch.no_grad():
        logits, hidden = net(x.double(), return_hidden=True)
    error = ERRORS[loss](logits, targets(logits, y))
    mean = error.mean(0)
    jacobians = [jacrev(lambda state: tail(net, state))(h).detach() for h in hidden[LAYER]]
    whole = sum(e @ jacobian for e, jacobian in zip(error, jacobians, strict=True))
    return whole, sum(mean @ jacobian for jacobian in jacobians), mean


def shifted():
    """Batches whose labels are class 2 oftener than the network predicts."""
    return [(x, torch.where(torch.arange(len(y)) % 3 > 0, 2, y)) for x, y in batches(8)]


@pytest.mark.parametrize("loss", ["ce", "bce", "mse"])
def test_the_part_of_the_mean_error_is_that_of_jacobians_and_pairs(loss):
    net = Residual(kind="gelu", out_ln=True).double()
    data = shifted()
    report = diagnose(net, data, loss=loss)
    found = report.mean_error
    assert report.stability_layer == LAYER
    parts = [gradients(net, x, y, loss) for x, y in data]
    all_pairs, of_mean = [], []
    for j, k in itertools.permutations(range(8), 2):
        g_j, v_j, _ = parts[j]
        scaled = parts[k][0] / (g_j.norm() * parts[k][0].norm())
        all_pairs.append(float(g_j @ scaled))
        if j < MEAN_ERROR_BATCHES:
            of_mean.append(float(v_j @ scaled))
    assert report.cross_batch_stability == pytest.approx(fmean(all_pairs), rel=1e-10)
    assert found.cosine == pytest.approx(fmean(of_mean), rel=1e-10)
    mean = torch.stack([mean for _, _, mean in parts]).mean(0)
    assert found.norm == pytest.approx(float(mean.norm()), rel=1e-12)
    assert found.label == int(mean.abs().argmax())
    assert found.excess == pytest.approx(float(mean[found.label]), rel=1e-12)


def test_labels_in_excess_are_named_and_explain_most_of_c():
    report = diagnose(Residual(kind="gelu", out_ln=True), shifted())
    line = report.describe()[2]
    assert "c" in report.by_numbers and "below its share of the labels" in line
    assert "the mean error explains most of it: the mean probability of class 2 is" in line


def test_batches_in_parts_too_few_of_them_and_gradients_without_direction_have_none():
    net = Residual(kind="gelu")
    assert run_diagnosis(net, batches(8), PassOptions(largest_pass=4)).report().mean_error is None
    assert diagnose(net, batches(3)).mean_error is None
    for weight in (0.0, math.nan):
        nn.init.constant_(net.head.weight, weight)
        assert diagnose(net, batches(8)).mean_error is None


@pytest.mark.parametrize(
    ("c", "part", "remark"),
    [
        (
            0.4,
            0.39,
            "the mean error explains most of it: the mean probability of class 3 is 0.15 above",
        ),
        (0.4, 0.19, ""),
        (0.05, 0.05, ""),
        (-0.1, -0.1, ""),
        (None, 0.4, ""),
    ],
)
def test_a_remark_where_it_explains_most_of_c(c, part, remark):
    found = MeanError(cosine=part, norm=0.2, label=3, excess=0.15)
    report = DiagnosticReport(cross_batch_stability=c, mean_error=found)
    text = mean_error_remark(report)
    assert text.startswith(remark) and bool(text) == bool(remark)
    assert not mean_error_remark(replace(report, provenance={"loss": "mse"})), "of probabilities"
    assert mean_error_text(report) == f"{part:+.3f} of it by the mean error (‖ē_T‖ 0.2)"
