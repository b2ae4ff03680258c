"""Plain IEEE float32: TF32 and its kin switched off for a while, then put back as they were.

The samples are the caller's, and a network may write into them.

Python's and NumPy's random numbers while a network is measured: the same ones every time, and noticed.

Random numbers that a network draws while it is measured: the same ones every time, and noticed.

A borrowed network comes back exactly as it was found, whatever happened in between.

The one way in which a network is measured: which copy, which device, which arithmetic.
"""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from fa_core import models
from fa_core.errors import MeasureError, UsageError


def _knobs() -> list[Any]:
    """The objects whose ``fp32_precision`` decides how a float32 product is computed (torch ≥ 2.9)."""
    backends: Any = torch.backends
    owners = [getattr(backends.cuda, "matmul", None)]
    for library in (backends.cudnn, backends.mkldnn):
        owners += [getattr(library, kind, None) for kind in ("matmul", "conv", "rnn")]
    return [owner for owner in owners if hasattr(owner, "fp32_precision")]


def _legacy_state() -> tuple[str | None, bool | None]:
    """What the older switches say; None where torch refuses to say because the newer ones were used."""
    matmul: str | None = None
    cudnn: bool | None = None
    with suppress(RuntimeError):
        matmul = torch.get_float32_matmul_precision()
    with suppress(RuntimeError):
        cudnn = bool(torch.backends.cudnn.allow_tf32)
    return matmul, cudnn


def _set_legacy(matmul: str | None, cudnn: bool | None) -> None:
    if matmul is not None:
        torch.set_float32_matmul_precision(matmul)
    if cudnn is not None:
        torch.backends.cudnn.allow_tf32 = cudnn


@contextmanager
def full_float32() -> Iterator[None]:
    """Compute float32 products in float32: no TF32 in matmul, convolution or RNN, no bf16 on CPUs.

    Both generations of PyTorch's switches are set and restored, because either may have been used by
    the caller and reading one after setting the other is an error there.

    Source: docs/protocol.md §3 ("fp32 forward and backward with TF32 off").

    >>> before = torch.backends.cudnn.allow_tf32
    >>> with full_float32():
    ...     torch.backends.cudnn.allow_tf32
    False
    >>> torch.backends.cudnn.allow_tf32 == before
    True
    """
    matmul, cudnn = _legacy_state()
    saved = [(owner, owner.fp32_precision) for owner in _knobs()]
    try:
        _set_legacy(None if matmul is None else "highest", None if cudnn is None else False)
        for owner, _ in saved:
            owner.fp32_precision = "ieee"
        yield
    finally:
        _set_legacy(matmul, cudnn)
        for owner, precision in saved:
            owner.fp32_precision = precision


def lent(model: nn.Module, x: Tensor, gradients: bool = False) -> Tensor:
    """One batch for one forward pass: itself for a built-in network, which leaves it alone, else a copy.

    Copying takes 2 % of a pass with gradients, 5 % of one without.

    Args:
        model: the network.
        x: (B, ...).
        gradients: whether floating-point samples carry a gradient, where gradients are on.
    """
    # .data, as .detach() would bring along the count of the caller's own writes
    mine = x.data
    if gradients and mine.is_floating_point() and torch.is_grad_enabled():
        mine.requires_grad_()
    built_in = type(model).__module__.startswith(f"{models.__name__}.")
    return mine if built_in else mine.clone()


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


DREW = "the network draws random numbers in eval mode: its numbers are of one draw"
"""What a report of such a network says."""

_draws_SEED = 0


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
                generator.manual_seed(_draws_SEED)
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


@contextmanager
def as_found(model: nn.Module) -> Iterator[nn.Module]:
    """Lend `model` out and restore it: modes, requires_grad, .grad, buffers, and the random state.

    Restored also when the body raises:
        - ``training`` of every submodule by itself (a frozen BatchNorm inside a training net stays frozen),
        - ``requires_grad`` and the identity of ``.grad`` of every parameter,
        - identity and content of every buffer,
        - the random generators of torch (CPU and every CUDA device in use), NumPy and Python.

    Source: README, "From Python" ("gives the model back as it found it").

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    >>> _ = net[1].eval()
    >>> with as_found(net):
    ...     _ = net.eval().requires_grad_(False)
    >>> net.training, net[1].training, net[0].weight.requires_grad
    (True, False, True)
    """
    modes = [(module, module.training) for module in model.modules()]
    parameters = [(p, p.requires_grad, p.grad) for p in model.parameters()]
    buffers = [
        (module, name, buffer, buffer._version, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    with _same_random_state():
        try:
            yield model
        finally:
            for module, training in modes:
                module.training = training
            for parameter, requires_grad, grad in parameters:
                parameter.requires_grad_(requires_grad)
                parameter.grad = grad
            for module, name, buffer, version, content in buffers:
                module._buffers[name] = buffer
                _restore(buffer, version, content)


def _restore(buffer: Tensor, version: int, content: Tensor) -> None:
    # writing bumps the version, which would break a graph of the caller's that saved this buffer
    if buffer._version != version or not torch.equal(buffer, content):
        with torch.no_grad():
            buffer.copy_(content)


@contextmanager
def _same_random_state() -> Iterator[None]:
    numpy: Any = sys.modules.get("numpy")
    python_state = random.getstate()
    numpy_state = numpy.random.get_state(legacy=False) if numpy else {}
    cuda: Any = torch.cuda
    devices = range(torch.cuda.device_count()) if cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=list(devices)):
        try:
            yield
        finally:
            random.setstate(python_state)
            if numpy_state.get("bit_generator") == "MT19937":
                numpy.random.set_state(numpy_state)
            elif numpy:
                # one that the caller put in its place: `set_state` refuses those
                numpy.random.get_bit_generator().state = numpy_state


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
