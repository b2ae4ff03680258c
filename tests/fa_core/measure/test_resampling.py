from __future__ import annotations

import math

import pytest
import torch
from msgspec.structs import replace

from fa_core import diagnose
from fa_core.errors import UsageError
from fa_core.judgement.confidence import Confidence, confidence
from fa_core.measure.diagnosis import Samples
from fa_core.measure.resampling import bootstrap, resampled_drift
from fa_core.report import DiagnosticReport
from tests.fa_core.measure.nets import Residual, batches, diagnose_resampled


def samples(h: torch.Tensor, k: int = 1) -> Samples:
    """(L+1, n) norms used for h and g, k batches all right, orthogonal mean gradients."""
    return Samples(
        [h], [h], [h[0]], [torch.ones(4, dtype=torch.bool)] * k, torch.eye(k, dtype=torch.float64)
    )


def report_of(h: torch.Tensor, **given: object) -> DiagnosticReport:
    medians = h.median(dim=1).values.tolist()
    return DiagnosticReport(residual_norms=medians, bp_grad_norms=medians, **given)


def judged(report: DiagnosticReport) -> Confidence:
    found = confidence(report)
    assert found is not None
    return found


def resampled(h: torch.Tensor, resamples: int) -> Confidence:
    report = report_of(h)
    return judged(replace(report, resampling=bootstrap(samples(h), report, resamples)))


def test_the_report_is_that_of_diagnose_with_resamples_beside_it() -> None:
    torch.manual_seed(0)
    net = Residual(kind="gelu")
    report = diagnose_resampled(net, batches(8), frozen_baseline_acc=0.1, resamples=3)
    assert replace(report, resampling=None) == diagnose(net, batches(8), frozen_baseline_acc=0.1)
    assert report.resampling is not None and len(report.resampling) == 3


def test_samples_without_spread_have_intervals_without_width() -> None:
    h = torch.tensor([[1.0] * 8, [3.0] * 8], dtype=torch.float64)
    found = resampled(h, 50)
    assert found.intervals["growth"] == (3.0, 3.0)
    assert found.intervals["g_L"] == (3.0, 3.0)
    assert found.same_verdict == 1.0
    assert found.fired == {"a": 0.0, "b": 0.0}


def test_a_coin_flip_verdict_shows_as_one() -> None:
    # growth is 40 for 5 of 9 samples and 60 for 4: the median of a resample is 60 where at least 5 of 9 draws are
    h = torch.stack([torch.ones(9), torch.tensor([40.0] * 5 + [60.0] * 4)]).double()
    found = resampled(h, 4000)
    exact = sum(math.comb(9, k) * (4 / 9) ** k * (5 / 9) ** (9 - k) for k in range(5, 10))
    assert found.fired["a"] == pytest.approx(exact, abs=0.03)
    assert found.same_verdict == pytest.approx(1 - exact, abs=0.03)
    assert found.intervals["growth"] == (40.0, 60.0)


@pytest.mark.parametrize(("k", "size"), [(1, 400), (8, 50)])
def test_the_accuracy_interval_is_binomial_over_all_samples_however_they_are_batched(
    k: int, size: int
) -> None:
    torch.manual_seed(0)
    report = diagnose_resampled(
        Residual(), batches(k, size=size), resamples=2000, frozen_baseline_acc=0.2
    )
    found, acc = judged(report), report.headline_acc
    assert acc is not None
    low, high = found.intervals["acc"]
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(acc * (1 - acc) / 400), rel=0.15)
    assert found.intervals["margin_pp"] == pytest.approx(
        (100 * (low - 0.2), 100 * (high - 0.2)), abs=1e-6
    )


def test_a_given_accuracy_is_not_resampled() -> None:
    report = diagnose_resampled(
        Residual(), batches(2), headline_acc=0.5, resamples=20, frozen_baseline_acc=0.1
    )
    assert set(judged(report).intervals) == {"growth", "g_L"}
    assert set(judged(report).fired) == {"a", "b"}


def test_an_accuracy_of_other_samples_is_resampled_over_those() -> None:
    h = torch.tensor([[1.0] * 8, [3.0] * 8], dtype=torch.float64)
    report = report_of(h, headline_acc=0.6)
    drawn = bootstrap(samples(h), report, resamples=2000, counted_on=10_000)
    assert all(acc * 10_000 == pytest.approx(round(acc * 10_000)) for acc in drawn.headline_acc)
    low, high = judged(replace(report, resampling=drawn)).intervals["acc"]
    assert (low + high) / 2 == pytest.approx(0.6, abs=2e-3)
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.24 / 10_000), rel=0.15)


def test_a_batch_drawn_twice_is_not_its_own_drift() -> None:
    values = resampled_drift(
        torch.eye(8, dtype=torch.float64), 200, torch.Generator().manual_seed(0)
    )
    assert values == [0.0] * 200


def test_resampled_drift_centres_on_the_measured_one() -> None:
    torch.manual_seed(0)
    u = torch.nn.functional.normalize(torch.randn(10, 4, dtype=torch.float64) + 0.5)
    cosines = u @ u.T
    measured = float((cosines.sum() - 10) / 90)
    values = resampled_drift(cosines, 4000, torch.Generator().manual_seed(1))
    assert sum(values) / 4000 == pytest.approx(measured, abs=0.01)


def test_what_was_not_measured_has_no_interval() -> None:
    found = judged(diagnose_resampled(Residual(), batches(3), resamples=10))
    assert set(found.intervals) == {"growth", "g_L", "acc"}
    assert set(found.fired) == {"a", "b"}


def test_a_non_finite_network_never_resamples_into_trustworthy() -> None:
    net = Residual()
    with torch.no_grad():
        net.blocks[0].f.weight.fill_(math.nan)
    report = diagnose_resampled(net, batches(8), resamples=20)
    found = judged(report)
    assert found.same_verdict == 1.0
    assert math.isnan(found.intervals["growth"][0])


def test_one_sample_and_one_layer_resample_to_themselves() -> None:
    x, y = batches(1)[0]
    found = judged(diagnose_resampled(Residual(depth=0), [(x[:1], y[:1])], resamples=5))
    low, high = found.intervals["g_L"]
    assert low == high
    assert "growth" not in found.intervals


def test_the_same_seed_gives_the_same_shares() -> None:
    net = Residual()
    one, other = (
        diagnose_resampled(net, batches(8), resamples=30, seed=4).resampling for _ in range(2)
    )
    assert one == other


def test_less_than_one_resample_is_refused() -> None:
    with pytest.raises(UsageError, match="0 resamples"):
        diagnose_resampled(Residual(), batches(1), resamples=0)
