"""Scale without units, beside (a): against norms that are written down, and against loops."""

import math

import pytest
from torch import nn

from fa_core import diagnose
from fa_core.report.beside import scale_numbers, scale_text, stream_scale
from fa_core.report.diagnostic_report import DiagnosticReport
from tests.fa_core.measure.nets import Residual, batches


def test_a_stream_that_is_not_finite_or_has_one_state_has_no_scale():
    net = Residual()
    nn.init.constant_(net.blocks[1].f.weight, math.inf)
    report = diagnose(net, batches(1))
    assert report.flags >= {"a"}
    assert scale_text(report) == "" and "inf" not in "; ".join(scale_numbers(report))
    alone = diagnose(nn.Sequential(nn.Identity(), nn.Linear(5, 4)), batches(1), taps="0")
    assert scale_numbers(alone) == [] and scale_text(alone) == ""


@pytest.mark.parametrize(
    ("norms", "text"),
    [
        ([0.02, 3.0, 4.0], "only block 0→1 is over the limit, from ‖h_0‖ 0.02"),
        ([20.0, 3000.0, 4000.0], ""),
        ([0.02, 3.0, 400.0], ""),
        ([1.0, 45.0, 2025.0], "‖h_L‖ is 2025·‖h_0‖, a smooth explosion: over the limit in all"),
        ([1.0, 40.0, 80.0], "‖h_L‖ is 80·‖h_0‖: over the limit in all, no one block is"),
        ([1.0, 0.1, 0.01], "‖h_L‖ is 0.01·‖h_0‖: a vanishing stream, which does not fire"),
        ([1.0, 1.1, 1.2], ""),
        ([1.0, 2.0], ""),
        ([], ""),
        ([1.0, math.nan, 2.0], ""),
        ([1.0, 0.0, 0.0], ""),
    ],
)
def test_what_the_largest_growth_does_not_show(norms, text):
    found = scale_text(DiagnosticReport(residual_norms=norms))
    assert found.startswith(text) and bool(found) == bool(text)


def test_the_largest_block_the_deep_growth_and_the_total_stand_beside_a():
    report = DiagnosticReport(residual_norms=[2.0, 3.0, 12.0])
    line = report.describe()[0]
    assert line == (
        "(a) passes: growth per block 4 (limit 50); largest in block 1→2; 4 over l ≥ 1; "
        "‖h_L‖/‖h_0‖ 6"
    )
    assert "largest in block 1→2" in report._repr_html_()


@pytest.mark.parametrize(("g", "named"), [(1e-2, True), (1e-5, False), (None, False)])
def test_an_embedding_is_called_small_where_the_gain_is_healthy(g, named):
    gradients = [] if g is None else [g] * 3
    facts = {"bp_grad_norms": gradients, "batch_size": 128, "error_norm": 0.9}
    report = DiagnosticReport(residual_norms=[0.02, 3.0, 4.0], **facts)
    assert ("a small embedding (γ_L 1.4 is healthy)" in scale_text(report)) == named


def test_the_scale_of_a_stream_is_free_of_its_unit():
    norms = [2.0, 3.0, 12.0]
    for unit in (1e-12, 1e12):
        scaled = stream_scale([norm * unit for norm in norms])
        assert scaled == pytest.approx(stream_scale(norms), rel=1e-12)
