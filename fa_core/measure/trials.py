"""What is proven by running the first batch again, after all others: no graph is needed.

Source: docs/protocol.md §2, *The stream, proven*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor, nn

from fa_core.errors import MeasureError
from fa_core.measure.flow import Flow, entries
from fa_core.measure.gradients import IGNORED
from fa_core.measure.isolate import Inputs, RngState, first_of, select_samples
from fa_core.measure.norms import agree, wrong_axis
from fa_core.measure.stream import Stream, no_stream

Places: TypeAlias = Mapping[int, tuple[int, str]]
"""The operations that give states, by their numbers from `Flow.begin` on: l of h_l, and a name."""


class _Pinned(Flow):  # type: ignore[no-untyped-call]
    """A pass whose states are overwritten by vectors that are the same for all samples.

    What still differs between samples comes from the input past these states, in whatever way.
    Positions have the same vector too, so masks and lengths select among equal ones. A sample is
    left as it is, see `_touched`.

    Args:
        model: the network.
        x: inputs of the pass.
        places: the states.

    Attributes:
        pinned: the layers that were overwritten, and whether they differed between samples before.
    """

    def __init__(self, model: nn.Module, x: Inputs, places: Places) -> None:
        super().__init__(model, x)
        self._places = places
        self._size = len(first_of(x))
        self.pinned: dict[int, bool] = {}

    def gave(self, node: int, given: list[Tensor]) -> None:
        layer, name = self._places.get(node - self.begin, (-1, ""))
        if name != self.operations[node].name:
            return
        self.pinned.setdefault(layer, False)
        for tensor in filter(Tensor.is_floating_point, given):
            before = tensor.clone()
            # a state that is written part by part is overwritten as a whole
            tensor.as_strided((entries(tensor),), (1,), 0).fill_(1)
            if tensor.dim() > 1 and len(tensor) == self._size:
                touched = _touched(self._size)
                tensor[:touched] = torch.linspace(0.5, 2, tensor.shape[-1])
                tensor[touched:] = before[touched:]
                others = before[1:touched]
                self.pinned[layer] |= not agree(before[:1].expand_as(others), others)


def _touched(size: int) -> int:
    """All samples but one; of two both, as else none would be compared with another."""
    return size - (size > 2)


@dataclass
class Trials:
    """Three more runs of the first batch, after all others.

    - Twice with a half of the samples moved to other places in the batch, and the other half
      changed to copies of one of these. What was moved must keep its logits, and one sample its
      states. So a sample that depends on a place in the batch is found, and one that depends on the
      content of a single other sample with a probability of 1/2.
    - With all states the same vector (see `_Pinned`): the logits must be the same for all samples
      but the untouched one, which must keep its own. A block whose state differs reads a side
      input.

    State between calls is found if it is another one than at first in one of the three. In a
    network that draws random numbers, the same ones in each run, no sample is moved, a run of the
    batch as it is stands for the first pass, and the last is left out.

    This needs no gradient, so detached and custom backward passes are no exception.

    Attributes:
        forward: runs the network.
        model: the network.
        x: inputs of the first batch.
        y: its labels.
        first: its pass, with the states of the samples at both ends of a circle.
        places: of its states.
        draws: whether the network drew random numbers.
    """

    forward: Callable[[Inputs], Stream]
    model: nn.Module
    x: Inputs
    y: Tensor
    first: Stream
    places: Places
    draws: bool

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(len(self.y))
        self._circle = torch.randperm(len(self.y), generator=generator)
        self._keep(self.first)

    def check(self) -> bool:
        """Run the batch again.

        Returns:
            Whether a block reads a side input.

        Raises:
            MeasureError: samples depend on each other, or the network keeps state.
            TapError: the samples of a state do, or the logits depend on the input past h_L.
        """
        if self.draws:
            self._keep(self._run(self.x))
        self._check_kept(0, self._circle)
        self._check_kept(-1, self._circle.flip(0))
        return not self.draws and self._check_past()

    def _check_kept(self, end: int, circle: Tensor) -> None:
        """Move one half of a circle of all samples one place on, and change the other half."""
        kept = circle[: (len(circle) + 1) // 2]
        to = (circle if self.draws else circle.roll(1))[: len(kept)]
        order = kept[:1].repeat(len(circle))
        order[to] = kept
        x = select_samples(self.x, order.to(first_of(self.x).device))
        stream = self._run(x)
        if not agree(self.first.logits[kept], stream.logits[to]):
            self._check_state(stream.logits, self._run(x).logits)
            raise MeasureError(
                "samples along axis 0 of a batch depend on each other, also in eval mode",
                hint="where the batch is axis 1, give x.transpose(0, 1) and y.transpose(0, 1), and "
                "wrap the network in a module that turns x, logits and states back; else fix what "
                "is computed over the batch, as statistics of a norm are",
            )
        for name, h, moved in zip(stream.names, self.first.hidden, stream.hidden, strict=False):
            if not agree(h[end], moved[to[0]]):
                raise wrong_axis(name, moved, len(circle))

    def _check_state(self, logits: Tensor, again: Tensor) -> None:
        """Refuse other logits than before for the same inputs, or than at first for the batch."""
        if not agree(logits, again) or not agree(self.first.logits, self._run(self.x).logits):
            raise MeasureError(
                "the network keeps state between calls: the first batch, run again, gives other "
                "logits",
                hint="call its reset in its forward, e.g. in a module around it",
            )

    def _check_past(self) -> bool:
        names = self.first.names
        last = len(names) - 1
        of_last = {node: one for node, one in self.places.items() if one[0] == last}
        touched = _touched(len(self.y))
        counted = self.y != IGNORED
        counted[touched:] = False
        proven = True
        for places in (self.places, of_last):
            run = _Pinned(self.model, self.x, places)
            with run:
                logits = self._run(self.x).logits
            if not agree(self.first.logits[touched:], logits[touched:]):
                with _Pinned(self.model, self.x, places):
                    again = self._run(self.x).logits
                self._check_state(logits, again)
            # where other operations run for such states, h_L alone is overwritten
            if last in run.pinned:
                one = logits.take_along_dim(counted.int().argmax(0)[None, ..., None], 0)
                proven = agree(one.expand_as(logits)[counted], logits[counted])
                if proven:
                    return any(l - 1 in run.pinned for l, differs in run.pinned.items() if differs)
        if proven:
            return False
        raise no_stream(
            f"past h_{last} ({names[last]}), the logits depend on the input: with the same "
            f"h_{last} for all samples they differ",
            hint="measure the network without that part, or with it before h_L",
        )

    def _keep(self, first: Stream) -> None:
        hidden = [h.detach()[self._circle[[0, -1]]] for h in first.hidden]
        self.first = replace(first, logits=first.logits.detach(), hidden=hidden, edges=())

    def _run(self, x: Inputs) -> Stream:
        with RngState().isolated():
            return self.forward(x)
