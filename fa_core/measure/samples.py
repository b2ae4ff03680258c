"""Whether the samples of a batch are independent along the first axis, and the network stateless.

Source: docs/protocol.md §2, *The stream, proven*.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fa_core.errors import MeasureError
from fa_core.measure.isolate import Inputs, RngState, first_of, select_samples, tree_map
from fa_core.measure.norms import wrong_axis
from fa_core.measure.taps import Stream


class SampleProof:
    """Two more runs of the first batch, after all others, each with a half of the samples changed.

    The halves are drawn by chance, and each is the other's complement, so no distance between
    samples is left out. The samples that stay must keep the logits of the first pass, and one of
    them its states, although the others are copies of one that stays. This needs no gradient, so
    detached and custom backward passes are no exception. Networks that draw random numbers are
    compared by the same draws, with one run more.

    Args:
        forward: runs the network.
        x: inputs of the first batch.
        stream: of its pass.
    """

    def __init__(self, forward: Callable[[Inputs], Stream], x: Inputs, stream: Stream) -> None:
        self._forward = forward
        self._x = x
        self._size = len(first_of(x))
        self._drew = False
        generator = torch.Generator().manual_seed(self._size)
        self._half = torch.rand(self._size, generator=generator) < 0.5
        # the first sample may read the last, or the last the first
        self._half[-1] = False
        self._half[0] = True
        self._one = int(self._half.nonzero()[-1])
        self._expect(stream)

    def check(self) -> None:
        """Run the batch again.

        Raises:
            MeasureError: samples depend on each other, or the network keeps state.
            TapError: the samples of a state do.
        """
        for half in (self._half, ~self._half):
            kept = half.nonzero()[:, 0]
            order = torch.where(half, torch.arange(self._size), kept[:1].sum())
            changed = self._run(select_samples(self._x, order.to(first_of(self._x).device)))
            if not _same(self._logits[kept], changed.logits[kept]):
                raise self._changed()
            if half[self._one]:
                self._check_states(changed)

    def _expect(self, stream: Stream) -> None:
        """Keep what other runs must give: logits, and one sample's states."""
        self._logits = stream.logits.detach()
        self._states = [h[self._one].detach().clone() for h in stream.hidden]

    def _check_states(self, changed: Stream) -> None:
        for name, h, other in zip(changed.names, self._states, changed.hidden, strict=False):
            if not _same(h, other[self._one]):
                raise wrong_axis(name, other, self._size)

    def _run(self, x: Inputs) -> Stream:
        rng = RngState()
        with rng.isolated():
            stream = self._forward(x)
        if rng.noticed and not self._drew:
            self._drew = True
            self._expect(self._run(self._x))
        return stream

    def _changed(self) -> MeasureError:
        """The error for other logits: runs of the batch as it is tell state from dependence."""
        if all(_same(self._logits, self._run(self._x).logits) for _ in range(2)):
            return self._dependent()
        return MeasureError(
            "the network keeps state between calls: the first batch, run again, gives other logits",
            hint="call its reset in its forward, e.g. in a module around it",
        )

    def _dependent(self) -> MeasureError:
        """The error for samples that depend on each other; it names another axis of the batch."""
        second, logits = first_of(self._x), self._logits
        if logits.dim() > 2 and second.dim() > 1 and second.shape[:2] == logits.shape[:2]:
            one = second.shape[1] // 2

            def alone(tensor: Tensor) -> Tensor:
                if tensor.dim() < 2 or tensor.shape[:2] != second.shape[:2]:
                    return tensor
                return tensor[:, one : one + 1].expand_as(tensor)

            changed = self._run(tree_map(alone, self._x)).logits
            if _same(logits[:, one], changed[:, one]):
                return MeasureError(
                    f"the batch is axis 1 of {tuple(second.shape)}, not axis 0: samples along "
                    "axis 0 depend on each other",
                    hint="give x.transpose(0, 1) and y.transpose(0, 1), and wrap the network in a "
                    "module that turns x, logits and states back",
                )
        return MeasureError(
            "samples of a batch depend on each other, also in eval mode",
            hint="their numbers would be of the batch: fix what is computed over the batch "
            "(statistics of a norm, say), or bring the batch to axis 0",
        )


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether values agree up to rounding; what is not finite is not compared."""
    if one.shape != other.shape:
        return False
    rounding = 16 * torch.finfo(one.dtype).eps
    one = one.detach().nan_to_num(0.0, 0.0, 0.0)
    other = other.detach().nan_to_num(0.0, 0.0, 0.0)
    largest = float(one.abs().max()) if one.numel() else 0.0
    return torch.allclose(one, other, rtol=rounding, atol=rounding * largest)
