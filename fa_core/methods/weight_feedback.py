"""Backward passes in which feedback of the same shape replaces every weight.

FA per weight, sign symmetry (uSF, brSF, frSF) and learned feedback (Kolen–Pollack, weight mirror)
differ only in that feedback; on a convolution it is a kernel. DFA per layer cuts the graph at the
same places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd
from torch.overrides import TorchFunctionMode

from fa_core.errors import UsageError
from fa_core.methods.base import (
    Credit,
    Method,
    StepInfo,
    gaussian_,
    local_term,
    output_error,
    untracked_statistics,
)
from fa_core.methods.bp import Backprop, summed_gradients
from fa_core.methods.feedback import RandomFeedback
from fa_core.models.base import StreamNet

Operation = Callable[..., Tensor]

LINEAR: frozenset[Any] = frozenset(
    {
        F.linear,
        torch.conv1d,
        torch.conv2d,
        torch.conv3d,
        torch.matmul,
        Tensor.matmul,
        Tensor.__matmul__,
    }
)
"""The operations (input, weight, ...) through which a weight carries an error back."""


def carrying_weights(net: StreamNet) -> list[nn.Parameter]:
    """The weights behind the embedding, in the network's order: parameters of two dimensions or
    more, biases apart."""
    before = {id(parameter) for parameter in net.embed.parameters()}
    named = ((name, weight) for name, weight in net.named_parameters() if id(weight) not in before)
    return [weight for name, weight in named if weight.ndim > 1 and not name.endswith("bias")]


class WeightMode(TorchFunctionMode):
    """Hands every operation of `LINEAR` on one of `weights`, or on a view of one, to `linear`.

    Args:
        weights: of a network.

    Attributes:
        seen: what `linear` keeps of weight i.
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        super().__init__()
        self.weights = weights
        self.places = {_place(weight): i for i, weight in enumerate(weights)}
        self.seen: dict[int, Tensor] = {}

    def linear(
        self, operation: Operation, i: int, x: Tensor, weight: Tensor, rest: Sequence[Any]
    ) -> Tensor:
        """What the operation on weight i (or a view of it) gives; `rest` are its further
        arguments."""
        raise NotImplementedError

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in LINEAR and len(args) > 1:
            i = self.places.get(_place(args[1]))
            if i is not None:
                return self.linear(
                    lambda *given: func(*given, **(kwargs or {})), i, args[0], args[1], args[2:]
                )
        return func(*args, **(kwargs or {}))


def _place(weight: Tensor) -> tuple[int, int]:
    """The same for a weight and its reshaped or transposed views, also where gradients are off."""
    return weight.data_ptr(), weight.numel()


class CarriedBack(WeightMode):
    """Inside, the error goes back through `feedback` instead of the weights; values, and gradients
    by weights, stay.

        y = W·sg[x] + (B·x − sg[B·x]),   so that   ∂y/∂x = B,   ∂y/∂W = x,
        and the last two terms are exactly 0

    Args:
        weights: W.
        feedback: B of the shape of each.
    """

    def __init__(self, weights: Sequence[Tensor], feedback: Sequence[Tensor]) -> None:
        super().__init__(weights)
        self.feedback = list(feedback)

    def linear(
        self, operation: Operation, i: int, x: Tensor, weight: Tensor, rest: Sequence[Any]
    ) -> Tensor:
        B = torch.empty_like(self.weights[i]).copy_(self.feedback[i].detach())
        B = B.detach().as_strided(weight.size(), weight.stride())
        carried = operation(
            x, B, *(one.detach() if isinstance(one, Tensor) else one for one in rest)
        )
        return operation(x.detach(), weight, *rest) + (carried - carried.detach())


class WeightFeedback(RandomFeedback, Backprop):
    """FA per weight: backprop in which every weight behind the embedding carries the error back
    through a fixed B.

    a_l is what reaches h_l; the weights' own gradients are formed from it too, inside the blocks as
    well. B is Gaussian of variance 1/(3·fan_in), that of the weights as PyTorch draws them: behind
    a BatchNorm, whose derivative is 1/deviation, a larger B multiplies the error at every layer (in
    ResNet-56 to gradients of 1e8). Norms and nonlinearities have their true derivatives. Γ_L is not
    free: the head is replaced as well.

    A rule with other feedback of that kind is a subclass with a `feedback` of its own. The
    operations are those of `LINEAR` with the weight on the right; a network that multiplies by its
    weights otherwise has its true derivative.

    Source: docs/protocol.md §5; Lillicrap et al., 2016; kernels: Sanfiz & Akrout, 2021 (BioTorch).
    """

    name = "fa_weights"
    as_saved_elsewhere = Method.as_saved_elsewhere

    def __init__(self, net: StreamNet, generator: torch.Generator) -> None:
        self.variances = initial_variances(net)
        super().__init__(
            net,
            generator,
            [weight.shape for weight in carrying_weights(net) if self.draws_feedback],
        )

    def redraw(self, generator: torch.Generator) -> None:
        for B, variance in zip(self.buffers(), self.variances, strict=False):
            gaussian_(B, variance, generator)

    def feedback(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """B of every weight, of its shape."""
        return list(self.buffers())

    def _carried(self, net: StreamNet) -> CarriedBack:
        weights = carrying_weights(net)
        return CarriedBack(weights, self.feedback(weights))

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        with self._carried(net):
            return super().credit(net, stream, logits, y)

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, StepInfo]:
        """As backprop's; the penalty reaches earlier blocks through the feedback too."""
        with self._carried(net):
            loss, info = super().loss(net, x, y, lam)
        return loss, replace(info, targets=self.extra_targets(net, info.stream, info.logits, y))


def initial_variances(net: StreamNet) -> list[float]:
    """1/(3·fan_in) of each of `carrying_weights`: the variance with which PyTorch draws linear maps
    and kernels."""
    kernels = {id(module.weight) for module in net.modules() if isinstance(module, _ConvNd)}
    weights = carrying_weights(net)
    return [
        1 / (3 * (weight[0].numel() if id(weight) in kernels else weight.shape[-1]))
        for weight in weights
    ]


class UniformSigns(WeightFeedback):
    """uSF: B = sign(W)/√(3·fan_in), of one magnitude per weight tensor; nothing is drawn.

    Source: docs/protocol.md §5; Liao, Leibo & Poggio, AAAI 2016; Moskovitz, Litwin-Kumar & Abbott,
    2018.
    """

    name = "usf"
    draws_feedback = False

    def feedback(self, weights: Sequence[Tensor]) -> list[Tensor]:
        return [
            weight.sign() * variance**0.5
            for weight, variance in zip(weights, self.variances, strict=True)
        ]


class FixedMagnitudes(WeightFeedback):
    """frSF: B = sign(W)·|M|, M drawn once as FA's B. Fresh magnitudes keep the signs, so the null
    of Γ is not near 0.

    Source: docs/protocol.md §5; Moskovitz, Litwin-Kumar & Abbott, 2018.
    """

    name = "frsf"

    def feedback(self, weights: Sequence[Tensor]) -> list[Tensor]:
        return [
            weight.sign() * M.abs().to(weight)
            for weight, M in zip(weights, self.buffers(), strict=True)
        ]


class BatchMagnitudes(FixedMagnitudes):
    """brSF: as `FixedMagnitudes`, M drawn again after every step from torch's global generator.

    Source: docs/protocol.md §5; Liao, Leibo & Poggio, AAAI 2016.
    """

    name = "brsf"

    def extra_step(self, net: StreamNet, info: StepInfo) -> Tensor | None:
        self.redraw(torch.default_generator)
        return None


class LearnedFeedback(WeightFeedback):
    """Feedback that comes closer to the weights at every step, at `rate`.

    Args:
        rate: 0 < rate < 1, per step.

    Raises:
        UsageError: another rate.
    """

    usual: ClassVar[float]

    def __init__(
        self, net: StreamNet, generator: torch.Generator, rate: float | None = None
    ) -> None:
        if rate is None:
            self.rate = self.usual
        else:
            self.rate = rate
        if not 0 < self.rate < 1:
            raise UsageError(f"{self.name}: rate is {rate}", hint="give a number between 0 and 1")
        super().__init__(net, generator)


class KolenPollack(LearnedFeedback):
    """B takes the step that W took, and both shrink: B ← (1 − rate)·(B + ΔW), W ← (1 − rate)·(W +
    ΔW).

    So W − B = (1 − rate)^t·(W_0 − B_0): no weight is read, yet B → W and a_l → g_l. ΔW is the
    optimizer's step, its weight decay included. The rate is a weight decay of its own, whatever the
    learning rate: at 1e-3 the distance falls to 1/e in 1,000 steps, and Adam at a learning rate of
    1e-3 cannot hold an entry of W above about 1.

    Source: docs/protocol.md §5; Kolen & Pollack, ICNN 1994; Akrout et al., NeurIPS 2019.
    """

    name = "kp"
    usual = 1e-3

    def extra_targets(
        self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor
    ) -> dict[str, Tensor]:
        return {f"W_{i}": weight.detach().clone() for i, weight in enumerate(carrying_weights(net))}

    @torch.no_grad()
    def extra_step(self, net: StreamNet, info: StepInfo) -> Tensor | None:
        for i, (weight, B) in enumerate(zip(carrying_weights(net), self.buffers(), strict=True)):
            if weight.requires_grad:
                B.add_(weight - info.targets[f"W_{i}"]).mul_(1 - self.rate)
                weight.mul_(1 - self.rate)
        return None


class WeightMirror(LearnedFeedback):
    """B ← B + rate·(M − B), M = Σ x·yᵀ/Σ 1·1ᵀ for noise x ~ N(0, I) sent into every weight alone,
    and its answer y.

    E[M] = W, also at the edges of a padded map, where the denominator counts what a kernel's entry
    has seen; so a_l → g_l, less the noise of M: per entry about ‖row of W‖·√(rate/(2·B·positions)).
    The mirror works after every step, on noise of the training batch's size from torch's global
    generator.

    Source: docs/protocol.md §5; Akrout, Wilson, Humphreys, Lillicrap & Tweed, NeurIPS 2019.
    """

    name = "weight_mirror"
    usual = 0.05

    def extra_step(self, net: StreamNet, info: StepInfo) -> Tensor | None:
        mirror = Mirror(carrying_weights(net))
        with torch.no_grad(), untracked_statistics(net), mirror:
            net.tail(0, info.stream[0])
        for i, B in enumerate(self.buffers()):
            if i in mirror.seen:
                B.lerp_(mirror.seen[i].to(B), self.rate)
        return None


class LayerInputs(WeightMode):
    """Cuts the graph in front of every weight; `seen` holds what each was given, with the graph
    behind it."""

    def linear(
        self, operation: Operation, i: int, x: Tensor, weight: Tensor, rest: Sequence[Any]
    ) -> Tensor:
        self.seen[i] = x
        return operation(x.detach(), weight, *rest)


class LayerDirectFeedback(RandomFeedback, Backprop):
    """DFA at every layer: e_T·B_i, projected on the whole activation, is the credit of what weight
    i is given.

    From there it goes back through norms, nonlinearities and shortcuts to the weights before, and
    no further. a_l is what reaches h_l: the sum over the layers that it is given to. B_i (C ×
    values per sample) has variance 1/C.

    Source: docs/protocol.md §5; Nøkland, NeurIPS 2016; on convolutions: Sanfiz & Akrout, 2021
    (BioTorch).
    """

    name = "dfa_layers"
    as_saved_elsewhere = Method.as_saved_elsewhere

    def __init__(self, net: StreamNet, generator: torch.Generator) -> None:
        layers = LayerInputs(carrying_weights(net))
        with torch.no_grad(), untracked_statistics(net), layers:
            net(torch.zeros(2, *net.input_shape).to(net.head.weight))
        sizes = [x[0].numel() for _, x in sorted(layers.seen.items())]
        super().__init__(net, generator, [(net.num_classes, size) for size in sizes])

    def _projected(self, layers: LayerInputs, logits: Tensor, y: Tensor) -> Tensor:
        """Σ_i mean over the batch of ⟨what weight i was given, e_T·B_i⟩."""
        given = [x for _, x in sorted(layers.seen.items())]
        error = output_error(logits, y)
        projected = [
            (error @ B.to(error.dtype)).view_as(x)
            for x, B in zip(given, self.buffers(), strict=True)
        ]
        return local_term(given, projected)

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        with LayerInputs(carrying_weights(net)) as layers:
            return list(
                summed_gradients(
                    net, stream[0], y, lambda z: len(y) * self._projected(layers, z, y)
                )
            )

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, StepInfo]:
        with LayerInputs(carrying_weights(net)) as layers:
            loss, info = super().loss(net, x, y, lam)
        local = self._projected(layers, info.logits, y)
        return loss + local, replace(info, local=local.detach())


class Mirror(WeightMode):
    """Sends noise into every weight, next to what the network does; `seen` holds M of each (see
    `WeightMirror`)."""

    def linear(
        self, operation: Operation, i: int, x: Tensor, weight: Tensor, rest: Sequence[Any]
    ) -> Tensor:
        noise = torch.randn_like(x)
        unbiased = [None if isinstance(one, Tensor) else one for one in rest]
        answer = operation(noise, weight, *unbiased)

        def products(x: Tensor, y: Tensor) -> Tensor:
            """Σ x·yᵀ over the batch and all positions, in the shape of the weight."""
            with torch.enable_grad():
                blank = torch.zeros_like(weight, requires_grad=True)
                (found,) = torch.autograd.grad((operation(x, blank, *unbiased) * y).sum(), blank)
            return found

        self.seen[i] = torch.empty_like(self.weights[i])
        seen = self.seen[i].as_strided(weight.size(), weight.stride())
        seen.copy_(products(noise, answer) / products(torch.ones_like(x), torch.ones_like(answer)))
        return operation(x, weight, *rest)
