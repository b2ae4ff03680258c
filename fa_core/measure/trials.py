"""What is proven by running the first batch again, after all others: no graph is needed.

Source: docs/protocol.md §2, *The stream, proven*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch
from torch import Tensor, nn

from fa_core.errors import MeasureError
from fa_core.measure.flow import Flow, behind
from fa_core.measure.gradients import IGNORED
from fa_core.measure.isolate import Inputs, RngState, first_of, select_samples
from fa_core.measure.norms import agree, wrong_axis
from fa_core.measure.stream import Stream, no_stream, state_of

Places: TypeAlias = Mapping[int, tuple[int, str]]
"""The operations that give states, by their numbers from `Flow.begin` on: l of h_l, and a name."""


def places_of(flow: Flow, stream: Stream) -> Places:
    """Where a pass gave its states; of a returned copy that nothing reads, what it copies."""
    logits = flow.made(stream.logits)
    used = set() if logits is None else behind(flow, [logits])
    return {
        node - flow.begin: (l, flow.operations[node].name)
        for l, cut in enumerate(stream.cuts)
        for node in state_of(flow, used, cut)
    }


class _Pinned(Flow):
    """A pass whose states are overwritten by vectors that are the same for all samples.

    What still differs between samples comes from the input past these states, in whatever way.
    Positions have the same vector too, so masks and lengths select among equal ones.

    Args:
        model: the network.
        x: inputs of the pass.
        places: the states.

    Attributes:
        pinned: the layers that were overwritten.
        differing: those that differed between samples before.
    """

    def __init__(self, model: nn.Module, x: Inputs, places: Places) -> None:
        super().__init__(model, x)
        self._places = places
        self._size = len(first_of(x))
        self.pinned: set[int] = set()
        self.differing: set[int] = set()

    def gave(self, node: int, given: list[Tensor]) -> None:
        layer, name = self._places.get(node - self.begin, (-1, ""))
        if name != self.operations[node].name:
            return
        self.pinned.add(layer)
        for tensor in filter(Tensor.is_floating_point, given):
            is_state = tensor.dim() > 1 and len(tensor) == self._size
            if is_state and not agree(tensor[:1].expand_as(tensor), tensor):
                self.differing.add(layer)
            # a state that is written part by part is overwritten as a whole
            whole = tensor.untyped_storage().nbytes() // tensor.element_size()
            tensor.as_strided((whole,), (1,), 0).fill_(1)
            if is_state:
                tensor.copy_(torch.linspace(0.5, 2, tensor.shape[-1]))


_STATE = MeasureError(
    "the network keeps state between calls: the first batch, run again, gives other logits",
    hint="call its reset in its forward, e.g. in a module around it",
)


_DEPENDENT = MeasureError(
    "samples along axis 0 of a batch depend on each other, also in eval mode",
    hint="where the batch is axis 1, give x.transpose(0, 1) and y.transpose(0, 1), and wrap the "
    "network in a module that turns x, logits and states back; else fix what is computed over the "
    "batch, as statistics of a norm are",
)


class Trials:
    """Four more runs of the first batch, after all others.

    - As it is: the logits must be those of the first pass.
    - Twice with a half of the samples moved to other places in the batch, and the other half
      changed to copies of one of these. What was moved must keep its logits, and one sample its
      states. So a sample that depends on a place in the batch is found, and one that depends on the
      content of a single other sample with a probability of 1/2.
    - With all states the same vector (see `_Pinned`): the logits must be the same for all samples.
      A block whose state differs reads a side input.

    State between calls is found if it is another one in one of the first three. A network that
    draws random numbers is compared by the same draws, and no sample is moved.

    This needs no gradient, so detached and custom backward passes are no exception.

    Args:
        forward: runs the network.
        model: the network.
        x: inputs of the first batch.
        y: its labels.
        stream: of its pass.
        places: of its states.
    """

    def __init__(
        self,
        forward: Callable[[Inputs], Stream],
        model: nn.Module,
        x: Inputs,
        y: Tensor,
        stream: Stream,
        places: Places,
    ) -> None:
        self._forward = forward
        self._model = model
        self._x = x
        self._counted = y != IGNORED
        self._places = places
        self._names = stream.names
        self._size = len(y)
        self._draws = False
        self._expect(stream)

    def check(self) -> bool:
        """Run the batch again.

        Returns:
            Whether a block reads a side input.

        Raises:
            MeasureError: samples depend on each other, or the network keeps state.
            TapError: the samples of a state do, or the logits depend on the input past h_L.
        """
        again = self._run(self._x)
        if self._draws:
            self._expect(again)
        elif not agree(self._logits, again.logits):
            raise _STATE
        generator = torch.Generator().manual_seed(self._size)
        circle = torch.randperm(self._size, generator=generator)
        half = self._size // 2
        for kept, changed in ((circle[half:], circle[:half]), (circle[:half], circle[half:])):
            self._check_kept(kept, changed)
        return self._check_past()

    def _check_kept(self, kept: Tensor, changed: Tensor) -> None:
        """Move samples to the places after them in a circle of all, and change all others."""
        if len(kept) == 0:
            return
        circle = torch.cat([kept, changed])
        moved = circle if self._draws else circle.roll(1)
        order = torch.empty_like(circle)
        order[moved] = torch.cat([kept, kept[:1].expand_as(changed)])
        x = self._select(order)
        stream = self._run(x)
        places = moved[: len(kept)]
        if not agree(self._logits[kept], stream.logits[places]):
            raise _DEPENDENT if agree(stream.logits, self._run(x).logits) else _STATE
        place = places[kept == self._one]
        for name, h, other in zip(stream.names, self._states, stream.hidden, strict=False):
            if len(place) and not agree(h, other[place[0]]):
                raise wrong_axis(name, other, self._size)

    def _check_past(self) -> bool:
        last = len(self._names) - 1
        of_last = {node: one for node, one in self._places.items() if one[0] == last}
        found = True
        for places in (self._places, of_last):
            logits, run = self._pinned(self._x, places)
            # where other operations run for such states, h_L alone is overwritten
            if last not in run.pinned:
                continue
            counted = self._counted
            one = counted.int().argmax(0)[None, ..., None]
            expected = logits.take_along_dim(one, 0).expand_as(logits)
            if self._draws:
                rolled = torch.arange(self._size).roll(1)
                expected, _ = self._pinned(self._select(rolled), places)
                counted = counted & counted[rolled]
            found = agree(expected[counted], logits[counted])
            if found:
                blocks = {l for l in run.differing if l - 1 in run.pinned}
                return bool(blocks) and not self._draws
        if found:
            return False
        raise no_stream(
            f"past h_{last} ({self._names[last]}), the logits depend on the input: with the same "
            f"h_{last} for all samples they differ",
            hint="measure the network without that part, or with it before h_L",
        )

    def _pinned(self, x: Inputs, places: Places) -> tuple[Tensor, _Pinned]:
        with _Pinned(self._model, x, places) as run:
            stream = self._run(x)
        return stream.logits.detach(), run

    def _expect(self, stream: Stream) -> None:
        """Keep what other runs must give: logits, and one sample's states."""
        self._one = self._size // 2
        self._logits = stream.logits.detach()
        self._states = [h[self._one].detach().clone() for h in stream.hidden]

    def _select(self, order: Tensor) -> Inputs:
        return select_samples(self._x, order.to(first_of(self._x).device))

    def _run(self, x: Inputs) -> Stream:
        rng = RngState()
        with rng.isolated():
            stream = self._forward(x)
        self._draws = self._draws or rng.noticed
        return stream
