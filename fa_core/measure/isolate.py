"""The model comes back as it was: how a network is borrowed for measuring, and given back.

`eval_mode` puts a network, or a copy where device or precision have to change, into eval mode with
frozen parameters, full float32 arithmetic and random draws from a fixed seed. Modes, requires_grad,
gradients, buffers, the caller's random generators and PyTorch's precision switches are restored
afterwards, also when a pass raises.
"""

from __future__ import annotations

import copy
import platform
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.parameter import is_lazy

from fa_core import models
from fa_core.errors import MeasureError, UsageError

DTYPES = {"float32": torch.float32, "float64": torch.float64}
AS_IS = "as-is"
HALF = (torch.float16, torch.bfloat16)

DREW = "the network draws random numbers in eval mode: its numbers are of one draw"
"""What a report of such a network says."""

_SEED = 0


class RngState:
    """What a network's passes draw, apart from the caller's draws, which may pick the batches.

    The first passes start from a fixed seed, the next ones where those before left off. This goes
    for the global generators of torch, NumPy and Python; draws from one of the network's own are
    neither steadied nor noticed.

    Attributes:
        noticed: a pass drew random numbers.
    """

    def __init__(self) -> None:
        self._left_off: _GeneratorStates | None = None
        self._inside = False
        self.noticed = False

    def isolated_over(self, batches: object) -> AbstractContextManager[None]:
        """Around the passes over all batches: one `isolated` where they are a list, as no loader
        draws in between then.

        Saving, comparing and restoring the generators takes 1 % of a pass of the published size.
        """
        if isinstance(batches, (list, tuple)):
            return self.isolated()
        return nullcontext()

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Around passes of the network; the caller's generators are as before after it. May be
        nested."""
        if self._inside:
            yield
            return
        self._inside, outside = True, _GeneratorStates()
        if self._left_off is not None:
            self._left_off.restore()
        else:
            for generator in _torch_generators():
                # torch.manual_seed would also decide the seed of a CUDA that is yet to be used
                generator.manual_seed(_SEED)
            random.seed(_SEED)
            np.random.seed(_SEED)
        begun = _GeneratorStates()
        try:
            yield
        finally:
            self._inside, self._left_off = False, _GeneratorStates()
            self.noticed = self.noticed or not begun.same(self._left_off)
            outside.restore()


def _torch_generators() -> list[Generator]:
    """The CPU's, and those of CUDA devices once CUDA is in use."""
    return [torch.default_generator, *torch.cuda.default_generators]


class _GeneratorStates:
    """The state of the global generators of torch, Python and NumPy as it is now."""

    def __init__(self) -> None:
        self._torch = [(generator, generator.get_state()) for generator in _torch_generators()]
        self._python, self._numpy = random.getstate(), np.random.get_state()

    def restore(self) -> None:
        for generator, state in self._torch:
            generator.set_state(state)
        random.setstate(self._python)
        np.random.set_state(self._numpy)

    def same(self, other: _GeneratorStates) -> bool:
        alike = all(
            torch.equal(a, b) for (_, a), (_, b) in zip(self._torch, other._torch, strict=False)
        )
        return (
            alike
            and self._python == other._python
            and all(map(np.array_equal, self._numpy, other._numpy))
        )


@dataclass(frozen=True)
class EvalNetwork:
    """A network ready to be measured.

    Attributes:
        model: the network itself, or a copy where dtype or device had to change; in eval mode,
            frozen.
        device: where batches go.
        dtype: what floating-point inputs are cast to; None leaves them alone.
        as_is: half precision is measured as it runs, so its near-ties stay as they come out.
        rng: the random numbers of its passes.
    """

    model: nn.Module
    device: torch.device
    dtype: torch.dtype | None
    as_is: bool = False
    rng: RngState = field(default_factory=RngState)


@contextmanager
def eval_mode(
    model: nn.Module,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
) -> Iterator[EvalNetwork]:
    """Lend `model` out for measuring: eval mode, parameters frozen, gradients on, TF32 and autocast
    off.

    Args:
        model: the network; it comes back as it went in (see `as_found`).
        dtype: None measures fp16 and bf16 networks in float32 on a copy and others as they are;
            ``"float32"`` and ``"float64"`` measure in that; ``"as-is"`` leaves half precision, and
            the caller's autocast, alone.
        device: None measures where the network is; another device measures a copy there.

    Raises:
        UsageError: an unknown dtype.
        MeasureError: the network has to be copied and cannot be, or has no weights yet, or is a
            TorchScript program, a class, a function or a state_dict.
    """
    working = model = uncompiled(model)
    if not isinstance(model, nn.Module):
        if isinstance(model, type):
            kind = f"the class {model.__name__}"
        else:
            kind = f"a {type(model).__name__}"
        hint = (
            "give an nn.Module instance: build the network, net.load_state_dict(weights) "
            "where they were saved"
        )
        raise MeasureError(f"the network is {kind}", hint=hint)
    if isinstance(model, torch.jit.ScriptModule):
        raise MeasureError(
            "a TorchScript program cannot be measured", hint="give the nn.Module it was made from"
        )
    if any(is_lazy(t) or t.is_meta for t in model.parameters()):
        raise MeasureError(
            "weights of the network hold no values yet", hint="load them; run a lazy network once"
        )
    tensors = _floating(model)
    target, place = target_dtype(model, dtype), _device(model, device)
    # a network spread over devices is left so, unless one device was asked for
    spread = device is None and len({t.device for t in tensors}) > 1
    if not spread and any((target and t.dtype != target) or t.device != place for t in tensors):
        working = _copied(model).to(device=place, dtype=target)
    inputs = target or next((t.dtype for t in tensors), None)
    as_is = dtype == AS_IS
    with as_found(working), measuring_arithmetic(place, as_is):
        working.eval().requires_grad_(False)
        yield EvalNetwork(working, place, inputs, as_is)


@contextmanager
def as_found(model: nn.Module) -> Iterator[nn.Module]:
    """Lend `model` out and restore it: modes, requires_grad, .grad, buffers, and the random state.

    Restored also when the body raises:
        - ``training`` of every submodule (a frozen BatchNorm in a training net stays frozen),
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
    generators = _GeneratorStates()
    modes = [(module, module.training) for module in model.modules()]
    parameters = [(p, p.requires_grad, p.grad) for p in model.parameters()]
    buffers = [
        (module, name, buffer, buffer._version, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
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
            # writing bumps the version, which would break a graph of the caller's that saved this
            # buffer
            if buffer._version != version or not torch.equal(buffer, content):
                with torch.no_grad():
                    buffer.copy_(content)
        generators.restore()


@contextmanager
def measuring_arithmetic(place: torch.device, as_is: bool = False) -> Iterator[None]:
    """Gradients on, TF32 off and, unless ``as_is``, autocast off; what is compiled runs as it was
    written."""
    autocast = nullcontext() if as_is else torch.autocast(place.type, enabled=False)
    with full_float32(), torch.inference_mode(False), torch.enable_grad(), autocast, _eager():
        yield


@contextmanager
def _eager() -> Iterator[None]:
    """Run what is compiled inside of a network as it was before, also where its operations are
    traced."""
    compiler: Any = sys.modules.get("torch._dynamo")
    if compiler is None:
        # nothing is compiled then, and loading it takes seconds
        yield
        return
    with (
        torch.compiler.set_stance("force_eager"),
        compiler.config.patch(error_on_nested_fx_trace=False),
    ):
        yield


@contextmanager
def full_float32() -> Iterator[None]:
    """Compute float32 products in float32: no TF32 in matmul, convolution or RNN, no bf16 on CPUs.

    Both generations of PyTorch's switches are set and restored, because either may have been used
    by the caller and reading one after setting the other is an error there.

    Source: docs/protocol.md §3 ("fp32 forward and backward with TF32 off").

    >>> before = torch.backends.cudnn.allow_tf32
    >>> with full_float32():
    ...     torch.backends.cudnn.allow_tf32
    False
    >>> torch.backends.cudnn.allow_tf32 == before
    True
    """
    switches = list(_precision_switches())
    try:
        for switch, _, full in switches:
            switch(full)
        yield
    finally:
        for switch, before, _ in switches:
            switch(before)


def _precision_switches() -> Iterator[tuple[Callable[[Any], None], Any, Any]]:
    """(how to set it, its value now, its value for full float32); the older switches first.

    torch refuses to read an older one where the newer ones were used.
    """
    backends: Any = torch.backends
    with suppress(RuntimeError):
        yield torch.set_float32_matmul_precision, torch.get_float32_matmul_precision(), "highest"
    with suppress(RuntimeError):
        yield partial(setattr, backends.cudnn, "allow_tf32"), backends.cudnn.allow_tf32, False
    for library, kind in product(
        (backends.cuda, backends.cudnn, backends.mkldnn), ("matmul", "conv", "rnn")
    ):
        owner: Any = getattr(library, kind, None)
        if hasattr(owner, "fp32_precision"):
            yield partial(setattr, owner, "fp32_precision"), owner.fp32_precision, "ieee"


Inputs: TypeAlias = Any
"""What a network is called with: a tensor (B, ...), or its keyword arguments by name, the first
tensor (B, ...)."""


def tree_map(change: Callable[[Tensor], Any], x: Inputs) -> Inputs:
    """The inputs with every tensor changed.

    >>> tree_map(torch.neg, {"input_ids": torch.ones(2), "use_cache": False})
    {'input_ids': tensor([-1., -1.]), 'use_cache': False}
    """
    if isinstance(x, Mapping):
        return {name: tree_map(change, value) for name, value in x.items()}
    if isinstance(x, Tensor):
        return change(x)
    return x


def tensors_of(x: Inputs) -> list[Tensor]:
    """The tensors among the inputs."""
    return [
        value
        for value in (x.values() if isinstance(x, Mapping) else [x])
        if isinstance(value, Tensor)
    ]


def first_of(x: Inputs) -> Tensor:
    """The tensor that shows how many samples there are."""
    return tensors_of(x)[0]


def rows(x: Inputs, chosen: Any) -> Inputs:
    """Some of the samples, by a slice or an index; tensors of another length than theirs stay
    whole."""
    count = len(first_of(x))
    return tree_map(lambda t: t[chosen] if t.dim() and len(t) == count else t, x)


def call_model(model: nn.Module, x: Inputs, **more: Any) -> Any:
    """What a network returns, called with the tensor or with the keyword arguments."""
    if isinstance(x, Mapping):
        return model(**x, **more)
    return model(x, **more)


def detached_inputs(model: nn.Module, x: Inputs, gradients: bool = False) -> Inputs:
    """One batch for one forward pass: itself for a built-in network, which leaves it alone, else a
    copy.

    The samples are the caller's, and a network may write into them. Copying takes 2 % of a pass
    with gradients, 5 % of one without.

    Args:
        model: the network.
        x: the inputs.
        gradients: whether floating-point samples carry a gradient, where gradients are on.
    """
    built_in = type(model).__module__.startswith(f"{models.__name__}.")

    def one(tensor: Tensor) -> Tensor:
        # .data, as .detach() would bring along the count of the caller's own writes
        mine = tensor.data
        if gradients and mine.is_floating_point() and torch.is_grad_enabled():
            mine.requires_grad_()
        if built_in:
            return mine
        return mine.clone()

    return tree_map(one, x)


def uncompiled(model: nn.Module) -> nn.Module:
    """A compiled network as it was before."""
    written: nn.Module = getattr(model, "_orig_mod", model)
    return written


def target_dtype(model: nn.Module, dtype: str | torch.dtype | None = None) -> torch.dtype | None:
    """What a network's floating-point tensors are converted to for measuring; None = they stay as
    they are.

    Raises:
        UsageError: an unknown dtype.

    >>> target_dtype(nn.Linear(1, 1).half()), target_dtype(nn.Linear(1, 1))
    (torch.float32, None)
    """
    if dtype == AS_IS:
        return None
    if dtype is None:
        if any(t.dtype in HALF for t in _floating(model)):
            return torch.float32
        return None
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise UsageError(
            f"unknown dtype {name!r}",
            where="dtype",
            hint='one of None, "float32", "float64", "as-is"',
        )
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


def _floating(model: nn.Module) -> list[Tensor]:
    return [t for t in chain(model.parameters(), model.buffers()) if t.is_floating_point()]


def _device(model: nn.Module, device: str | torch.device | None) -> torch.device:
    if device is None:
        first = next(chain(model.parameters(), model.buffers()), None)
        if first is None:
            return torch.device("cpu")
        return first.device
    try:
        # an index makes "cuda" and the "cuda:0" of a parameter comparable
        return torch.empty(0, device=torch.device(device)).device
    except (RuntimeError, AssertionError) as error:
        what = f"no such device {str(device)!r}: {str(error).splitlines()[0]}"
        raise UsageError(what, where="device", hint="try cpu") from error


def _copied(model: nn.Module) -> nn.Module:
    try:
        return copy.deepcopy(model)
    except Exception as error:
        hint = 'convert it yourself, e.g. model.float(), or measure it with dtype="as-is"'
        raise MeasureError(
            f"the network cannot be copied ({type(error).__name__}: {error})", hint=hint
        ) from error


@lru_cache(maxsize=1)
def processor_name() -> str:
    """The CPU's model as the system names it, else its architecture."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
