"""Copies of a network, on another device or in another precision."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from fa_core.errors import MeasureError, first_line


def tensors_in(model: nn.Module) -> Iterator[Tensor]:
    """Parameters and buffers."""
    return chain(model.parameters(), model.buffers())


class _Copying(TorchFunctionMode):
    """Lets `copy.deepcopy` move and convert tensors, and copy those of a graph without it.

    It refuses the latter. Tensors of another precision than the network's are not converted.
    """

    def __init__(
        self, model: nn.Module, device: torch.device | None, dtype: torch.dtype | None
    ) -> None:
        super().__init__()
        self._own = {tensor.dtype for tensor in tensors_in(model) if tensor.is_floating_point()}
        self._device = device
        self._dtype = dtype

    def __torch_function__(
        self, func: Callable[..., object], types: object, args: Any = (), kwargs: Any = None
    ) -> object:
        if func is not Tensor.__deepcopy__:
            return func(*args, **kwargs or {})
        tensor: Tensor = args[0]
        tensor = cast(Tensor, func(*args)) if tensor.is_leaf else tensor.detach().clone()
        return tensor.to(self._device, self._dtype if tensor.dtype in self._own else None)


def copied(
    model: nn.Module, device: torch.device | None = None, dtype: torch.dtype | None = None
) -> nn.Module:
    """A copy of a network, on another device or in another precision.

    Tensors that are neither parameters nor buffers are moved and converted too. Activations that
    the network keeps lose their graph.

    Raises:
        MeasureError: it cannot be copied.
    """
    try:
        with _Copying(model, device, dtype):
            return copy.deepcopy(model).to(device=device, dtype=dtype)
    except Exception as error:
        raise MeasureError(
            f"the network cannot be copied ({type(error).__name__}: {first_line(error)})",
            hint="a network in eval mode that has the precision already is not copied: "
            'model.float().eval(), model.double() for credit; or measure with dtype="as-is"',
        ) from error


def on_meta(model: nn.Module) -> nn.Module:
    """A copy of a network without memory: all its parameters and buffers are on the meta device.

    The network itself if it cannot be copied. Tensors that share memory become one.
    """
    made: dict[object, Tensor] = {}
    memo: dict[int, Any] = {}
    try:
        for one in tensors_in(model):
            if is_lazy(one):
                kind: Any = type(one)
                memo[id(one)] = kind(device="meta")  # torch cannot copy a buffer of this kind
            else:
                key = (one.data_ptr() or id(one), one.shape)
                memo[id(one)] = made.setdefault(key, torch.empty_like(one, device="meta"))
        with _Copying(model, None, None):
            return copy.deepcopy(model, memo)
    except Exception:
        return model
