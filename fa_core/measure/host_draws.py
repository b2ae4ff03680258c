"""Python's and NumPy's random numbers while a network is measured: the same ones every time, and noticed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_SEED = 0
_FIRST = random.Random(_SEED).random(), np.random.RandomState(_SEED).random_sample()


class HostDraws:
    """What a network draws from the global generators of `random` and `numpy.random`, apart from the caller's draws.

    The first passes start from a fixed seed, the next ones where those before left off.

    Attributes:
        noticed: a pass drew random numbers.
    """

    def __init__(self) -> None:
        # only NumPy's own kind can be seeded; a caller who put another one in its place keeps it
        self._numpy = np.random.get_state(legacy=False)["bit_generator"] == "MT19937"
        self._left_off: tuple[Any, Any] | None = None
        self.noticed = False

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Around passes of the network; the caller's generators are as before after it."""
        outside = self._states()
        try:
            self._begin()
            yield
            self._end()
        finally:
            self._set(outside)

    def _begin(self) -> None:
        if self._left_off is not None:
            self._set(self._left_off)
            return
        random.seed(_SEED)
        if self._numpy:
            np.random.seed(_SEED)

    def _end(self) -> None:
        untouched = self._left_off is None and (random.random(), self._next_of_numpy()) == _FIRST
        if not untouched:
            self.noticed = True
            self._left_off = self._states()

    def _next_of_numpy(self) -> float:
        return np.random.random_sample() if self._numpy else _FIRST[1]

    def _states(self) -> tuple[Any, Any]:
        return random.getstate(), np.random.get_state() if self._numpy else None

    def _set(self, states: tuple[Any, Any]) -> None:
        random.setstate(states[0])
        if self._numpy:
            np.random.set_state(states[1])
