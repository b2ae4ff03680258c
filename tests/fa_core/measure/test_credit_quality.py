from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fa_core.errors import MeasureError, UsageError
from fa_core.measure.credit import credit_quality, method_credit_quality
from fa_core.measure.credit_metrics import ce_change, pearson, rho
from fa_core.measure.norms import gamma, mean_over
from fa_core.measure.null_gamma import NullGamma, null_gamma, oriented
from fa_core.methods import Method, make_method
from fa_core.models import build
from tests.fa_core.measure.nets import Hookable, Residual, Tokens, batches


class Tailed(Residual):
    def tail(self, l: int, h: Tensor) -> Tensor:
        for block in self.blocks[l:]:
            h = block(h)
        return self.readout(h)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def gradients(net: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    logits, hidden = net(x, return_hidden=True)
    return list(torch.autograd.grad(F.cross_entropy(logits, y, reduction="sum"), hidden))


def collapsed(scale: float = 7e5) -> Tailed:
    net = Tailed(width=32, kind="gelu", out_ln=True)
    with torch.no_grad():
        net.blocks[0].f[3].weight.mul_(scale)
        net.blocks[0].f[3].bias.mul_(scale)
    return net


@pytest.mark.parametrize(
    "make",
    [lambda: Tailed(width=32, kind="gelu", out_ln=True), collapsed],
    ids=["init", "collapsed"],
)
def test_the_gradient_itself_is_perfect_credit(make: type[Tailed]) -> None:
    net = make().double()
    x, y = batches(1, size=32)[0]
    found = credit_quality(net, gradients(net, x.double(), y), x, y)
    assert found.gamma == pytest.approx([1.0] * 4, abs=1e-12)
    assert found.rho_relative == pytest.approx([1.0] * 4, abs=5e-3)
    assert found.rho == pytest.approx([1.0] * 4, abs=5e-3)
    assert [change < 0 for change in found.nudge_relative] == [True] * 4
    assert found.deep() == pytest.approx(1.0)
    assert found.to_dict()["gamma_L"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "make",
    [lambda: Tailed(width=32, kind="gelu", out_ln=True), collapsed],
    ids=["init", "collapsed"],
)
def test_a_random_vector_is_no_credit(make: type[Tailed]) -> None:
    net = make()
    x, y = batches(1, size=128)[0]
    found = credit_quality(net, [torch.randn(128, 32) for _ in range(4)], x, y)
    for series in (found.gamma, found.rho, found.rho_relative):
        assert all(abs(value) < 0.06 for value in series)


def test_the_opposite_of_the_gradient_raises_the_loss() -> None:
    net = Tailed(kind="gelu").double()
    x, y = batches(1)[0]
    found = credit_quality(net, [-g for g in gradients(net, x.double(), y)], x, y)
    assert found.gamma == pytest.approx([-1.0] * 4)
    assert found.rho == pytest.approx([-1.0] * 4, abs=1e-3)
    assert [change < 0 for change in found.nudge_relative] == [False] * 4


def test_every_number_equals_the_slow_way() -> None:
    """One direction, one sample at a time, by subtracting two cross entropies."""
    net = Tailed(kind="gelu", out_ln=True).double()
    x, y = batches(1, size=5)[0]
    x = x.double()
    credit = [torch.randn(5, 6, dtype=torch.float64) for _ in range(4)]
    found = credit_quality(net, credit, x, y, directions=7, seed=3)
    hidden = net(x, return_hidden=True)[1]
    generator = torch.Generator().manual_seed(3)
    for l, (a, h, g) in enumerate(zip(credit, hidden, gradients(net, x, y), strict=True)):
        v = torch.randn(7, 5, 6, generator=generator, dtype=torch.float64)
        correlations: dict[float, list[float]] = {0.0: [], 1e-3: [], 0.1: []}
        nudges: dict[bool, list[float]] = {False: [], True: []}
        cosines = []
        for i, relative in itertools.product(range(5), correlations):
            size = float(h[i].detach().norm()) if relative else 1.0

            def ce(state: Tensor, i: int = i, l: int = l) -> float:
                with torch.no_grad():
                    return float(F.cross_entropy(net.tail(l, state[None]), y[i : i + 1]))

            steps = [(relative or 1e-3) * size * v[m, i] / v[m, i].norm() for m in range(7)]
            pairs = torch.tensor(
                [[float(a[i] @ s), ce(h[i] + s) - ce(h[i])] for s in steps], dtype=torch.float64
            )
            correlations[relative].append(float(torch.corrcoef(pairs.T)[0, 1]))
            nudges[bool(relative)].append(ce(h[i] - 0.01 * size * a[i] / a[i].norm()) - ce(h[i]))
            cosines.append(float(a[i] @ g[i] / a[i].norm() / g[i].norm()))
        assert found.gamma[l] == pytest.approx(sum(cosines) / 15, abs=1e-12)
        assert found.rho[l] == pytest.approx(sum(correlations[0.0]) / 5, abs=1e-7)
        assert found.rho_relative[l] == pytest.approx(sum(correlations[1e-3]) / 5, abs=1e-7)
        assert found.rho_finite[l] == pytest.approx(sum(correlations[0.1]) / 5, abs=1e-9)
        assert found.nudge[l] == pytest.approx(sum(nudges[False]) / 5, abs=1e-10)
        assert found.nudge_relative[l] == pytest.approx(sum(nudges[True]) / 10, abs=1e-10)


class Straight(nn.Module):
    """h_0 = x, and two logits (w·h, 0): the loss is softplus(∓w·h), curved along w alone."""

    def __init__(self, w: Tensor) -> None:
        super().__init__()
        self.w = nn.Parameter(w)

    def tail(self, l: int, h: Tensor) -> Tensor:
        return torch.stack([h @ self.w, torch.zeros(len(h)).to(h)], dim=1)

    def forward(self, x: Tensor, return_hidden: bool = False) -> tuple[Tensor, list[Tensor]]:
        h = x + 0 * self.w
        return self.tail(0, h), [h]


def test_rho_estimates_gamma_at_small_steps_and_shows_curvature_at_finite_ones() -> None:
    width, steepness = 6, 40.0
    w = torch.zeros(width, dtype=torch.float64)
    w[0] = steepness
    x = torch.zeros(4, width, dtype=torch.float64)
    x[:, 1] = 1.0  # ‖h‖ = 1, w·h = 0
    y = torch.zeros(4, dtype=torch.long)
    slanted = torch.zeros_like(x)
    slanted[:, 0], slanted[:, 2] = -0.6, 0.8
    found = credit_quality(Straight(w), [slanted], x, y, directions=2000)
    assert found.gamma == pytest.approx([0.6])
    for series in (found.rho, found.rho_relative):
        assert series == pytest.approx([0.6], abs=4 * (1 - 0.6**2) / math.sqrt(4 * 2000) + 2e-3)
    true = credit_quality(Straight(w), [-w.expand(4, -1)], x, y, directions=2000)
    assert true.rho == pytest.approx([1.0], abs=1e-3)
    # a coordinate of the sphere has density (1 − t²)^((D − 3)/2); the loss as h moves by 0.1·t along w
    t = torch.linspace(-1, 1, 200_001, dtype=torch.float64)
    weight = (1 - t**2).clamp(min=0) ** ((width - 3) / 2)
    weight /= weight.sum()
    loss = F.softplus(-steepness * 0.1 * t)
    change = loss - (weight * loss).sum()
    expected = (weight * -t * change).sum() / (
        (weight * t**2).sum() * (weight * change**2).sum()
    ).sqrt()
    assert 0.9 < expected < 0.99
    assert true.rho_finite == pytest.approx([float(expected)], abs=4e-3)


def test_directions_of_one_kind_share_a_run_of_the_tail_per_layer() -> None:
    net = Tailed()
    calls: list[int] = []
    net.head.register_forward_hook(lambda module, args, output: calls.append(len(output)))
    x, y = batches(1)[0]
    credit_quality(net, [torch.ones(16, 6)] * 4, x, y, directions=32)
    # small steps, as they were before there were finite ones: to the last digit
    assert calls == [16, *([2 * 16, 2 * 32 * 16, 32 * 16] * 4)]


def test_directions_run_in_parts_where_memory_is_short_with_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = Tailed(kind="gelu")
    x, y = batches(1)[0]
    credit = [torch.randn(16, 6) for _ in range(4)]
    whole = credit_quality(net, credit, x, y)
    monkeypatch.setattr("fa_core.measure.credit.LARGEST", 1)
    parts = credit_quality(net, credit, x, y)
    assert parts.rho == pytest.approx(whole.rho, abs=1e-6)
    assert parts.nudge == whole.nudge


def test_module_taps_run_the_tail_by_replacing_an_output() -> None:
    net = Tailed(kind="gelu", out_ln=True)
    x, y = batches(1)[0]
    credit = [torch.randn(16, 6) for _ in range(4)]
    own = credit_quality(net, credit, x, y).to_dict()
    hooked = credit_quality(Hookable(net), credit, x, y, taps="embed, blocks.*").to_dict()
    assert {
        name: pytest.approx(value) if name != "aggregation" else value
        for name, value in own.items()
    } == hooked


def test_without_a_tail_rho_and_nudge_are_missing_with_the_reason() -> None:
    net = Residual()
    x, y = batches(1)[0]
    found = credit_quality(net, [torch.randn(16, 6) for _ in range(4)], x, y)
    assert all(value is not None for value in found.gamma)
    assert found.rho == found.nudge == [None] * 4
    assert "tail" in found.missing["rho, nudge"]


def test_missing_and_zero_credit_is_undefined_not_zero_or_one() -> None:
    net = Tailed()
    x, y = batches(1)[0]
    found = credit_quality(net, [None, torch.zeros(16, 6), torch.ones(16, 6), None], x, y)
    for series in (found.gamma, found.rho, found.rho_relative, found.nudge, found.nudge_relative):
        assert [value is None for value in series] == [True, True, False, True]
    assert found.deep() == found.gamma[2]


def test_a_method_that_gives_no_credit_has_that_as_its_reason() -> None:
    x, y = batches(1)[0]
    found = credit_quality(Tailed(), [None] * 4, x, y)
    assert found.missing == {"gamma, rho, nudge": "the method gives no credit signal"}


def test_non_finite_credit_is_nan() -> None:
    net = Tailed()
    x, y = batches(1)[0]
    found = credit_quality(net, [torch.full((16, 6), math.nan)] * 4, x, y)
    assert all(math.isnan(value) for value in (*found.gamma, *found.rho, *found.nudge))


def test_one_sample_and_one_layer_are_enough() -> None:
    net = Tailed(depth=0)
    x, y = batches(1, size=1)[0]
    found = credit_quality(net, [torch.ones(1, 6)], x, y)
    assert len(found.gamma) == 1
    assert found.deep() is None


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_networks_are_measured_in_float64(half: torch.dtype) -> None:
    net = Tailed(kind="gelu").to(half)
    x, y = batches(1)[0]
    wide = Tailed(kind="gelu").double()
    wide.load_state_dict(net.state_dict())
    found = credit_quality(net, gradients(wide, x.double(), y), x, y)
    assert found.gamma == pytest.approx([1.0] * 4)


def test_a_token_stream_is_moved_at_its_cls_token() -> None:
    class Tail(Tokens):
        def tail(self, l: int, h: Tensor) -> Tensor:
            for mix in list(self.mix)[l:]:
                h = h + torch.einsum("st,btd->bsd", mix, h)
            return self.head(h[:, 0])

    net = Tail().double()
    x, y = torch.randint(11, (8, 3)), torch.randint(4, (8,))
    found = credit_quality(net, gradients(net, x, y), x, y)
    assert found.gamma == pytest.approx([1.0] * 3)
    assert found.rho == pytest.approx([1.0] * 3, abs=1e-2)


@pytest.mark.parametrize(
    "credit", [[torch.ones(16, 6)] * 3, [torch.ones(16, 5)] * 4, [torch.ones(6)] * 4]
)
def test_credit_of_another_shape_is_refused(credit: list[Tensor]) -> None:
    x, y = batches(1)[0]
    with pytest.raises(MeasureError):
        credit_quality(Tailed(), credit, x, y)


def test_ce_change_keeps_the_digits_that_subtraction_loses() -> None:
    z = torch.tensor([[60.0, 0.0, 1.0]], dtype=torch.float64)
    d = torch.tensor([[[1e-6, -2e-6, 3e-6]]], dtype=torch.float64)
    y = torch.tensor([0])
    exact = math.exp(-60) * math.expm1(-3e-6) + math.exp(-59) * math.expm1(2e-6)
    assert ce_change(z, z + d, y).item() == pytest.approx(exact, rel=1e-7, abs=0)
    assert F.cross_entropy(z + d[0], y) - F.cross_entropy(z, y) == 0.0


@pytest.mark.parametrize("scale", [1e-6, 0.1, 10.0, 1000.0])
def test_ce_change_equals_the_difference_at_every_size(scale: float) -> None:
    z, d = torch.randn(4, 5, dtype=torch.float64), scale * torch.randn(3, 4, 5, dtype=torch.float64)
    y = torch.randint(5, (4,))
    slow = torch.stack(
        [
            F.cross_entropy(z + step, y, reduction="none") - F.cross_entropy(z, y, reduction="none")
            for step in d
        ]
    )
    assert torch.allclose(ce_change(z, z + d, y), slow, rtol=1e-8, atol=1e-14)


def test_rho_averages_over_samples_and_does_not_pool() -> None:
    predicted = torch.tensor([[1.0, 100.0], [2.0, 300.0], [3.0, 200.0]])
    change = torch.tensor([[1.0, 3.0], [2.0, 1.0], [3.0, 2.0]])
    assert rho(predicted, change) == pytest.approx((1.0 - 1.0) / 2)


@pytest.mark.parametrize("scale", [1e-250, 1.0, 1e250])
def test_pearson_survives_every_scale(scale: float) -> None:
    x = torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64)
    r, defined = pearson(x * scale, -x)
    assert (round(r.item(), 12), defined.item()) == (-1.0, True)


def test_pearson_of_a_constant_or_a_single_direction_is_undefined() -> None:
    assert not pearson(torch.full((3, 1), 0.1), torch.arange(3.0)[:, None])[1].item()
    assert not pearson(torch.ones(1, 1), torch.ones(1, 1))[1].item()


def test_gamma_has_no_clamp() -> None:
    assert gamma(torch.tensor([[3.0, 4.0]]), torch.tensor([[5e-30, 0.0]])) == pytest.approx(
        0.6, rel=1e-12
    )


def test_the_deep_mean_of_nothing_is_nothing() -> None:
    assert mean_over([0.4]) is None
    assert mean_over([0.4, None]) is None


class Feedback(nn.Module):
    """Direct feedback alignment in four lines, for any network with a stream."""

    draws_feedback = True
    linear_feedback = False
    free_at_L = False
    no_credit = Method.no_credit

    def __init__(self, matrices: list[Tensor]) -> None:
        super().__init__()
        for l, matrix in enumerate(matrices):
            self.register_buffer(f"B_{l}", matrix)

    def credit(
        self, net: nn.Module, stream: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        error = logits.softmax(1) - F.one_hot(y, logits.shape[1])
        return [error @ matrix for matrix in self.buffers()]

    def fresh(self, generator: torch.Generator) -> Feedback:
        return Feedback(
            [torch.randn(matrix.shape, generator=generator) for matrix in self.buffers()]
        )


def test_the_null_is_around_zero_and_the_true_feedback_beyond_it() -> None:
    net = Tailed(width=64, depth=2)
    for block in net.blocks:
        nn.init.zeros_(block.f.weight)
    x, y = batches(1, size=64)[0]
    method = Feedback([net.head.weight.detach().clone() for _ in range(3)])
    assert method_credit_quality(net, method, x, y, directions=4).gamma == pytest.approx([1.0] * 3)
    null = null_gamma(net, method, x, y, draws=10, seed=1)
    assert null.observed == pytest.approx(1.0)
    assert abs(null.mean) < 0.1
    assert null.rank == pytest.approx(1 / 11)
    assert len(null.deep) == 10


def test_a_null_with_a_nan_has_no_spread_and_no_rank() -> None:
    for null in (
        NullGamma([0.1, math.nan], observed=0.5),
        NullGamma([math.nan], observed=math.nan),
    ):
        assert math.isnan(null.std)
        assert null.rank is None
    assert NullGamma([0.1, 0.2], observed=math.nan).rank is None


def test_a_rule_that_draws_nothing_has_no_null() -> None:
    method = Feedback([])
    method.draws_feedback = False
    x, y = batches(1)[0]
    with pytest.raises(UsageError, match="draws no feedback"):
        null_gamma(Tailed(), method, x, y)


def square_feedback() -> tuple[Any, Any, Tensor, Tensor]:
    """DFA with as many classes as units, whose feedback is the head's weights: its credit is near the gradient."""
    torch.manual_seed(0)
    net = build("resmlp", input_dim=12, d=10, L=2, num_classes=10)
    rule = make_method("dfa", net)
    for matrix in rule.buffers():
        matrix.copy_(net.head.weight.detach())
    return net, rule, torch.randn(64, 12), torch.arange(64) % 10


def test_square_feedback_that_was_saved_transposed_is_turned_and_said() -> None:
    net, rule, x, y = square_feedback()
    right = null_gamma(net, rule, x, y)
    assert oriented(net, rule, x, y, right)[2] == ""
    saved = rule.transposed()
    found, null, said = oriented(net, saved, x, y, null_gamma(net, saved, x, y))
    assert all(map(torch.equal, found.buffers(), rule.buffers()))
    assert null.observed == right.observed
    assert said.startswith("square feedback matrices are taken transposed: deep Γ ")
    assert f"{right.observed:+.3f} transposed" in said


def test_where_neither_orientation_works_both_are_said_of_foreign_feedback_alone() -> None:
    net, rule, x, y = square_feedback()
    fresh = rule.fresh(torch.Generator().manual_seed(3))
    null = null_gamma(net, fresh, x, y)
    found, _, said = oriented(net, fresh, x, y, null)
    assert found is fresh
    assert "may have been saved transposed" in said and f"{null.observed:+.3f} as saved" in said
    assert oriented(net, fresh, x, y, null, foreign=False)[2] == ""


def test_feedback_that_is_not_square_has_one_orientation() -> None:
    net = build("resmlp", input_dim=12, d=8, L=2, num_classes=10)
    assert make_method("dfa", net).transposed() is None
