"""Backward passes with feedback of the same shape in place of every weight.

FA per weight, sign symmetry (uSF, brSF, frSF) and learned feedback (Kolen–Pollack, weight mirror)
differ only in this feedback; for a convolution it is a kernel. DFA per layer cuts the graph at the
same operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd
from torch.overrides import TorchFunctionMode

from fa_core.errors import UsageError
from fa_core.zoo.methods.base import (
    Credit,
    Method,
    StepInfo,
    gaussian_,
    local_term,
    output_error,
    untracked_statistics,
)
from fa_core.zoo.methods.bp import Backprop, summed_gradients
from fa_core.zoo.methods.feedback import RandomFeedback
from fa_core.zoo.models.base import StreamNet

Operation = Callable[..., Tensor]

LINEAR: frozenset[Operation] = frozenset(
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
"""The operations (input, weight, ...) through which errors go back by a weight."""


def carrying_weights(net: StreamNet) -> list[nn.Parameter]:
    """The weights after the embedding, in order: all parameters of at least 2-D, without biases."""
    before = {id(parameter) for parameter in net.embed.parameters()}
    weights = []
    for name, parameter in net.named_parameters():
        if parameter.ndim > 1 and not name.endswith("bias") and id(parameter) not in before:
            weights.append(parameter)
    return weights


class WeightMode(TorchFunctionMode):
    """Replaces every operation of `LINEAR` on one of `weights`, or on a view of one, by `linear`.

    Args:
        weights: of a network.

    Attributes:
        seen: i ↦ the tensor that `linear` recorded for weight i.
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        super().__init__()
        self.weights = weights
        self.indices = {_storage(weight): i for i, weight in enumerate(weights)}
        self.seen: dict[int, Tensor] = {}

    def linear(
        self, operation: Operation, i: int, x: Tensor, weight: Tensor, rest: Sequence[object]
    ) -> Tensor:
        """The result of the operation on weight i or a view of it; `rest`: further arguments."""
        raise NotImplementedError

    def __torch_function__(
        self,
        func: Operation,
        types: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Tensor:
        operation = partial(func, **(kwargs or {}))
        if func in LINEAR and len(args) > 1:
            x, weight, *rest = args
            i = self.indices.get(_storage(weight))
            if i is not None:
                return self.linear(operation, i, x, weight, rest)
        return operation(*args)


def _storage(weight: Tensor) -> tuple[int, int]:
    """A key shared by a weight and its reshaped or transposed views, with or without gradients."""
    return weight.data_ptr(), weight.numel()


class CarriedBack(WeightMode):
    """Inside, errors go back through `feedback`; values and gradients by weights are unchanged.

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
        self, operation: Operation, i: int, x: Tensor, weight: Tensor, rest: Sequence[object]
    ) -> Tensor:
        B = torch.empty_like(self.weights[i]).copy_(self.feedback[i].detach())
        B = B.detach().as_strided(weight.size(), weight.stride())
        carried = operation(x, B, *without_bias(rest))
        return operation(x.detach(), weight, *rest) + (carried - carried.detach())


def without_bias(rest: Sequence[object]) -> Sequence[object]:
    """Further arguments of an operation, with None for a bias."""
    if rest and isinstance(rest[0], Tensor):
        return [None, *rest[1:]]
    return rest


class WeightFeedback(RandomFeedback, Backprop):
    """FA per weight: backprop with a fixed B in place of every weight after the embedding.

    a_l is the error that arrives at h_l; weight gradients, inside the blocks too, follow from it.
    B is Gaussian of variance 1/(3·fan_in), PyTorch's variance of initial weights. Behind a
    BatchNorm, whose derivative is 1/deviation, a larger B would amplify the error at every layer
    (to gradients of 1e8 in ResNet-56). Norms and nonlinearities keep their true derivatives. Γ_L is
    not free, since the head is replaced as well.

    Only the operations of `LINEAR` with the weight on the right are replaced; any other product
    with a weight has its true derivative. For other feedback, override `feedback` in a subclass.

    Source: docs/protocol.md §5; Lillicrap et al., 2016; kernels: Sanfiz & Akrout, 2021 (BioTorch).
    """

    name = "fa_weights"
    convert_tensors = Method.convert_tensors

    def __init__(self, net: StreamNet, generator: torch.Generator) -> None:
        kernels = {id(module.weight) for module in net.modules() if isinstance(module, _ConvNd)}
        weights = carrying_weights(net)
        self.variances = []
        for weight in weights:
            fan_in = weight[0].numel() if id(weight) in kernels else weight.shape[-1]
            self.variances.append(1 / (3 * fan_in))
        shapes = [weight.shape for weight in weights if self.draws_feedback]
        super().__init__(net, generator, shapes)

    def redraw(self, generator: torch.Generator) -> None:
        for B, variance in zip(self.buffers(), self.variances, strict=False):
            gaussian_(B, variance, generator)

    def feedback(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """B of every weight, of the same shape."""
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
        """Backprop's loss; the penalty reaches earlier blocks through the feedback too."""
        with self._carried(net):
            loss, info = super().loss(net, x, y, lam)
        return loss, replace(info, targets=self.extra_targets(net, info.stream, info.logits, y))


class UniformSigns(WeightFeedback):
    """uSF: B = sign(W)/√(3·fan_in), one magnitude per weight tensor, without random draws.

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
    """frSF: B = sign(W)·|M|, with M drawn once, like FA's B.

    The null of Γ redraws the magnitudes but keeps the signs, so it is not near 0.

    Source: docs/protocol.md §5; Moskovitz, Litwin-Kumar & Abbott, 2018.
    """

    name = "frsf"

    def feedback(self, weights: Sequence[Tensor]) -> list[Tensor]:
        return [
            weight.sign() * M.abs().to(weight)
            for weight, M in zip(weights, self.buffers(), strict=True)
        ]


class BatchMagnitudes(FixedMagnitudes):
    """brSF: `FixedMagnitudes` with M redrawn after every step from torch's global generator.

    Source: docs/protocol.md §5; Liao, Leibo & Poggio, AAAI 2016.
    """

    name = "brsf"

    def extra_step(self, net: StreamNet, info: StepInfo) -> Tensor | None:
        self.redraw(torch.default_generator)
        return None


class LearnedFeedback(WeightFeedback):
    """Feedback that approaches the weights at every step.

    Args:
        rate: 0 < rate < 1, per step; default `usual`.

    Raises:
        UsageError: `rate` is out of range.
    """

    usual: ClassVar[float]

    def __init__(
        self, net: StreamNet, generator: torch.Generator, rate: float | None = None
    ) -> None:
        self.rate = self.usual if rate is None else rate
        if not 0 < self.rate < 1:
            raise UsageError(f"{self.name}: rate is {rate}", hint="give a number between 0 and 1")
        super().__init__(net, generator)


class KolenPollack(LearnedFeedback):
    """B and W take the same step and decay: B ← (1 − rate)·(B + ΔW), W ← (1 − rate)·(W + ΔW).

    So W − B = (1 − rate)^t·(W_0 − B_0): B → W and a_l → g_l without reading a weight. ΔW is the
    optimizer's step, including its weight decay. The rate is an additional weight decay,
    independent of the learning rate. At 1e-3 the distance falls to 1/e in 1,000 steps, and Adam
    with a learning rate of 1e-3 cannot keep an entry of W above about 1.

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
                step = weight - info.targets[f"W_{i}"]
                B.add_(step).mul_(1 - self.rate)
                weight.mul_(1 - self.rate)
        return None


class WeightMirror(LearnedFeedback):
    """B ← B + rate·(M − B), M = Σ x·yᵀ/Σ 1·1ᵀ for noise x ~ N(0, I) through one weight, output y.

    E[M] = W, even at the edges of a padded map, where the denominator counts the positions that a
    kernel's entry has seen. So a_l → g_l up to the noise of M, per entry about
    ‖row of W‖·√(rate/(2·B·positions)). The mirror runs after every step, on noise of the training
    batch's size from torch's global generator.

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
    """Cuts the graph in front of every weight; `seen` has their inputs, with their graphs."""

    def linear(
        self, operation: Operation, i: int, x: Tensor, weight: Tensor, rest: Sequence[object]
    ) -> Tensor:
        self.seen[i] = x
        return operation(x.detach(), weight, *rest)

    def inputs(self) -> list[Tensor]:
        """The recorded inputs in the order of the weights."""
        return [self.seen[i] for i in sorted(self.seen)]


class LayerDirectFeedback(RandomFeedback, Backprop):
    """DFA at every layer: e_T·B_i is the credit of the whole input of weight i.

    From there it goes back through norms, nonlinearities and shortcuts, as far as the weights
    before. a_l is the sum over all layers that read h_l. B_i (C × values per sample) has variance
    1/C.

    Source: docs/protocol.md §5; Nøkland, NeurIPS 2016; on convolutions: Sanfiz & Akrout, 2021
    (BioTorch).
    """

    name = "dfa_layers"
    convert_tensors = Method.convert_tensors

    def __init__(self, net: StreamNet, generator: torch.Generator) -> None:
        layers = LayerInputs(carrying_weights(net))
        blank = torch.zeros(2, *net.input_shape).to(net.head.weight)
        with torch.no_grad(), untracked_statistics(net), layers:
            net(blank)
        shapes = [(net.num_classes, x[0].numel()) for x in layers.inputs()]
        super().__init__(net, generator, shapes)

    def _projected(self, layers: LayerInputs, logits: Tensor, y: Tensor) -> Tensor:
        """Σ_i batch mean of ⟨input of weight i, e_T·B_i⟩."""
        inputs = layers.inputs()
        error = output_error(logits, y)
        projected = []
        for x, B in zip(inputs, self.buffers(), strict=True):
            projected.append((error @ B.to(error.dtype)).view_as(x))
        return local_term(inputs, projected)

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        with LayerInputs(carrying_weights(net)) as layers:

            def objective(z: Tensor) -> Tensor:
                return len(y) * self._projected(layers, z, y)

            return list(summed_gradients(net, stream[0], y, objective))

    def loss(
        self, net: StreamNet, x: Tensor, y: Tensor, lam: float = 0.0
    ) -> tuple[Tensor, StepInfo]:
        with LayerInputs(carrying_weights(net)) as layers:
            loss, info = super().loss(net, x, y, lam)
        return loss + self._projected(layers, info.logits, y), info


class Mirror(WeightMode):
    """Sends noise through every weight during a pass; `seen` has their M (see `WeightMirror`)."""

    def linear(
        self, operation: Operation, i: int, x: Tensor, weight: Tensor, rest: Sequence[object]
    ) -> Tensor:
        noise = torch.randn_like(x)
        unbiased = without_bias(rest)
        answer = operation(noise, weight, *unbiased)

        def products(x: Tensor, y: Tensor) -> Tensor:
            """Σ x·yᵀ over the batch and all positions, in the shape of the weight."""
            with torch.enable_grad():
                blank = torch.zeros_like(weight, requires_grad=True)
                total = (operation(x, blank, *unbiased) * y).sum()
                (found,) = torch.autograd.grad(total, blank)
            return found

        sums = products(noise, answer)
        counts = products(torch.ones_like(x), torch.ones_like(answer))
        self.seen[i] = torch.empty_like(self.weights[i])
        M = self.seen[i].as_strided(weight.size(), weight.stride())
        M.copy_(sums / counts)
        return operation(x, weight, *rest)
