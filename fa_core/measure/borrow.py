"""The one way in which a network is measured: which copy, which device, which arithmetic."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain

import torch
from torch import Tensor, nn

from fa_core.errors import MeasureError, UsageError
from fa_core.measure.arithmetic import full_float32
from fa_core.measure.as_found import as_found
from fa_core.measure.draws import Draws

DTYPES = {"float32": torch.float32, "float64": torch.float64}
AS_IS = "as-is"
HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Borrowed:
    """A network ready to be measured.

    Attributes:
        model: the network itself, or a copy where dtype or device had to change; in eval mode, frozen.
        device: where batches go.
        dtype: what floating-point inputs are cast to; None leaves them alone.
        as_is: half precision is measured as it runs, so its near-ties stay as they come out.
        draws: the random numbers of its passes.
    """

    model: nn.Module
    device: torch.device
    dtype: torch.dtype | None
    as_is: bool = False
    draws: Draws = field(default_factory=Draws)


@contextmanager
def borrow(
    model: nn.Module, dtype: str | torch.dtype | None = None, device: str | torch.device | None = None
) -> Iterator[Borrowed]:
    """Lend `model` out for measuring: eval mode, parameters frozen, gradients on, TF32 and autocast off.

    Args:
        model: the network; it comes back as it went in (see `as_found`).
        dtype: None measures fp16 and bf16 networks in float32 on a copy and others as they are;
            ``"float32"`` and ``"float64"`` measure in that; ``"as-is"`` leaves half precision, and
            the caller's autocast, alone.
        device: None measures where the network is; another device measures a copy there.

    Raises:
        UsageError: an unknown dtype.
        MeasureError: the network has to be copied and cannot be.
    """
    model = as_written(model)
    tensors = _floating(model)
    target = _target(tensors, dtype)
    place = _device(model, device)
    working = model
    if any((target and t.dtype != target) or t.device != place for t in _to_check(tensors, device)):
        working = _copied(model).to(device=place, dtype=target)
        tensors = _floating(working)
    as_is = dtype == AS_IS
    with ExitStack() as stack:
        stack.enter_context(as_found(working))
        stack.enter_context(measuring_arithmetic(place, as_is))
        working.eval().requires_grad_(False)
        inputs = target or next((t.dtype for t in tensors), None)
        draws = Draws({place, *(t.device for t in tensors)})
        yield Borrowed(working, place, inputs, as_is, draws)


@contextmanager
def measuring_arithmetic(place: torch.device, as_is: bool = False) -> Iterator[None]:
    """Gradients on, TF32 off and, unless ``as_is``, autocast off."""
    with ExitStack() as stack:
        stack.enter_context(full_float32())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        if not as_is:
            stack.enter_context(torch.autocast(place.type, enabled=False))
        yield


def as_written(model: nn.Module) -> nn.Module:
    """A compiled network as it was before."""
    written: nn.Module = getattr(model, "_orig_mod", model)
    return written


def target_dtype(model: nn.Module, dtype: str | torch.dtype | None = None) -> torch.dtype | None:
    """What a network's floating-point tensors are converted to for measuring; None = they stay as they are.

    Raises:
        UsageError: an unknown dtype.

    >>> target_dtype(nn.Linear(1, 1).half()), target_dtype(nn.Linear(1, 1))
    (torch.float32, None)
    """
    return _target(_floating(model), dtype)


def _target(tensors: list[Tensor], dtype: str | torch.dtype | None) -> torch.dtype | None:
    if dtype == AS_IS:
        return None
    if dtype is None:
        return torch.float32 if any(t.dtype in HALF for t in tensors) else None
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise UsageError(f"unknown dtype {name!r}", where="dtype", hint='one of None, "float32", "float64", "as-is"')
    return DTYPES[name]


def float64_copy(model: nn.Module) -> nn.Module:
    """A copy of a network in float64, for recomputing what float32 cannot decide.

    It stays on its device, except where that device has no float64 (Apple's MPS): then on the CPU.
    """
    twin = _copied(model)
    if any(p.device.type == "mps" for p in chain(model.parameters(), model.buffers())):
        twin = twin.to("cpu")
    return twin.double()


def wide(tensor: Tensor) -> Tensor:
    """`tensor` in float64, outside the graph; on the CPU where its device has no float64.

    >>> wide(torch.ones(2, dtype=torch.float16)).dtype
    torch.float64
    """
    tensor = tensor.detach()
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).to(torch.float64)


def _to_check(tensors: list[Tensor], device: object) -> list[Tensor]:
    """A network spread over devices is left so, unless one device was asked for."""
    return tensors if device is not None or len({t.device for t in tensors}) <= 1 else []


def _floating(model: nn.Module) -> list[Tensor]:
    return [t for t in chain(model.parameters(), model.buffers()) if t.is_floating_point()]


def _device(model: nn.Module, device: str | torch.device | None) -> torch.device:
    if device is not None:
        try:
            wanted = torch.device(device)
            # an index makes "cuda" and the "cuda:0" of a parameter comparable
            return torch.empty(0, device=wanted).device
        except (RuntimeError, AssertionError) as error:
            raise UsageError(
                f"no such device {str(device)!r}: {str(error).splitlines()[0]}", where="device", hint="try cpu"
            ) from error
    first = next(chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if first is None else first.device


def _copied(model: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(model)
    except Exception as error:
        raise MeasureError(
            f"the network cannot be copied ({type(error).__name__}: {error})",
            hint='convert it yourself, e.g. model.float(), or measure it with dtype="as-is"',
        ) from error
