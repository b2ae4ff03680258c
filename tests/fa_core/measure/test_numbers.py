"""Norms, cosines, medians, drift and accuracy where float32 shortcuts go wrong."""

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fa_core.measure.accumulator import drift
from fa_core.measure.accuracy import accuracy
from fa_core.measure.gradients import loss_gradient
from fa_core.measure.norms import lower_median, mean_pairwise_cosine, sample_cosines, sample_norms

SCALES = {
    torch.float16: (6e-8, 6e4),
    torch.bfloat16: (1e-30,),
    torch.float32: (1e-44, 1e-30, 1.0, 1e38),
    torch.float64: (1e-310, 1e-200, 1e-100, 1.0, 1e200, 1e308),
}


@pytest.mark.parametrize(("dtype", "scale"), [(d, s) for d, of in SCALES.items() for s in of])
def test_norms_are_exact_at_every_scale(scale, dtype):
    row = torch.tensor([scale, -scale / 2, 0.0], dtype=dtype)
    exact = Fraction(row[0].item()) ** 2 + Fraction(row[1].item()) ** 2
    found = sample_norms(row[None])
    assert found.dtype == torch.float64
    error = abs(Fraction(found.item()) ** 2 / exact - 1)
    assert error < 1e-12 if scale > 1e-309 else error < 1e-3


def test_a_norm_or_median_of_nan_is_nan_and_rows_do_not_touch_each_other():
    rows = [[0.0, 0.0], [1e-200, 0.0], [3.0, 4.0], [math.inf, 1.0], [math.nan, 1.0]]
    found = sample_norms(torch.tensor(rows, dtype=torch.float64)).tolist()
    assert found[:4] == [0.0, 1e-200, 5.0, math.inf] and math.isnan(found[4])
    assert lower_median(torch.tensor([1.0, 2.0])).item() == 1.0
    assert math.isnan(lower_median(torch.tensor([1.0, math.nan, 2.0])))


def test_cosines_are_not_clamped_and_with_nothing_are_nan():
    a, b = torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0, 0.0]])
    for scale in (1e-40, 1e-20, 1.0, 1e30):
        assert sample_cosines(a, b * scale).item() == pytest.approx(0.6, rel=1e-12)
    for bad in (0.0, math.nan, math.inf):
        assert math.isnan(sample_cosines(torch.tensor([[bad, 0.0]]), a).item())


@given(st.integers(2, 12), st.integers(1, 6), st.integers(0, 1000))
def test_mean_pairwise_cosine_equals_the_sum_over_pairs(k, d, seed):
    u = torch.randn(k, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    u = u / u.norm(dim=1, keepdim=True)
    pairs = [float(u[i] @ u[j]) for i in range(k) for j in range(i)]
    assert mean_pairwise_cosine(u).item() == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)


def test_drift_of_tiny_gradients_is_exact_and_with_a_nan_is_nan_and_not_unmeasured():
    opposite = torch.tensor([[1e-200, 0.0], [-1e-200, 0.0]], dtype=torch.float64)
    broken = torch.tensor([[math.nan, 0.0], [0.0, 0.0]], dtype=torch.float64)
    found, nothing = drift(opposite.repeat(4, 1)), drift(broken)
    assert (found.value, found.why) == (pytest.approx(-1 / 7), None)
    assert math.isnan(nothing.value) and nothing.why is None


class Fixed(nn.Module):
    """Logits x·w that float32 rounds to a tie or to the wrong order."""

    def __init__(self, weight):
        super().__init__()
        self.weight = nn.Parameter(torch.as_tensor(weight))

    def forward(self, x):
        return x @ self.weight


def test_a_near_tie_is_decided_in_float64():
    # the logits are (1 ± 1e-9, 1): a tie in float32, which argmax gives to class 0
    net = Fixed(torch.tensor([[1.0, 1.0], [1e-9, 0.0]]))
    above, below = torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, -1.0]])
    assert accuracy(net, [(above, torch.tensor([0]))]) == 1.0
    assert accuracy(net, [(below, torch.tensor([1]))]) == 1.0
    assert net(below).argmax(1).item() == 0


def test_a_tie_goes_to_the_lowest_class_nan_is_wrong_and_every_sample_weighs_the_same():
    ties = torch.ones(3, 2), torch.tensor([0, 1, 2])
    assert accuracy(Fixed(torch.zeros(2, 3)), [ties]) == pytest.approx(1 / 3)
    one_nan = torch.tensor([[math.nan, 0.0], [1.0, 0.0]]), torch.tensor([0, 0])
    assert accuracy(Fixed(torch.eye(2)), [one_nan]) == 0.5
    rows = torch.tensor([[1.0, 0.0]] * 3)
    data = [(rows, torch.zeros(3, dtype=torch.long)), (rows[:1], torch.tensor([1]))]
    assert accuracy(Fixed(torch.eye(2)), data) == 0.75


def test_a_network_that_cannot_run_in_float64_keeps_its_float32_answer():
    net = nn.Sequential(Fixed(torch.ones(2, 2)))
    net.register_forward_pre_hook(lambda _, given: (given[0].float(),))
    assert accuracy(net, [(torch.ones(1, 2), torch.tensor([0]))]) == 1.0


def softmax_minus_onehot(logits, label):
    """120 decimal digits, entry by entry."""
    getcontext().prec = 120
    powers = [Decimal(z).exp() for z in logits]
    return [power / sum(powers) - (c == label) for c, power in enumerate(powers)]


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("gap", [0.0, 3.0, 17.0, 40.0, 100.0])
def test_the_output_error_keeps_its_digits_where_a_sample_is_nearly_certain(kind, gap):
    logits = torch.tensor([[gap, 0.125, -2.0], [0.0, gap, 0.5]], dtype=kind)
    found = loss_gradient(logits, torch.tensor([0, 2]))[1]
    assert found.dtype == torch.float64
    for row, z, label in zip(found.tolist(), logits.tolist(), [0, 2], strict=True):
        assert row == pytest.approx(
            [float(value) for value in softmax_minus_onehot(z, label)], rel=1e-13, abs=0
        )


def test_the_output_error_of_what_is_not_finite_is_nan():
    logits = torch.tensor([[math.nan, 0.0], [math.inf, 0.0], [1.0, 0.0]])
    found = loss_gradient(logits, torch.tensor([0, 0, 1]))[1]
    assert found.isnan().any(dim=1).tolist() == [True, True, False]
