import math

import pytest
import torch
from msgspec.structs import replace
from torch import nn

from fa_core import diagnose, load_audits
from fa_core.measure.passes import PassOptions
from fa_core.measure.reference_precision import reference_precision
from fa_core.report.beside import cause_of_floor, failure_mode, floor_text
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.provenance import ReferencePrecision
from tests.fa_core.measure.nets import Residual, batches


def test_a_healthy_network_has_the_right_reference_and_half_precision_has_not():
    batch = batches(1)[0]
    found = reference_precision(Residual(kind="gelu", out_ln=True), batch)
    assert found.is_exact and all(1 - 1e-9 < cosine <= 1 for cosine in found.worst)
    assert found.norm_ratio == pytest.approx([1.0] * 4, rel=1e-5)
    assert found.lost == [0] * 4
    for half in (torch.float16, torch.bfloat16):
        found = reference_precision(
            Residual(kind="gelu").to(half), batch, PassOptions(dtype="as-is")
        )
        assert all(0.99 < cosine < 1 - 1e-9 for cosine in found.cosine)
    assert not found.is_exact


def test_a_gradient_that_float32_flushes_is_counted_as_lost():
    net = Residual()
    with torch.no_grad():
        net.head.weight.fill_(1e-40)
        net.head.weight[0] = 3e-40
        for block in net.blocks:
            block.f.weight.copy_(torch.eye(6) * (2.0**-20 - 1))
    found = reference_precision(net, batches(1)[0])
    assert found.lost[0] == found.samples == 16
    assert found.cosine[0] is None
    assert found.norm_ratio[0] == 0.0


def cancelled():
    """A stream of 1e9 behind a norm, and one batch."""
    norm = nn.LayerNorm(4, elementwise_affine=False)
    net = nn.Sequential(nn.Identity(), norm, nn.Linear(4, 4, bias=False))
    return net, [(1e9 * torch.randn(16, 4), torch.randint(4, (16,)))]


def test_the_reference_is_checked_where_b_fires_or_on_request():
    net, data = cancelled()
    report = diagnose(net, data, taps="0")
    assert report.flags == {"b"} and report.reference_precision is not None
    assert "none lost): the gradient is small, not noise" in str(report)
    assert diagnose(net, data, taps="0", precision=False).reference_precision is None
    assert diagnose(Residual(), batches(1)).reference_precision is None
    asked = diagnose(Residual(), batches(1), precision=True)
    assert "the reference is exact (cosine 1.000000, none lost)" in asked.describe()[1]


def test_a_reference_that_cannot_be_checked_has_a_reason():
    class Casting(nn.Linear):
        def forward(self, x):
            return super().forward(x.float())

    net = nn.Sequential(nn.Identity(), nn.LayerNorm(5), Casting(5, 4))
    found = diagnose(net, [(1e9 * x, y) for x, y in batches(1)], taps="0")
    assert found.flags == {"b"} and found.reference_precision is None
    assert "the network failed" in found.unmeasured["reference_precision"]


@pytest.mark.parametrize(
    ("worst", "lost", "text"),
    [
        ([None, None], [128, 128], "not exact (lost on 128 of 128 samples)"),
        ([0.5, math.nan], [0, 0], "not exact (cosine with float64 nan at worst)"),
        ([None, None], [0, 0], "every gradient is 0, in float64 too"),
        ([1.0, 1 - 4e-7], [0, 0], "is exact (cosine 1.000000, none lost)"),
        ([1.0, 1 - 6e-7], [0, 0], "not exact (cosine with float64 0.999999 at worst)"),
    ],
)
def test_the_line_beside_b(worst, lost, text):
    found = ReferencePrecision(
        cosine=worst, worst=worst, norm_ratio=[1.0, 1.0], lost=lost, samples=128
    )
    report = DiagnosticReport(bp_grad_norms=[1e-3, 1e-3], reference_precision=found)
    assert text in report.describe()[1]


def test_a_converged_network_is_told_from_a_cancelled_one():
    converged = nn.Sequential(nn.Identity(), nn.Linear(4, 4, bias=False)).double()
    converged[1].weight.data = 30 * torch.eye(4, dtype=torch.float64)
    for (net, data), cause in (
        ((converged, [(torch.eye(4), torch.arange(4))]), "converged"),
        (cancelled(), "cancelled"),
    ):
        report = diagnose(net, data, taps="0")
        assert report.flags == {"b"} and cause_of_floor(report) == cause
        assert floor_text(report).startswith(f"{cause} (γ_L ")


@pytest.mark.parametrize(
    ("g", "error", "cause"),
    [
        (1e-9, 1e-3, "both"),
        (5e-8, 1e-5, "converged"),
        (9e-8, 0.011, "undetermined"),
        (1e-9, 0.9, "cancelled"),
        (1e-3, 0.9, None),
    ],
)
def test_causes_of_a_fired_b(g, error, cause):
    report = DiagnosticReport(bp_grad_norms=[g], batch_size=128, error_norm=error)
    assert cause_of_floor(report) == cause
    assert cause_of_floor(replace(report, method_name="frozen")) is None


def test_no_error_at_all_is_converged_and_one_that_is_not_known_undetermined():
    report = DiagnosticReport(bp_grad_norms=[0.0, 0.0], batch_size=128, error_norm=0.0)
    assert floor_text(report) == "converged (γ_L N/A, ‖e_T‖ 0)"
    report = DiagnosticReport(bp_grad_norms=[1e-9])
    assert floor_text(report) == "undetermined (B and ‖e_T‖ not recorded)"


def test_an_error_that_is_gone_in_an_exploded_stream_is_saturation():
    report = DiagnosticReport("", "", [1.0, 1e3], [5e-8, 5e-8], batch_size=128, error_norm=1e-5)
    assert cause_of_floor(report) == "saturated"
    assert failure_mode(report) == "scale failure"
    assert "cause of (b): saturated (γ_L 0.64, ‖e_T‖ 1e-5)\n  cause: scale failure" in str(report)


@pytest.mark.parametrize(
    ("growth", "g", "cosine", "error", "acc", "mode"),
    [
        (1.0, 1e-3, 0.05, 0.9, 0.5, ""),
        (400.0, 1e-9, 0.992, 0.9, 0.3, "scale failure; drift"),
        (400.0, 1e-9, 0.2, 0.9, 0.3, "scale failure; neither drift nor noise"),
        (400.0, 1e-9, None, 0.9, 0.3, "scale failure"),
        (1.0, 1e-9, 0.0, 0.9, 0.5, "scale failure; noise"),
        (1.0, 5e-8, 0.0, 1e-5, 0.99, "noise"),
        (1.0, 1e-3, 0.05, 0.9, 0.36, "depth unused"),
        (None, 1e-3, 0.05, 0.9, 0.36, ""),
        (math.inf, 1e-3, 0.05, 0.9, 0.5, "scale failure"),
    ],
)
def test_failures_of_scale_and_direction_and_what_c_says_of_the_gradient(
    growth, g, cosine, error, acc, mode
):
    norms = [] if growth is None else [1.0, growth]
    facts = {"batch_size": 128, "error_norm": error, "cross_batch_stability": cosine}
    report = DiagnosticReport(
        "", "", norms, [g], headline_acc=acc, frozen_baseline_acc=0.349, **facts
    )
    assert failure_mode(report) == mode


NULL = {"deep_gamma_mean": 0.0, "deep_gamma_std": 0.02, "draws": 200}


@pytest.mark.parametrize(
    ("method", "deep", "null", "mode"),
    [
        ("dfa", 0.01, NULL, "direction failure"),
        ("dfa", 0.50, NULL, "depth unused"),
        ("dfa", 0.01, None, "depth unused"),
        ("BP", 0.01, NULL, "depth unused"),
        ("random_targets", 0.01, NULL, ""),
    ],
)
def test_a_direction_fails_only_where_the_credit_is_within_its_drawn_null(method, deep, null, mode):
    credit = {"gamma": [0.9, deep, deep], "free_layers": [], "null": null}
    facts = {
        "credit": credit,
        "provenance": {"arch_args": {"d": 64}, "classes": 10},
        "frozen_baseline_acc": 0.349,
    }
    report = DiagnosticReport(method, "", [1.0, 1.1, 1.2], [1e-3] * 3, headline_acc=0.35, **facts)
    assert failure_mode(report) == mode


def test_the_published_collapses_are_failures_of_scale_by_drift_or_noise(sample_runs):
    rows = load_audits(sample_runs / "audit_table_s42_s123_s456.json").rows()
    found = {row.key: failure_mode(row.report) for row in rows}
    healthy = {key for key, mode in found.items() if not mode}
    assert healthy == {f"{m}_s{s}" for m in ("bp", "ep") for s in (42, 123, 456)}
    drifts = {key for key, mode in found.items() if mode == "scale failure; drift"}
    assert len(drifts) == 5 and {"state_bridge_s42", "credit_bridge_s42"} <= drifts
