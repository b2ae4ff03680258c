"""Isolation of a network for measuring: it comes back as it went in.

`eval_mode` puts a network, or a copy where its device or precision has to change, into eval mode,
with float32 arithmetic without TF32 and random numbers from a fixed seed. It runs as in training
otherwise: with gradients, parameters as they are, hooks, and no fast path for inference. Modes,
requires_grad, gradients, weights, buffers, the caller's random generators and PyTorch's switches
are restored afterwards, even if a pass raises. What a forward stores in other places stays.
"""

from __future__ import annotations

import inspect
import platform
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, product
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.parameter import is_lazy

from fa_core.errors import MeasureError, UsageError, first_line
from fa_core.measure.copies import copied
from fa_core.zoo import models

DTYPES = {"float32": torch.float32, "float64": torch.float64}
AS_IS = "as-is"
HALF = (torch.float16, torch.bfloat16)

DREW = "the network draws random numbers in eval mode: its numbers are of one draw"
"""Note in the report of a network that draws."""

CREDIT_DREW = "the credit draws random numbers: Γ is of one draw"
"""Note in the report on a caller's credit that draws."""


class RngState:
    """Random state of a network's passes, separate from the caller's, which may pick the batches.

    The first passes start from a fixed seed, each later pass where the one before it ended. This
    covers the global generators of torch, NumPy and Python; generators of the network's own are
    left alone, and their draws are not noticed.

    Attributes:
        noticed: whether a pass drew random numbers.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._left_off: GeneratorStates | None = None
        self._inside = False
        self.noticed = False

    def isolated_over(self, batches: object) -> AbstractContextManager[None]:
        """One `isolated` around all batches if they are a list, as then no loader draws in between.

        Saving, comparing and restoring the generators takes 1 % of a pass of the published size.
        """
        if isinstance(batches, (list, tuple)):
            return self.isolated()
        return nullcontext()

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Run passes with the network's random state and restore the caller's. May be nested."""
        if self._inside:
            yield
            return
        self._inside = True
        outside = GeneratorStates()
        if self._left_off is not None:
            self._left_off.restore()
        else:
            for generator in _torch_generators():
                # torch.manual_seed would also seed a CUDA that is not yet in use
                generator.manual_seed(self._seed)
            random.seed(self._seed)
            np.random.seed(self._seed)
        begun = GeneratorStates()
        try:
            yield
        finally:
            self._inside = False
            self._left_off = GeneratorStates()
            self.noticed = self.noticed or not begun.same(self._left_off)
            outside.restore()


def _torch_generators() -> list[Generator]:
    """Generators of the CPU, and of every CUDA device once CUDA is in use."""
    return [torch.default_generator, *torch.cuda.default_generators]


class GeneratorStates:
    """A snapshot of the global generators of torch, Python and NumPy."""

    def __init__(self) -> None:
        self._torch = [(generator, generator.get_state()) for generator in _torch_generators()]
        self._python = random.getstate()
        self._numpy = np.random.get_state()

    def restore(self) -> None:
        for generator, state in self._torch:
            generator.set_state(state)
        random.setstate(self._python)
        np.random.set_state(self._numpy)

    def same(self, other: GeneratorStates) -> bool:
        """Whether two snapshots are equal, compared over the generators that both have."""
        pairs = zip(self._torch, other._torch, strict=False)
        if not all(torch.equal(a, b) for (_, a), (_, b) in pairs):
            return False
        same_numpy = all(map(np.array_equal, self._numpy, other._numpy))
        return same_numpy and self._python == other._python


Device: TypeAlias = str | torch.device | None
"""A device as a caller names it; None = the network's own."""


@dataclass(frozen=True)
class EvalNetwork:
    """A network ready for measuring.

    Attributes:
        model: the network, or a copy (see `eval_mode`); in eval mode.
        device: device of its batches.
        dtype: type that floating-point inputs are cast to; None = no cast.
        as_is: whether half precision runs unchanged, so that near-ties are not decided in float64.
        rng: random state of its passes.
    """

    model: nn.Module
    device: torch.device
    dtype: torch.dtype | None
    as_is: bool
    rng: RngState


@contextmanager
def eval_mode(
    model: nn.Module,
    dtype: str | torch.dtype | None = None,
    device: Device = None,
) -> Iterator[EvalNetwork]:
    """Put a network into eval mode for measuring: gradients on, TF32, autocast and fast paths off.

    Parameters keep ``requires_grad``. A network with a ``train(mode)`` or ``eval()`` of its own,
    which may change more than modes, is measured on a copy unless it is in eval mode already.

    Args:
        model: the network; it comes back as it went in (see `as_found`).
        dtype: None measures fp16 and bf16 networks in float32 on a copy, others in their own type;
            ``"float32"`` and ``"float64"`` convert; ``"as-is"`` keeps half precision and the
            caller's autocast.
        device: None = the network's own; on another device a copy is measured.

    Raises:
        UsageError: an unknown dtype.
        MeasureError: the network has to be copied and cannot be, has no weights yet, or is a
            TorchScript program, a class, a function or a state_dict.
    """
    given = model = uncompiled(model)
    _check_network(model)
    tensors = floating(model)
    target = target_dtype(model, dtype)
    place = _device(model, device)
    # a network spread over devices stays so unless one device was asked for
    spread = device is None and len({t.device for t in tensors}) > 1
    ready = spread or all(t.device == place and target in (None, t.dtype) for t in tensors)
    if not ready:
        model = copied(model, place, target)
    elif any(map(_switches, model.modules())):
        model = copied(model)
    input_dtype = target
    if target is None and tensors:
        input_dtype = tensors[0].dtype
    as_is = dtype == AS_IS
    # a copy's weights need no second copy
    with (
        as_found(model, model is given),
        measuring_arithmetic(place, as_is),
        _in_one_replica(model),
    ):
        _to_eval(model)
        yield EvalNetwork(model, place, input_dtype, as_is, RngState())


@contextmanager
def _in_one_replica(model: nn.Module) -> Iterator[None]:
    """Run `nn.DataParallel` on its first device alone: the threads of others have no hooks."""
    with ExitStack() as after:
        for module in model.modules():
            if isinstance(module, nn.DataParallel):
                after.callback(setattr, module, "device_ids", module.device_ids)
                module.device_ids = module.device_ids[:1]
        yield


def _check_network(model: object) -> None:
    """Refuse anything but a module whose weights have values.

    Raises:
        MeasureError: it cannot be measured.
    """
    if not isinstance(model, nn.Module):
        kind = f"a {type(model).__name__}"
        if isinstance(model, type):
            kind = f"the class {model.__name__}"
        raise MeasureError(
            f"the network is {kind}",
            hint="give an nn.Module instance: build the network, net.load_state_dict(weights) "
            "where they were saved",
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise MeasureError(
            "a TorchScript program cannot be measured", hint="give the nn.Module it was made from"
        )
    if any(is_lazy(t) or t.is_meta for t in model.parameters()):
        raise MeasureError(
            "weights of the network hold no values yet", hint="load them; run a lazy network once"
        )


def _switches(module: nn.Module) -> bool:
    """Whether code of its own puts a module into eval mode, and some of it is in training mode.

    A ``train`` that takes no mode, as one that trains, is no switch.
    """
    kind = type(module)
    own = kind.eval is not nn.Module.eval
    if kind.train is not nn.Module.train:
        own = own or "mode" in inspect.signature(kind.train).parameters
    return own and any(inner.training for inner in module.modules())


def _to_eval(module: nn.Module) -> None:
    """Put a module into eval mode as ``module.eval()`` does.

    Raises:
        MeasureError: its own code raised.
    """
    if not _switches(module):
        module.training = False
        for child in module.children():
            _to_eval(child)
        return
    try:
        module.eval()
    except Exception as error:
        raise MeasureError(
            f"{type(module).__name__}.eval() failed: {first_line(error)}",
            hint="put the network into eval mode before it is measured",
        ) from error


@contextmanager
def as_found(model: nn.Module, contents: bool) -> Iterator[None]:
    """Restore a network and the random state after the body, even if it raises.

    Restored are:
        - ``training`` of every submodule (a frozen BatchNorm in a training net stays frozen),
        - ``requires_grad`` and the identity of ``.grad`` of every parameter,
        - identity and content of every parameter and buffer, into which a forward may write,
        - the random generators of torch (CPU and every CUDA device in use), NumPy and Python.

    Args:
        model: the network.
        contents: whether parameters and buffers are restored.

    Source: docs/howto/plain-loop.md ("are as before afterwards").

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    >>> _ = net[1].eval()
    >>> with as_found(net, contents=True):
    ...     _ = net.eval().requires_grad_(False)
    >>> net.training, net[1].training, net[0].weight.requires_grad
    (True, False, True)
    """
    generators = GeneratorStates()
    modes = [(module, module.training) for module in model.modules()]
    parameters = [(p, p.requires_grad, p.grad) for p in model.parameters()]
    owners: list[dict[str, Any]] = []
    for module in model.modules() if contents else ():
        owners += module._parameters, module._buffers
    tensors = [
        (owner, name, tensor, tensor.data, tensor.detach().clone())
        for owner in owners
        for name, tensor in owner.items()
        if tensor is not None
    ]
    for parameter in model.parameters():
        # a forward may call backward(), which would add to the caller's gradients
        parameter.grad = None
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter, requires_grad, grad in parameters:
            parameter.requires_grad_(requires_grad)
            parameter.grad = grad
        for owner, name, tensor, own, content in tensors:
            owner[name] = tensor
            if tensor.layout != torch.strided:
                # sparse: no address, no torch.equal
                with torch.no_grad():
                    tensor.copy_(content)
                continue
            if tensor.data_ptr() != own.data_ptr():
                tensor.data = own
            if not torch.equal(own, content):
                own.copy_(content)
        generators.restore()


@contextmanager
def measuring_arithmetic(place: torch.device, as_is: bool) -> Iterator[None]:
    """Turn gradients on, TF32 off and, unless ``as_is``, autocast off; compiled code runs
    uncompiled, and attention as in training."""
    autocast = nullcontext() if as_is else torch.autocast(place.type, enabled=False)
    attention = torch.backends.mha
    with (
        full_float32(),
        torch.inference_mode(False),
        torch.enable_grad(),
        autocast,
        _eager(),
        ExitStack() as after,
    ):
        after.callback(attention.set_fastpath_enabled, attention.get_fastpath_enabled())
        attention.set_fastpath_enabled(False)
        yield


@contextmanager
def _eager() -> Iterator[None]:
    """Run compiled parts of a network uncompiled, also under a trace."""
    if "torch._dynamo" not in sys.modules:
        # nothing is compiled, and the import takes seconds
        yield
        return
    from torch._dynamo import config

    with (
        torch.compiler.set_stance("force_eager"),
        config.patch(error_on_nested_fx_trace=False),
    ):
        yield


@contextmanager
def full_float32() -> Iterator[None]:
    """Compute float32 products in float32: no TF32 in matmul, convolution or RNN, no bf16 on CPUs.

    Both generations of PyTorch's switches are set and restored: the caller may have used either,
    and torch refuses to read one after the other was set.

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


def _precision_switches() -> Iterator[tuple[Callable[[Any], None], object, object]]:
    """(setter, value now, value for full float32) of every switch; the older switches first.

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


Inputs: TypeAlias = Tensor | Mapping[str, object]
"""A network's inputs: a tensor (B, ...), or keyword arguments, whose first tensor is (B, ...)."""


InputsT = TypeVar("InputsT", bound=Inputs)
_Value = TypeVar("_Value")


def tree_map(change: Callable[[Tensor], object], x: _Value) -> _Value:
    """Apply a function to every tensor of the inputs.

    >>> tree_map(torch.neg, {"input_ids": torch.ones(2), "use_cache": False})
    {'input_ids': tensor([-1., -1.]), 'use_cache': False}
    """
    changed: object = x
    if isinstance(x, Mapping):
        changed = {name: tree_map(change, value) for name, value in x.items()}
    elif isinstance(x, Tensor):
        changed = change(x)
    return cast(_Value, changed)


def tensors_of(x: Inputs) -> list[Tensor]:
    """The tensors among the inputs."""
    if isinstance(x, Tensor):
        return [x]
    return [value for value in x.values() if isinstance(value, Tensor)]


def first_of(x: Inputs) -> Tensor:
    """The first tensor of the inputs; its length is the number of samples."""
    return tensors_of(x)[0]


def select_samples(x: InputsT, chosen: slice | Tensor) -> InputsT:
    """Some of the samples, by slice or index; tensors of another length are kept whole."""
    count = len(first_of(x))

    def chosen_of(tensor: Tensor) -> Tensor:
        if tensor.dim() and len(tensor) == count:
            return tensor[chosen]
        return tensor

    return tree_map(chosen_of, x)


def call_model(model: nn.Module, x: Inputs, **more: object) -> object:
    """Call a network with a tensor or with keyword arguments; returns its output."""
    if isinstance(x, Mapping):
        return model(**x, **more)
    return model(x, **more)


def is_built_in(model: nn.Module) -> bool:
    """Whether the forward is this project's, and known."""
    return type(model).__module__.startswith(f"{models.__name__}.")


def detached_inputs(model: nn.Module, x: Inputs, gradients: bool = False) -> Inputs:
    """Inputs for one forward pass, detached from the caller's: copies, as a network may write into
    them.

    Built-in networks never do, so they share memory with the caller. Copying takes 2 % of a pass
    with gradients, 5 % of one without.

    Args:
        model: the network.
        x: the inputs.
        gradients: whether floating-point tensors require gradients, where gradients are on.
    """
    built_in = is_built_in(model)

    def detached(tensor: Tensor) -> Tensor:
        # .detach() would share the version counter of the caller's tensor
        tensor = tensor.data
        if gradients and tensor.is_floating_point() and torch.is_grad_enabled():
            tensor.requires_grad_()
        if built_in:
            return tensor
        return tensor.clone()

    return tree_map(detached, x)


def uncompiled(model: nn.Module) -> nn.Module:
    """The module that `torch.compile` wrapped; any other module itself."""
    original: nn.Module = getattr(model, "_orig_mod", model)
    return original


def floating(model: nn.Module) -> list[Tensor]:
    """Floating-point parameters and buffers."""
    return [t for t in chain(model.parameters(), model.buffers()) if t.is_floating_point()]


def target_dtype(model: nn.Module, dtype: str | torch.dtype | None) -> torch.dtype | None:
    """Type that a network's floating-point tensors are converted to; None = no conversion.

    Raises:
        UsageError: an unknown dtype.

    >>> target_dtype(nn.Linear(1, 1).half(), None), target_dtype(nn.Linear(1, 1), None)
    (torch.float32, None)
    """
    if dtype == AS_IS:
        return None
    if dtype is None:
        if any(t.dtype in HALF for t in floating(model)):
            return torch.float32
        return None
    name = dtype_name(dtype)
    if name not in DTYPES:
        raise UsageError(
            f"unknown dtype {name!r}",
            where="dtype",
            hint='one of None, "float32", "float64", "as-is"',
        )
    return DTYPES[name]


def dtype_name(dtype: object) -> str:
    """A dtype without torch's name."""
    return str(dtype).removeprefix("torch.")


def to_float64(tensor: Tensor) -> Tensor:
    """A tensor in float64, outside the graph; on the CPU if its device, MPS, has no float64.

    >>> to_float64(torch.ones(2, dtype=torch.float16)).dtype
    torch.float64
    """
    tensor = tensor.detach()
    if tensor.device.type == "mps":
        tensor = tensor.cpu()
    return tensor.to(torch.float64)


def _device(model: nn.Module, device: Device) -> torch.device:
    if device is None:
        first = next(chain(model.parameters(), model.buffers()), None)
        if first is None:
            return torch.device("cpu")
        return first.device
    try:
        # resolves "cuda" to "cuda:0", as parameters have it
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise UsageError(
            f"no such device {str(device)!r}: {first_line(error)}", where="device", hint="try cpu"
        ) from error


@cache
def processor_name() -> str:
    """The CPU's model name, or its architecture if the system names none."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
