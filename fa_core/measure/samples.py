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
    """Runs of the first batch, and of changed ones.

    It changes every sample but one, into copies of that one: its states and logits must stay. This
    needs no gradient, so detached and custom backward passes are no exception. Networks that draw
    random numbers are compared by the same draws.

    Args:
        forward: runs the network.
        x: inputs of the first batch.
    """

    def __init__(self, forward: Callable[[Inputs], Stream], x: Inputs) -> None:
        self._forward = forward
        self._x = x
        self._logits: Tensor | None = None

    def independent(self, stream: Stream) -> None:
        """Check the stream of the first batch.

        Raises:
            MeasureError: samples depend on each other, or the network keeps state.
        """
        found = _values(stream)
        self._logits = found[0]
        size = len(first_of(self._x))
        one = size // 2
        alone = select_samples(self._x, torch.full((size,), one))
        changed = self._run(alone)
        if not _same(found[0][one], changed[0][one]):
            found = self._run(self._x)
            self._logits = found[0]
            self.stateless()
            changed = self._run(alone)
            if not _same(found[0][one], changed[0][one]):
                raise self._dependent(found[0])
        for name, h, other in zip(stream.names, found[1:], changed[1:], strict=False):
            if not _same(h[one], other[one]):
                raise wrong_axis(name, h, size)

    def stateless(self) -> None:
        """Check that the first batch still gives the same logits.

        Raises:
            MeasureError: it does not.
        """
        assert self._logits is not None, "the first batch comes first"
        if not _same(self._logits, self._run(self._x)[0]):
            raise MeasureError(
                "the network keeps state between calls: the first batch, run again, gives other "
                "logits",
                hint="call its reset in its forward, e.g. in a module around it",
            )

    def _run(self, x: Inputs) -> list[Tensor]:
        with RngState().isolated():
            return _values(self._forward(x))

    def _dependent(self, logits: Tensor) -> MeasureError:
        """The error for samples that depend on each other; it names another axis of the batch."""
        second = first_of(self._x)
        if logits.dim() > 2 and second.dim() > 1 and second.shape[:2] == logits.shape[:2]:
            one = second.shape[1] // 2

            def alone(tensor: Tensor) -> Tensor:
                if tensor.dim() < 2 or tensor.shape[:2] != second.shape[:2]:
                    return tensor
                return tensor[:, one : one + 1].expand_as(tensor)

            changed = self._run(tree_map(alone, self._x))[0]
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


def _values(stream: Stream) -> list[Tensor]:
    return [value.detach() for value in (stream.logits, *stream.hidden)]


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether values agree up to rounding; what is not finite is not compared."""
    if one.shape != other.shape:
        return False
    rounding = 16 * torch.finfo(one.dtype).eps
    one = one.nan_to_num(0.0, 0.0, 0.0)
    other = other.nan_to_num(0.0, 0.0, 0.0)
    largest = float(one.abs().max()) if one.numel() else 0.0
    return torch.allclose(one, other, rtol=rounding, atol=rounding * largest)
