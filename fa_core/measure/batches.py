"""Eval batches at the door: what comes in is (x, y) with one class index per sample, or is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from fa_core.errors import MeasureError
from fa_core.measure.isolate import Borrowed


def counted(batches: Iterable[Any]) -> tuple[Iterable[Any], int]:
    """The batches and how many there are; a generator is read into a list first.

    Raises:
        MeasureError: there are none.
    """
    try:
        total = len(batches)  # type: ignore[arg-type]
    except TypeError:  # a generator, or a loader of unknown length
        batches = list(batches)
        total = len(batches)
    if not total:
        raise MeasureError("there are no eval batches", hint="give at least one (x, y); drift needs 8 of 128")
    return batches, total


def placed(batch: Any, index: int, net: Borrowed) -> tuple[Tensor, Tensor]:
    """One batch as tensors on the network's device, floating inputs in its dtype.

    Args:
        batch: (x, y): x (B, ...), y (B,) integer class indices; anything `torch.as_tensor` takes.
        index: its place among the batches, for messages.
        net: the borrowed network.

    Raises:
        MeasureError: not a pair, no samples, unequal lengths, or labels that are no class indices.
    """
    x, y = pair(batch, index)
    if int(y.min()) < 0:
        raise MeasureError(
            f"label {int(y.min())} is negative", where=f"eval batch {index}", hint="classes are numbered from 0"
        )
    return on_device(x, y, net.device, net.dtype)


def on_device(x: Tensor, y: Tensor, device: torch.device, dtype: torch.dtype | None) -> tuple[Tensor, Tensor]:
    """A pair where the network is, floating inputs in its dtype."""
    return x.to(device=device, dtype=dtype if x.is_floating_point() else None), y.to(device=device, dtype=torch.int64)


def pair(batch: Any, index: int) -> tuple[Tensor, Tensor]:
    """One batch as tensors where they are, one label per sample; the labels' values are not looked at.

    Raises:
        MeasureError: as `placed`, but for negative labels.
    """
    where = f"eval batch {index}"
    if not (isinstance(batch, (tuple, list)) and len(batch) == 2):
        raise MeasureError(f"it is a {type(batch).__name__}", where=where, hint="a batch is a pair (x, y)")
    try:
        x, y = (_recordable(torch.as_tensor(part)) for part in batch)
    except (TypeError, ValueError, RuntimeError) as error:
        raise MeasureError(f"no tensors: {error}", where=where, hint="a batch is a pair (x, y) of arrays") from error
    if x.dim() == 0 or len(x) == 0:
        raise MeasureError("it has no samples", where=where, hint="drop empty batches")
    if y.dim() != 1 or len(y) != len(x):
        raise MeasureError(
            f"labels have shape {tuple(y.shape)} for inputs of shape {tuple(x.shape)}",
            where=where,
            hint="labels are (B,) class indices",
        )
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        kind = str(y.dtype).removeprefix("torch.")
        raise MeasureError(f"labels are {kind}", where=where, hint="labels are integer class indices")
    return x, y


def _recordable(tensor: Tensor) -> Tensor:
    """A tensor made under inference mode cannot enter a graph; its copy can."""
    return tensor.clone() if tensor.is_inference() else tensor
