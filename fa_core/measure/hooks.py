"""Hooks on a network's modules for the time of a forward pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from fa_core.errors import TapError

READS = ":in"
"""Suffix of a pattern: the state is what the modules read, not what they give."""

Tap: TypeAlias = Callable[[str, Tensor, Sequence[Tensor]], Tensor]
"""(name, state, tensors that the module gave beside it) → what goes on in the state's place."""


Args: TypeAlias = tuple[object, ...]
Kwargs: TypeAlias = Mapping[str, object]
"""What a module is called with."""

ForwardHook: TypeAlias = Callable[[str, nn.Module, Args, Kwargs, object], object]
"""(name, module, its arguments, keyword arguments, output) → another output; None keeps it."""


@contextmanager
def hooked(
    model: nn.Module, hook: ForwardHook, modules: Iterable[str] | None = None
) -> Iterator[None]:
    """Call a hook after modules ran.

    Args:
        model: the network.
        hook: see `ForwardHook`.
        modules: their names; None = all below the network itself.
    """
    if modules is None:
        modules = [name for name, _ in model.named_modules() if name]
    handles = []
    for name in modules:
        module = model.get_submodule(name)
        handles.append(module.register_forward_hook(partial(hook, name), with_kwargs=True))
    with _removed_afterwards(handles):
        yield


@contextmanager
def _removed_afterwards(handles: Iterable[RemovableHandle]) -> Iterator[None]:
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def tapped_inputs(model: nn.Module, modules: Iterable[str], tap: Tap) -> Iterator[None]:
    """Show `tap` the first tensor that modules are called with, every time they run.

    Raises:
        TapError: in the pass, from a module that is called with no float tensor.
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

    handles = []
    for name in modules:
        module = model.get_submodule(name)
        handles.append(module.register_forward_pre_hook(partial(hook, name), with_kwargs=True))
    with _removed_afterwards(handles):
        yield


@contextmanager
def tapped_outputs(model: nn.Module, modules: Iterable[str], tap: Tap) -> Iterator[None]:
    """Replace the first tensor that modules return, every time they run, by what `tap` makes of it.

    Args:
        model: the network.
        modules: their names.
        tap: called with the name, the number of the call after the first behind it.

    Raises:
        TapError: in the pass, from a module that returns no float tensor.
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
        beside = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf is not first]
        return replace_first_tensor(output, tap(_numbered(name, calls), first, beside))

    with hooked(model, hook, modules):
        yield


def _numbered(name: str, calls: Counter[str]) -> str:
    """The name of a tap, with the number of its call after the first."""
    calls[name] += 1
    if calls[name] == 1:
        return name
    return f"{name} (call {calls[name]})"


def first_tensor(output: object) -> Tensor | None:
    """The tensor a module returned: itself, or the first in a tuple or list."""
    items = output if isinstance(output, (tuple, list)) else (output,)
    for item in items:
        if isinstance(item, Tensor):
            return item
    return None


def replace_first_tensor(output: object, tensor: Tensor) -> object:
    """What a module returned, with `tensor` in the place of its first tensor."""
    if not isinstance(output, (tuple, list)):
        return tensor
    items = list(output)
    for place, item in enumerate(items):
        if isinstance(item, Tensor):
            items[place] = tensor
            break
    # a named tuple is made from its items one by one
    make = getattr(type(output), "_make", type(output))
    return make(items)


def described(value: object) -> str:
    """Kind, type and shape of a value, for messages."""
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"a {dtype} tensor of shape {tuple(value.shape)}"
    if isinstance(value, (tuple, list)):
        if len(value) == 2:
            return f"({described(value[0])}, {described(value[1])})"
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
