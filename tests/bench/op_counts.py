"""Counting what a computation asks of the device: operations, bytes, and where the host waits for an answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

WAITING = ("_local_scalar_dense", "nonzero", "equal", "masked_select")
"""Operations whose result the host has to know before it can go on."""

FETCHING = ("tolist", "cpu", "numpy")
"""Methods of a tensor that fetch it."""


@dataclass
class Counts:
    """What was asked of the device.

    Attributes:
        operations: aten operations that compute or copy something: about as many launches on a GPU.
        waits: how often the host would wait for the device.
        bytes: read and written by the operations.
    """

    operations: int = 0
    waits: int = 0
    bytes: int = 0


def count(run: Callable[[], object]) -> Counts:
    """Run once and count."""
    counts = Counts()
    with ExitStack() as stack:
        stack.enter_context(_Fetches(counts))
        stack.enter_context(_Operations(counts))
        run()
    return counts


class _Fetches(TorchFunctionMode):
    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self._counts = counts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._counts.waits += getattr(func, "__name__", "") in FETCHING
        return func(*args, **(kwargs or {}))


class _Operations(TorchDispatchMode):
    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self._counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        self._counts.waits += func.__name__.split(".")[0] in WAITING or _by_mask(func, args)
        if not func.is_view and func.__name__ not in ("detach.default", "empty.memory_format"):
            self._counts.operations += 1
            self._counts.bytes += sum(t.nbytes for t in (*_tensors(args), *_tensors((output,))))
        return output


def _by_mask(func: Any, args: Any) -> bool:
    """Picking by a mask needs to know how many there are."""
    indices = (
        args[1]
        if func.__name__.startswith("index") and len(args) > 1 and isinstance(args[1], list)
        else []
    )
    return any(index is not None and index.dtype == torch.bool for index in indices)


def _tensors(values: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found += _tensors(value)
    return found
