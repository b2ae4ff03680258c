"""A small network by hand, for references that share nothing with the rules: NumPy, up to 60 digits, no autograd."""

import mpmath
import numpy as np
import torch
from torch import nn

from fa_core.zoo.models import StreamNet

B, D, C = 6, 5, 4


class TanhBlock(nn.Module):
    """f(h) = tanh(h·A)·B."""

    def __init__(self):
        super().__init__()
        self.A, self.B = (nn.Parameter(0.8 * torch.randn(D, D) / D**0.5) for _ in range(2))

    def forward(self, h):
        return torch.tanh(h @ self.A) @ self.B


class TanhNet(StreamNet):
    """A residual network of tanh blocks, with a linear embedding and head."""

    arch = "tanh_for_tests"

    def __init__(self, L):
        super().__init__({"L": L}, (D,), [(D,)] * (L + 1))
        self.embed, self.head, self.out_ln = nn.Linear(D, D), nn.Linear(D, C), nn.Identity()
        self.blocks = nn.ModuleList(TanhBlock() for _ in range(L))


class Reference:
    """The same network by hand, in the arithmetic of its arrays; samples are rows."""

    def __init__(self, net, x, y, arithmetic):
        exact = arithmetic == "exact"
        self.tanh = np.vectorize(mpmath.tanh, otypes=[object]) if exact else np.tanh
        self.exp = np.vectorize(mpmath.exp, otypes=[object]) if exact else np.exp

        def array(tensor):
            values = tensor.detach().double().numpy()
            return (
                np.vectorize(mpmath.mpf, otypes=[object])(values)
                if exact
                else values.astype(arithmetic)
            )

        self.blocks = [(array(block.A), array(block.B)) for block in net.blocks]
        self.W, self.b = array(net.head.weight), array(net.head.bias)
        self.onehot = array(torch.eye(C)[y])
        # the product's float32 h_0 where it runs in float32: what follows is of one rounding
        self.h_0 = array(net.embed_input(x))

    def forward(self, pushes):
        """h_0..h_L with ε_l added to every state."""
        states = [self.h_0 + pushes[0]]
        for (A, M), push in zip(self.blocks, pushes[1:], strict=True):
            states.append(states[-1] + self.tanh(states[-1] @ A) @ M + push)
        return states

    def back(self, l, h, v):
        """(∂h_{l+1}/∂h_l)ᵀ·v."""
        A, M = self.blocks[l]
        t = self.tanh(h @ A)
        return v + ((v @ M.T) * (1 - t * t)) @ A.T

    def output_gradient(self, h_L):
        """∂CE/∂h_L per sample."""
        p = self.exp(h_L @ self.W.T + self.b)
        return (p / p.sum(1, keepdims=True) - self.onehot) @ self.W

    def gradients(self, states):
        """∂CE/∂h_l per sample."""
        found = [self.output_gradient(states[-1])]
        for l in reversed(range(len(self.blocks))):
            found.insert(0, self.back(l, states[l], found[0]))
        return found

    def nothing(self):
        return [self.h_0 * 0] * (len(self.blocks) + 1)

    def errors(self, states):
        """ε_0..ε_L."""
        expected = [
            self.h_0,
            *(h + self.tanh(h @ A) @ M for h, (A, M) in zip(states, self.blocks, strict=False)),
        ]
        return [h - e for h, e in zip(states, expected, strict=True)]

    def descend(self, beta, eta, steps):
        """Plain descent on all states at once, without any guard."""
        states = self.forward(self.nothing())
        for _ in range(steps):
            e = self.errors(states)
            slopes = [e[l] - self.back(l, states[l], e[l + 1]) for l in range(len(self.blocks))]
            slopes.append(e[-1] + beta * self.output_gradient(states[-1]))
            states = [h - eta * slope for h, slope in zip(states, slopes, strict=True)]
        return states

    def settle(self, beta):
        """(states, ε) of the nudged equilibrium, as the fixed point ε_l = −β·∂CE/∂h_l of the pushed forward pass."""
        pushes = self.nothing()
        for _ in range(200):
            pushes = [-beta * g for g in self.gradients(self.forward(pushes))]
        return self.forward(pushes), pushes


def samples(L, dtype):
    torch.manual_seed(L)
    net = TanhNet(L).to(dtype)
    return net, torch.randn(B, D).to(dtype), torch.randint(C, (B,))


def as_arrays(signal):
    return [a.double().numpy() for a in signal if a is not None]


def apart(found, expected):
    """‖found − expected‖/‖expected‖."""
    expected = expected.astype("float64")
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def cosine(a, b):
    return float(((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).mean())
