"""Temporary hooks on a network's modules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeAlias

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from fa_core.errors import TapError

READS = ":in"
"""Suffix of a pattern: the state is the modules' input, not their output."""

Tap: TypeAlias = Callable[[str, Tensor, Sequence[Tensor]], Tensor]
"""(name, state, other tensors of the module's output) → the tensor that replaces the state."""

Args: TypeAlias = tuple[object, ...]
Kwargs: TypeAlias = Mapping[str, object]
"""The arguments of a module's call."""

ForwardHook: TypeAlias = Callable[[str, nn.Module, Args, Kwargs, object], object]
"""(name, module, its arguments, keyword arguments, output) → another output; None keeps it."""


@contextmanager
def hooked(
    model: nn.Module, hook: ForwardHook, modules: Iterable[str] | None = None
) -> Iterator[None]:
    """Call a hook after each run of some modules.

    Args:
        model: the network.
        hook: see `ForwardHook`.
        modules: their names; None = all except the network itself.
    """
    if modules is None:
        modules = [name for name, _ in model.named_modules() if name]
    # a handle removes its hook on exit
    with ExitStack() as handles:
        for name in modules:
            module = model.get_submodule(name)
            handle = module.register_forward_hook(partial(hook, name), with_kwargs=True)
            handles.enter_context(handle)
        yield


@contextmanager
def tapped_inputs(model: nn.Module, modules: Iterable[str], tap: Tap) -> Iterator[None]:
    """Call `tap` with the first tensor of the modules' inputs, every time they run.

    Raises:
        TapError: in the pass, if the first tensor is missing or not a float tensor.
    """
    calls: Counter[str] = Counter()

    def hook(name: str, module: nn.Module, args: Args, kwargs: Kwargs) -> None:
        first = first_tensor((*args, *kwargs.values()))
        if first is None or not first.is_floating_point():
            raise TapError(
                f"module {name} reads {described(first)}",
                hint="tap a module that is called with the state",
            )
        tap(_numbered(name + READS, calls), first, ())

    with ExitStack() as handles:
        for name in modules:
            module = model.get_submodule(name)
            handle = module.register_forward_pre_hook(partial(hook, name), with_kwargs=True)
            handles.enter_context(handle)
        yield


@contextmanager
def tapped_outputs(model: nn.Module, modules: Iterable[str], tap: Tap) -> Iterator[None]:
    """Replace the first tensor that modules return by the result of `tap`, every time they run.

    Args:
        model: the network.
        modules: their names.
        tap: called with the module's name, followed by the number of the call after the first.

    Raises:
        TapError: in the pass, if the first tensor is missing or not a float tensor.
    """
    calls: Counter[str] = Counter()

    def hook(name: str, module: nn.Module, args: Args, kwargs: Kwargs, output: object) -> object:
        first = first_tensor(output)
        if first is None or not first.is_floating_point():
            raise TapError(
                f"module {name} returns {described(output if first is None else first)}",
                hint="tap a module that returns a float tensor, "
                "or give a function (model, x) -> (logits, states)",
            )
        leaves = tree_leaves(output)
        others = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf is not first]
        return replace_first_tensor(output, tap(_numbered(name, calls), first, others))

    with hooked(model, hook, modules):
        yield


def _numbered(name: str, calls: Counter[str]) -> str:
    """The name of a tap; from the second call on, with the number of the call."""
    calls[name] += 1
    if calls[name] == 1:
        return name
    return f"{name} (call {calls[name]})"


def first_tensor(output: object) -> Tensor | None:
    """An output that is a tensor, or the first tensor in a tuple or list."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, (tuple, list)):
        for item in output:
            if isinstance(item, Tensor):
                return item
    return None


def replace_first_tensor(output: object, tensor: Tensor) -> object:
    """An output with `tensor` instead of its first tensor."""
    if not isinstance(output, (tuple, list)):
        return tensor
    items = list(output)
    for place, item in enumerate(items):
        if isinstance(item, Tensor):
            items[place] = tensor
            break
    # the constructor of a named tuple takes the items one by one
    make = getattr(type(output), "_make", type(output))
    return make(items)


def described(value: object) -> str:
    """Kind, type and shape of a value, for messages."""
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"a {dtype} tensor of shape {tuple(value.shape)}"
    name = f"a {type(value).__name__}"
    if not isinstance(value, (tuple, list)):
        return name
    if len(value) == 2:
        return f"({described(value[0])}, {described(value[1])})"
    return f"{name} of {len(value)}"
