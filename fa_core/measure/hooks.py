"""Modules of a network: found by name, hooked for one pass, and what they return."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from fa_core.errors import TapError
from fa_core.measure.isolate import (
    Inputs,
    call_model,
    detached_inputs,
    dtype_name,
    is_built_in,
    uncompiled,
)
from fa_core.measure.norms import by_position

READS = ":in"
"""Suffix of a pattern: the state is the modules' input, not their output."""

Tap: TypeAlias = Callable[[str, Tensor], Tensor]
"""(name, state) → the tensor that replaces the state."""

Args: TypeAlias = tuple[object, ...]
Kwargs: TypeAlias = Mapping[str, object]
"""The arguments of a module's call."""

LogitsChoice: TypeAlias = int | str | Callable[[Any], Tensor] | None
"""Where a network's output has the logits: a place, a key or attribute, or a function of it."""

_MOST_SUGGESTIONS = 8


def pattern_of(model: nn.Module, name: str) -> str:
    """A name with ``*`` for numbers, and for names within a container: what a list shares."""
    above, dot, own = name.rpartition(".")
    is_member = isinstance(model.get_submodule(above), (nn.ModuleDict, nn.Sequential))
    # but ":in"
    own = re.sub("^[^:]+" if is_member else r"\d+", "*", own)
    return f"{pattern_of(model, above)}{dot}{own}" if dot else own


def split_patterns(patterns: str | Sequence[str]) -> list[str]:
    """Patterns one by one, from one text joined by commas or from several.

    >>> split_patterns("embed, blocks.*:in")
    ['embed', 'blocks.*:in']
    """
    if not isinstance(patterns, str):
        patterns = ",".join(patterns)
    return list(filter(None, map(str.strip, patterns.split(","))))


def match_modules(model: nn.Module, patterns: str | Sequence[str]) -> list[str]:
    """Names of the modules that match, each once, by its first name.

    ``*`` and ``?`` stay within one part of a dotted name: ``blocks.*`` is the blocks without their
    submodules. A module registered under several names (tied weights) matches by any of them. The
    suffix ``:in`` (see `ReadTaps`) is kept, ``:out`` is ignored.

    Args:
        model: the network.
        patterns: one pattern, several, or several joined by commas.

    Raises:
        TapError: a pattern that matches nothing; lists names.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    >>> match_modules(net, "0, 1.*")
    ['0', '1.0', '1.1']
    """
    first_name = {module: name for name, module in model.named_modules()}
    found: dict[str, None] = {}
    for part in split_patterns(patterns):
        pattern = part.removesuffix(READS).removesuffix(":out")
        ending = READS if part.endswith(READS) else ""
        named = model.named_modules(remove_duplicate=False)
        matches = [
            first_name[one] + ending for name, one in named if name and _matches(name, pattern)
        ]
        if not matches:
            raise TapError(
                f"no module of {type(model).__name__} is named {pattern!r}",
                hint=_modules_of(model),
            )
        found.update(dict.fromkeys(matches))
    if not found:
        raise TapError("no taps given", hint=_modules_of(model))
    return list(found)


def _matches(name: str, pattern: str) -> bool:
    parts = name.split(".")
    wanted = pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _modules_of(model: nn.Module) -> str:
    """The names that patterns can match, numbers as ``*``; the least nested first.

    >>> _modules_of(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2))))
    "its modules: '*', '*.*'; without taps, the stream is looked for"
    """
    names = {re.sub(r"\d+", "*", name) for name, _ in model.named_modules() if name}
    shown = sorted(names, key=lambda name: (name.count("."), name))[:_MOST_SUGGESTIONS]
    listed = ", ".join(map(repr, shown))
    return f"its modules: {listed or 'none'}; without taps, the stream is looked for"


@contextmanager
def tapped(model: nn.Module, taps: Iterable[str], tap: Tap) -> Iterator[None]:
    """Call `tap` with the first tensor that modules read or return, every time they run.

    What they return is replaced by its result.

    Args:
        model: the network.
        taps: names of modules, with ``:in`` for what they read (see `match_modules`).
        tap: called with the name, followed by the number of the call after the first.

    Raises:
        TapError: in the pass, if the first tensor is missing or not a float tensor.
    """
    calls: Counter[str] = Counter()

    def numbered(name: str) -> str:
        calls[name] += 1
        return name if calls[name] == 1 else f"{name} (call {calls[name]})"

    def read(name: str, module: nn.Module, args: Args, kwargs: Kwargs) -> None:
        first = _state(f"{name.removesuffix(READS)} reads", (*args, *kwargs.values()))
        tap(numbered(name), first)

    def give(name: str, module: nn.Module, args: Args, output: object) -> object:
        first = _state(f"{name} returns", output)
        return replace_first_tensor(output, tap(numbered(name), first))

    # a handle removes its hook on exit
    with ExitStack() as handles:
        for name in taps:
            module = model.get_submodule(name.removesuffix(READS))
            if name.endswith(READS):
                handle = module.register_forward_pre_hook(partial(read, name), with_kwargs=True)
            else:
                handle = module.register_forward_hook(partial(give, name))
            handles.enter_context(handle)
        yield


def _state(what: str, output: object) -> Tensor:
    """The state that a module reads or returns.

    Raises:
        TapError: the first tensor is missing, or no float tensor.
    """
    first = first_tensor(output)
    if first is not None and first.is_floating_point():
        return first
    raise TapError(
        f"module {what} {described(output if first is None else first)}",
        hint="tap modules that read or return float tensors, or give a function (model, x) -> "
        "(logits, states); complex blocks can run from torch.view_as_complex(state)",
    )


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
        return f"a {dtype_name(value.dtype)} tensor of shape {tuple(value.shape)}"
    name = f"a {type(value).__name__}"
    if not isinstance(value, (tuple, list)):
        return name
    if len(value) == 2:
        return f"({described(value[0])}, {described(value[1])})"
    return f"{name} of {len(value)}"


def read_logits(output: object) -> Tensor:
    """The logits in a network's output: a tensor, ``.logits``, ``["logits"]``, or the first item.

    Raises:
        TapError: no item is known as the logits, or another one may be, e.g. of (features, logits).
    """
    logits = output
    if hasattr(output, "logits"):
        logits = output.logits
    elif isinstance(output, dict):
        logits = output.get("logits", output)
    elif isinstance(output, (tuple, list)) and output:
        logits = output[0]
        for other in output[1:]:
            if other is not logits and _like_logits(logits, other):
                raise TapError(
                    f"the forward returns {described(logits)} and {described(other)}: "
                    "either may be the logits",
                    hint="say which, logits=0 or logits=1; or wrap the network in a module whose "
                    "forward returns the logits alone, and tap its blocks through it: net.blocks.*",
                )
    if not isinstance(logits, Tensor):
        raise TapError(
            f"the network's output is {described(output)}, of which no part is known as its logits",
            hint="say which, logits=… (--logits), or return them alone, as .logits or as "
            "['logits']: wrap the network in a module that does so",
        )
    # of every pixel: (B, C, H, W)
    return by_position(logits)


@contextmanager
def choosing_logits(model: nn.Module, choice: LogitsChoice) -> Iterator[None]:
    """Let the network return the chosen logits alone inside; its modules are left as they are.

    Raises:
        TapError: while the network runs, if its output has no such item.
    """
    if choice is None:
        yield
        return

    def choose(_: nn.Module, __: object, given: dict[str, Any], output: Any) -> object:
        if given.get("return_hidden"):
            return chosen_logits(output[0], choice), *output[1:]
        return chosen_logits(output, choice)

    with uncompiled(model).register_forward_hook(choose, with_kwargs=True):
        yield


def chosen_logits(output: Any, choice: LogitsChoice) -> Tensor:
    """The logits in a network's output, by the caller's choice.

    >>> chosen_logits({"y": torch.ones(2, 3)}, "y").shape, chosen_logits((0, torch.ones(1)), 1)
    (torch.Size([2, 3]), tensor([1.]))

    Raises:
        TapError: it has no such item, or that is no tensor.
    """
    chosen: object = None
    if callable(choice):
        chosen = choice(output)
    elif isinstance(choice, str) and not isinstance(output, Mapping):
        chosen = getattr(output, choice, None)
    else:
        with suppress(KeyError, IndexError, TypeError):
            chosen = output[choice]
    if not isinstance(chosen, Tensor):
        raise TapError(
            f"logits={choice!r} is {described(chosen)} in the network's output, "
            f"which is {described(output)}",
            hint="give a place, a key, an attribute, or a function of the output",
        )
    return chosen


def _like_logits(*values: object) -> bool:
    """Whether all are float matrices of the same length."""
    known = [v for v in values if isinstance(v, Tensor) and v.is_floating_point() and v.dim() == 2]
    return len(known) == len(values) and len({*map(len, known)}) == 1


def plain_logits(model: nn.Module, x: Inputs) -> Tensor:
    """Logits (B, C) of inputs (B, ...), outside the graph.

    A forward may need gradients. Those built in do not, and a pass without takes 15 % less.
    """
    with torch.set_grad_enabled(not is_built_in(model)):
        return read_logits(call_model(model, detached_inputs(model, x))).detach()
