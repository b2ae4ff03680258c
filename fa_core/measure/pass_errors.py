"""Errors of a network's pass as one line: the batch, the cause and a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from fa_core.errors import FaError, MeasureError
from fa_core.measure.isolate import Inputs

IN_PLACE = "modified by an inplace operation"
"""In torch's message if the backward pass needs a value that was overwritten."""


class PassFailed(MeasureError, RuntimeError):
    """The network could not run on a batch; most often the data do not fit it."""


@contextmanager
def as_pass_failed(x: Inputs, where: str) -> Iterator[None]:
    """Raise a network's errors on a batch as `PassFailed`, except out-of-memory."""
    try:
        yield
    except (torch.OutOfMemoryError, FaError):
        raise
    except Exception as error:
        message = str(error).strip() or type(error).__name__
        what = message.splitlines()[0]
        if not isinstance(error, (RuntimeError, ValueError, IndexError)):
            what = f"{type(error).__name__}: {what}"
        raise PassFailed(
            f"the network failed on inputs {_shapes(x)}: {what}", where=where, hint=_remedy(what)
        ) from error


def _shapes(x: Inputs) -> str:
    """Names, shapes and types of the inputs."""
    parts = []
    for name, tensor in x.items() if isinstance(x, Mapping) else [("", x)]:
        if isinstance(tensor, Tensor):
            dtype = str(tensor.dtype).removeprefix("torch.")
            parts.append(f"{name} of shape {tuple(tensor.shape)}, {dtype}".strip())
    return ", ".join(parts)


def _remedy(message: str) -> str:
    """A remedy for a network's error, by its message."""
    for pattern, hint in _REMEDIES:
        if re.search(pattern, message, re.IGNORECASE):
            return hint
    return f"{_RAISED}; where it needs more than x, wrap it in a module that passes that on"


_ASK = "do these data belong to this network?"
_RAISED = "its forward raised it: run model(x) on this batch by itself"
_REMEDIES = (
    (
        "use_reentrant",
        "checkpoint with use_reentrant=False, or switch checkpointing off while measuring",
    ),
    ("inference tensor", "load or copy the network outside torch.inference_mode()"),
    ("same device|device type", "move the network to one device, or give device="),
    (
        "missing .*argument|takes .*argument|unexpected keyword|subscript|invalid data type|"
        "KeyError",
        "it is called as model(x): wrap it in a module whose forward takes x alone and passes on "
        "what else it needs, or give a function (model, x) -> (logits, states)",
    ),
    ("dtype|scalar type|input type", f"{_ASK} where they do, give x.float(), or {_RAISED}"),
    (
        "shape|size|dimension|channel|out of (range|bounds)|number of values|samples of",
        f"{_ASK} where they do, {_RAISED}",
    ),
)
"""Pattern in the message of an error → remedy; the first that matches is used."""


def check_logits(logits: object, y: Tensor, where: str) -> None:
    """Refuse an output that is not (B, C) logits, or (B, T, C) for labels (B, T).

    Raises:
        PassFailed: a wrong shape or dtype, a single class, or a label without a class.
    """
    if not isinstance(logits, Tensor):
        raise _no_logits(type(logits).__name__, y, where)
    if logits.shape[:-1] != y.shape or not logits.is_floating_point():
        raise _no_logits(str(tuple(logits.shape)), y, where)
    classes = logits.shape[-1]
    if classes == 1:
        raise PassFailed(
            "the network gives one logit per sample, and a softmax over one class is always 1",
            where=where,
            hint="for two classes, wrap it in a module that returns "
            "torch.cat([torch.zeros_like(z), z], dim=1)",
        )
    largest = int(y.max())
    if largest >= classes:
        raise PassFailed(
            f"label {largest} but the network has {classes} classes (0..{classes - 1})",
            where=where,
            hint=_ASK,
        )


def _no_logits(found: str, y: Tensor, where: str) -> PassFailed:
    labels = len(y) if y.dim() == 1 else tuple(y.shape)
    return PassFailed(
        f"the network's output is {found} for {labels} labels",
        where=where,
        hint="logits are (B, C) floats, (B, T, C) for labels (B, T), returned alone, as .logits or "
        "as ['logits']: wrap the network in a module that does so, or give a function "
        "(model, x) -> (logits, states)",
    )


_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an exception, or one of its causes, is an out-of-memory error.

    >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    True
    """
    while error is not None:
        if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
            return True
        message = str(error)
        if isinstance(error, RuntimeError) and any(part in message for part in _OUT_OF_MEMORY):
            return True
        error = error.__cause__
    return False
