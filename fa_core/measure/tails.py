"""Tails: the network from h_l on, for many versions of a batch's h_l at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from torch import Tensor, nn

from fa_core.errors import TapError
from fa_core.measure.patterns import match_modules
from fa_core.measure.taps import Taps, read_logits, replace_first_tensor

Tail: TypeAlias = Callable[[int, Tensor], Tensor]
"""``(l, states (M·B, ...)) -> logits (M·B, C)``, the rows in M rounds of the same B samples."""


def tail_of(model: nn.Module, x: Tensor, taps: Taps = None) -> Tail:
    """How to run `model` from h_l on.

    A network with a ``tail(l, h)`` of its own runs only that. With module-name taps the whole network runs
    and the tapped output is replaced on its way, which costs the part before l as well.

    Args:
        model: the network.
        x: the batch (B, ...) whose states will be moved.
        taps: as for `diagnose`.

    Raises:
        TapError: the stream is returned by a function, so that nothing can be run from its middle.
    """
    own: Any = getattr(model, "tail", None)
    if taps is None and callable(own):
        tail: Tail = own
        return tail
    if taps is None or callable(taps):
        raise TapError(
            f"{type(model).__name__} cannot be run from a hidden state on",
            hint="give it tail(l, h) -> logits, or name its blocks with taps",
        )
    names = match_modules(model, taps)

    def replaced(l: int, states: Tensor) -> Tensor:
        return _run_replaced(model, names, x, l, states)

    return replaced


def _run_replaced(model: nn.Module, names: list[str], x: Tensor, l: int, states: Tensor) -> Tensor:
    calls = 0

    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        nonlocal calls
        calls += 1
        return replace_first_tensor(output, states) if calls == l + 1 else None

    handles = [model.get_submodule(name).register_forward_hook(hook) for name in names]
    try:
        rounds = len(states) // len(x)
        logits: Tensor = read_logits(model(x.repeat(rounds, *(1 for _ in x.shape[1:]))))
    finally:
        for handle in handles:
            handle.remove()
    return logits
