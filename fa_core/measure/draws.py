"""Random numbers that a network draws while it is measured: the same ones every time, and noticed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Generator, Tensor

from fa_core.measure.host_draws import HostDraws

DREW = "the network draws random numbers in eval mode: its numbers are of one draw"
"""What a report of such a network says."""

_SEED = 0


class Draws:
    """What a network's passes draw, apart from the caller's draws, which may pick the batches.

    The first passes start from a fixed seed, the next ones where those before left off. This goes for the global
    generators of torch, NumPy and Python; draws from one of the network's own are neither steadied nor noticed.

    Args:
        devices: where the network is.
    """

    def __init__(self, devices: Iterable[torch.device] = ()) -> None:
        cuda = sorted({device.index or 0 for device in devices if device.type == "cuda"})
        self._generators: list[Generator] = [torch.default_generator, *(torch.cuda.default_generators[i] for i in cuda)]
        self._left_off: list[Tensor] | None = None
        self._noticed = False
        self._host = HostDraws()
        self._inside = False

    @property
    def noticed(self) -> bool:
        """A pass drew random numbers."""
        return self._noticed or self._host.noticed

    def over(self, batches: object) -> AbstractContextManager[None]:
        """Around the passes over all batches: one `passing` where they lie ready, as nobody draws in between then.

        Saving, comparing and restoring the generators takes 1 % of a pass of the published size.
        """
        return self.passing() if isinstance(batches, (list, tuple)) else nullcontext()

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Around passes of the network; the caller's generators are as before after it. May be nested."""
        if self._inside:
            yield
            return
        self._inside = True
        outside = self._states()
        if self._left_off is None:
            for generator in self._generators:
                # torch.manual_seed would also decide the seed of a CUDA that is yet to be used
                generator.manual_seed(_SEED)
            begun = self._states()
        else:
            begun = self._left_off
            self._set(begun)
        try:
            with self._host.passing():
                yield
        finally:
            self._inside = False
            self._left_off = self._states()
            self._noticed = self._noticed or not all(map(torch.equal, begun, self._left_off))
            self._set(outside)

    def _states(self) -> list[Tensor]:
        return [generator.get_state() for generator in self._generators]

    def _set(self, states: list[Tensor]) -> None:
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state)
