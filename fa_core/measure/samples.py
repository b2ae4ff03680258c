"""Whether the samples of a batch are independent along the first axis, and the network stateless.

Source: docs/protocol.md §2, *The stream, proven*.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fa_core.errors import MeasureError
from fa_core.measure.isolate import Inputs, RngState, first_of, select_samples, tree_map
from fa_core.measure.norms import agree, wrong_axis
from fa_core.measure.taps import Stream


class SampleProof:
    """Two more runs of the first batch, after all others: as it is, and with samples changed.

    The first must give the first pass' logits. In the second every other sample is a copy of one
    that is not; the others' logits and that one's states must stay. This needs no gradient, so
    detached and custom backward passes are no exception. Networks that draw random numbers are
    compared by the same draws.

    Args:
        forward: runs the network.
        x: inputs of the first batch.
        logits: of its pass.
    """

    def __init__(self, forward: Callable[[Inputs], Stream], x: Inputs, logits: Tensor) -> None:
        self._forward = forward
        self._x = x
        self._logits = logits.detach()
        self._drew = False

    def check(self) -> None:
        """Run the batch again.

        Raises:
            MeasureError: samples depend on each other, or the network keeps state.
            TapError: the samples of a state do.
        """
        again = self._run(self._x)
        first = self._run(self._x).logits if self._drew else self._logits
        _check_stateless(first, again.logits)
        size = len(first_of(self._x))
        kept = torch.arange(min(1, size - 1), size, 2)
        one = int(kept[len(kept) // 2])
        order = torch.full((size,), one)
        order[kept] = kept
        changed = self._run(select_samples(self._x, order.to(first_of(self._x).device)))
        if not agree(again.logits[kept], changed.logits[kept]):
            # a state may alternate from call to call
            for _ in range(2):
                _check_stateless(first, self._run(self._x).logits)
            raise self._dependent()
        for name, h, other in zip(changed.names, again.hidden, changed.hidden, strict=False):
            if not agree(h[one], other[one]):
                raise wrong_axis(name, other, size)

    def _run(self, x: Inputs) -> Stream:
        rng = RngState()
        with rng.isolated():
            stream = self._forward(x)
        self._drew = self._drew or rng.noticed
        return stream

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
            if agree(logits[:, one], changed[:, one]):
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


def _check_stateless(first: Tensor, again: Tensor) -> None:
    """Refuse a network that gives other logits when the first batch is run again.

    Raises:
        MeasureError: it does.
    """
    if not agree(first, again):
        raise MeasureError(
            "the network keeps state between calls: the first batch, run again, gives other logits",
            hint="call its reset in its forward, e.g. in a module around it",
        )
