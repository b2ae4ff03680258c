"""Equilibrium propagation against a reference of its own: another network, NumPy, 60 decimal digits, no autograd."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fa_core.measure.credit import method_credit_quality
from fa_core.methods import make_method
from fa_core.methods.base import Credit
from fa_core.models import StreamNet

Array = Any
"""NumPy arrays of float64, float32, or of mpmath's numbers."""

B, D, C = 6, 5, 4


class TanhBlock(nn.Module):
    """f(h) = tanh(h·A)·B."""

    def __init__(self) -> None:
        super().__init__()
        self.A, self.B = (nn.Parameter(0.8 * torch.randn(D, D) / D**0.5) for _ in range(2))

    def forward(self, h: Tensor) -> Tensor:
        return torch.tanh(h @ self.A) @ self.B


class TanhNet(StreamNet):
    """A residual network of tanh blocks, with a linear embedding and head."""

    arch = "tanh_for_tests"

    def __init__(self, L: int) -> None:
        super().__init__({"L": L}, (D,), [(D,)] * (L + 1))
        self.embed, self.head, self.out_ln = nn.Linear(D, D), nn.Linear(D, C), nn.Identity()
        self.blocks = nn.ModuleList(TanhBlock() for _ in range(L))


class Reference:
    """The same network by hand, in the arithmetic of its arrays; samples are rows."""

    def __init__(self, net: StreamNet, x: Tensor, y: Tensor, arithmetic: str) -> None:
        exact = arithmetic == "exact"
        self.tanh = np.vectorize(mpmath.tanh, otypes=[object]) if exact else np.tanh
        self.exp = np.vectorize(mpmath.exp, otypes=[object]) if exact else np.exp

        def array(tensor: Tensor) -> Array:
            values = tensor.detach().double().numpy()
            return np.vectorize(mpmath.mpf, otypes=[object])(values) if exact else values.astype(arithmetic)

        self.blocks = [(array(block.A), array(block.B)) for block in net.blocks]  # type: ignore[arg-type]
        self.W, self.b = array(net.head.weight), array(net.head.bias)
        self.onehot = array(torch.eye(C)[y])
        # the product's float32 h_0 where it runs in float32: what follows is of one rounding
        self.h_0 = array(net.embed_input(x))

    def forward(self, pushes: list[Array]) -> list[Array]:
        """h_0..h_L with ε_l added to every state."""
        states = [self.h_0 + pushes[0]]
        for (A, M), push in zip(self.blocks, pushes[1:], strict=True):
            states.append(states[-1] + self.tanh(states[-1] @ A) @ M + push)
        return states

    def back(self, l: int, h: Array, v: Array) -> Array:
        """(∂h_{l+1}/∂h_l)ᵀ·v."""
        A, M = self.blocks[l]
        t = self.tanh(h @ A)
        return v + ((v @ M.T) * (1 - t * t)) @ A.T

    def output_gradient(self, h_L: Array) -> Array:
        """∂CE/∂h_L per sample."""
        p = self.exp(h_L @ self.W.T + self.b)
        return (p / p.sum(1, keepdims=True) - self.onehot) @ self.W

    def gradients(self, states: list[Array]) -> list[Array]:
        """∂CE/∂h_l per sample."""
        found = [self.output_gradient(states[-1])]
        for l in reversed(range(len(self.blocks))):
            found.insert(0, self.back(l, states[l], found[0]))
        return found

    def nothing(self) -> list[Array]:
        return [self.h_0 * 0] * (len(self.blocks) + 1)

    def errors(self, states: list[Array]) -> list[Array]:
        """ε_0..ε_L."""
        expected = [self.h_0, *(h + self.tanh(h @ A) @ M for h, (A, M) in zip(states, self.blocks, strict=False))]
        return [h - e for h, e in zip(states, expected, strict=True)]

    def descend(self, beta: float, eta: float, steps: int) -> list[Array]:
        """Plain descent on all states at once, without any guard."""
        states = self.forward(self.nothing())
        for _ in range(steps):
            e = self.errors(states)
            slopes = [e[l] - self.back(l, states[l], e[l + 1]) for l in range(len(self.blocks))]
            slopes.append(e[-1] + beta * self.output_gradient(states[-1]))
            states = [h - eta * slope for h, slope in zip(states, slopes, strict=True)]
        return states

    def settle(self, beta: float) -> tuple[list[Array], list[Array]]:
        """(states, ε) of the nudged equilibrium, as the fixed point ε_l = −β·∂CE/∂h_l of the pushed forward pass."""
        pushes = self.nothing()
        for _ in range(200):
            pushes = [-beta * g for g in self.gradients(self.forward(pushes))]
        return self.forward(pushes), pushes


def samples(L: int, dtype: torch.dtype) -> tuple[TanhNet, Tensor, Tensor]:
    torch.manual_seed(L)
    net = TanhNet(L).to(dtype)
    return net, torch.randn(B, D).to(dtype), torch.randint(C, (B,))


def credit(net: StreamNet, x: Tensor, y: Tensor, **options: Any) -> list[Array]:
    with torch.no_grad():
        logits, stream = net(x, return_hidden=True)
    return as_arrays(make_method("ep", net, **options).credit(net, stream, logits, y))


def as_arrays(signal: Credit) -> list[Array]:
    return [a.double().numpy() for a in signal if a is not None]


def apart(found: Array, expected: Array) -> float:
    """‖found − expected‖/‖expected‖."""
    expected = expected.astype("float64")
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def cosine(a: Array, b: Array) -> float:
    return float(((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).mean())


@pytest.mark.parametrize(("L", "tolerance"), [(1, 1e-13), (4, 1e-10), (12, 1e-3)])
def test_a_few_steps_are_right_to_many_digits_at_any_depth(L: int, tolerance: float) -> None:
    net, x, y = samples(L, torch.float64)
    with mpmath.workdps(60):
        exact = Reference(net, x, y, "exact")
        states, free = exact.descend(0.1, 0.1, max(5, L + 1)), exact.forward(exact.nothing())
        moves = [(f - h) / mpmath.mpf(0.1) for f, h in zip(free, states, strict=True)]
        errors = [-e / mpmath.mpf(0.1) for e in exact.errors(states)]
    for found, expected in zip(credit(net, x, y), moves, strict=True):
        assert apart(found, expected) < tolerance
    for found, expected in zip(credit(net, x, y, estimator="prediction_error"), errors, strict=True):
        assert apart(found, expected) < tolerance


@pytest.mark.parametrize("beta", [0.1, 0.001])
def test_the_settled_prediction_error_is_the_gradient_and_the_displacement_is_not(beta: float) -> None:
    net, x, y = samples(3, torch.float64)
    reference = Reference(net, x, y, "float64")
    free = reference.forward(reference.nothing())
    gradients = reference.gradients(free)
    states, pushes = reference.settle(beta)
    settled = {"beta": beta, "eta": 0.3, "steps": 700}
    theorem = credit(net, x, y, estimator="prediction_error", **settled)
    published = credit(net, x, y, **settled)
    for l, g in enumerate(gradients):
        assert apart(theorem[l], -pushes[l] / beta) < 1e-3
        assert apart(published[l], (free[l] - states[l]) / beta) < 1e-3
        assert apart(theorem[l], g) < 5 * beta
        assert cosine(theorem[l], g) > 1 - 2 * beta
    assert 0.8 < cosine(published[-1], gradients[-1]) < 0.95


@pytest.mark.parametrize("estimator", ["displacement", "prediction_error"])
def test_float32_loses_the_early_layers_and_says_how_much(estimator: str) -> None:
    net, x, y = samples(8, torch.float32)
    rule = make_method("ep", net, arithmetic="float32", estimator=estimator)
    found = method_credit_quality(net, rule, x, y, directions=0)
    _, info = rule.loss(net, x, y)
    trained = as_arrays(info.credit)
    plain, exact = Reference(net, x, y, "float32"), Reference(net, x, y, "float64")
    states, free = plain.descend(0.1, 0.1, 9), plain.forward(plain.nothing())
    moves = [f - h for f, h in zip(free, states, strict=True)] if estimator == "displacement" else plain.errors(states)
    assert found.zeros == [float((a == 0).mean()) for a in trained]
    assert found.zeros == pytest.approx([float((move == 0).mean()) for move in moves], abs=0.25)
    assert found.zeros[0] == 1.0
    assert found.gamma[0] is None
    last = [series[-2:] for series in (found.gamma, trained, exact.gradients(exact.forward(exact.nothing())))]
    for value, a, g in zip(*last, strict=True):
        assert value == pytest.approx(cosine(a, g), abs=1e-6)
    assert not any(method_credit_quality(net, make_method("ep", net), x, y, directions=0).zeros)


@pytest.mark.parametrize("name", ["ep", "dfa", "bp", "state_bridge"])
def test_the_credit_that_is_measured_is_the_one_trained_with(name: str) -> None:
    net, x, y = samples(4, torch.float32)
    rule = make_method(name, net)
    found = method_credit_quality(net, rule, x, y, directions=0)
    with torch.no_grad():
        logits, stream = net(x, return_hidden=True)
    trained = as_arrays(rule.loss(net, x, y)[1].credit) or as_arrays(rule.credit(net, stream, logits, y))
    exact = Reference(net, x, y, "float64")
    for value, a, g in zip(found.gamma, trained, exact.gradients(exact.forward(exact.nothing())), strict=True):
        assert value == pytest.approx(cosine(a, g), abs=1e-6)
