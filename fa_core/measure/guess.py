"""Guessed taps: the longest run of like blocks, and the module that feeds it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from fa_core.errors import TapError
from fa_core.measure.hooks import (
    READS,
    Args,
    Kwargs,
    candidates,
    first_tensor,
    hooked,
    match_modules,
    plain_logits,
)
from fa_core.measure.isolate import Inputs


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a module.

    Attributes:
        name: name of the module.
        module: the module.
        read: its first input tensor.
        gave: its first output tensor.
        state: identity and version of `read` at the call; an in-place update changes the version.
    """

    name: str
    module: nn.Module
    read: Tensor | None
    gave: Tensor | None
    state: tuple[int, int]


Run = Sequence[Call]
"""Calls of like modules, in the order of the forward pass."""


def guess_taps(model: nn.Module, x: Inputs) -> list[str]:
    """Patterns for h_0..h_L of a network that does not return its stream.

    The blocks are the longest run of modules of one class whose names differ only in numbers and of
    which each reads the very tensor that the previous one gave, except the first of every list.
    Modules inside a block, two or more of the same shapes, are parts of it; modules around a longer
    run are stages. h_0 is the output of the last module before the first block that the block
    reads, if any. If the network adds ``h + block(h)`` itself, no module gives the states, and they
    are the inputs of the blocks and of the module after them.

    Args:
        model: the network in eval mode.
        x: inputs; two samples are enough.

    Raises:
        TapError: no such run, or several of equal length, with the taps of each.

    >>> import torch
    >>> blocks = (nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(3))
    >>> guess_taps(nn.Sequential(nn.Linear(2, 2), *blocks), torch.ones(1, 2))
    ['0', '1', '2', '3']
    """
    calls = _called_modules(model, x)
    alike = _runs_of_like_modules(calls)
    taps_of = _outputs_of
    runs = list(filter(_is_chain, alike))
    if not runs:
        taps_of = _inputs_of
        runs = list(filter(_reads_alike, alike))
        runs = [run for run in runs if _inputs_of(model, calls, run)]
    runs = _blocks_among(runs)
    most = max(map(len, runs), default=0)
    guesses = [taps_of(model, calls, run) for run in runs if len(run) == most]
    if len(guesses) == 1:
        return guesses[0]
    name = type(model).__name__
    if guesses:
        lines = [f"'{','.join(guess)}'" for guess in guesses]
        raise TapError(
            f"{name} has {len(guesses)} runs of {most} like blocks",
            hint=f"choose one as taps: {' or '.join(lines)}",
        )
    raise TapError(
        f"{name} offers no model(x, return_hidden=True), and no run of like blocks shows what its "
        "stream is",
        hint=f"name the modules that give h_0..h_L with taps, e.g. {candidates(model)}; "
        "where the network adds h + block(h) itself, what reads them: 'blocks.*:in,head:in'; "
        "or give a function (model, x) -> (logits, [h_0..h_L])",
    )


def _called_modules(model: nn.Module, x: Inputs) -> list[Call]:
    """Every call of a module in a forward pass, in the order in which they ended."""
    calls: list[Call] = []

    def note(name: str, module: nn.Module, args: Args, kwargs: Kwargs, output: object) -> None:
        read = first_tensor((*args, *kwargs.values()))
        version = 0
        if read is not None and not read.is_inference():
            version = read._version
        gave = first_tensor(output)
        state = id(read), version
        calls.append(Call(name, module, read, gave, state))

    with hooked(model, note):
        plain_logits(model, x)
    return calls


def _runs_of_like_modules(calls: Run) -> list[list[Call]]:
    """Calls of modules with children, grouped by class and by name up to numbers."""
    found: dict[tuple[type, str], list[Call]] = {}
    for call in calls:
        if any(call.module.children()):
            kind = type(call.module), _pattern(call)
            found.setdefault(kind, []).append(call)
    return [run for run in found.values() if len(run) > 1]


def _pattern(call: Call) -> str:
    return re.sub(r"\d+", "*", call.name)


def _is_chain(run: Run) -> bool:
    """Whether each call reads the output of the previous one, except the first of every list."""
    lists = {call.name.rpartition(".")[0] for call in run}
    links = 0
    for one, other in pairwise(run):
        if one.gave is not None and one.gave is other.read:
            links += 1
    return links >= max(1, len(run) - len(lists))


def _reads_alike(run: Run) -> bool:
    """Whether all inputs and outputs differ but have one shape."""
    given = {id(call.gave) for call in run}
    read = {call.state for call in run}
    if not len(given) == len(read) == len(run):
        return False
    shapes = set()
    for call in run:
        if call.read is None or call.gave is None or id(call.read) in given:
            return False
        shapes |= {call.read.shape, call.gave.shape}
    return len(shapes) == 1


def _blocks_among(runs: list[list[Call]]) -> list[list[Call]]:
    """Runs that are neither stages around blocks nor parts of blocks."""
    blocks = [run for run in runs if not _is_stages(run, runs)]
    outermost = []
    for run in blocks:
        if not any(_holds(other, run) for other in blocks):
            outermost.append(run)
    return outermost


def _is_stages(run: Run, runs: Sequence[Run]) -> bool:
    """Whether modules hold a longer run, and are lists or differ in shape."""
    longer = [other for other in runs if len(other) > len(run)]
    if not any(_holds(run, other) for other in longer):
        return False
    if type(run[0].module) is nn.Sequential:
        return True
    shapes = [_shapes(call.module) for call in run]
    return all(one != other for one, other in pairwise(shapes))


def _shapes(module: nn.Module) -> list[torch.Size]:
    return [parameter.shape for parameter in module.parameters()]


def _holds(outer: Run, inner: Run) -> bool:
    """Whether every module of the inner run is inside a module of the outer one."""
    prefixes = tuple(f"{block.name}." for block in outer)
    return all(call.name.startswith(prefixes) for call in inner)


def _outputs_of(model: nn.Module, calls: Run, run: Run) -> list[str]:
    """Patterns for the module that feeds a run, if any, and for the run."""
    first = run[0]
    fed: list[Call] = []
    for call in calls:
        if call.name.startswith(first.name):
            break
        if call.gave is not None and call.gave is first.read:
            fed.append(call)
    blocks = _patterns(model, run)
    if not fed:
        return blocks
    return [_outermost(fed), *blocks]


def _inputs_of(model: nn.Module, calls: Run, run: Run) -> list[str]:
    """Patterns for the inputs of a run of blocks and of the module after them; [] if no module
    reads the last state."""
    last = run[-1]
    if last.read is None:
        return []
    element = re.sub(r"(.*\.\d+)\..*", r"\1.", last.name)
    behind = calls[calls.index(last) + 1 :]
    for call in behind:
        around = last.name.startswith(f"{call.name}.")
        if around or call.name.startswith(element):
            continue
        if call.read is None or call.state == last.state:
            continue
        if call.read.shape != last.read.shape:
            continue
        readers = [other for other in behind if other.state == call.state]
        modules = [*_patterns(model, run), _outermost(readers)]
        return [f"{name}{READS}" for name in modules]
    return []


def _outermost(calls: Run) -> str:
    """The least nested module of some calls; of several, the last."""
    names = [call.name for call in reversed(calls)]
    return min(names, key=lambda name: name.count("."))


def _patterns(model: nn.Module, run: Run) -> list[str]:
    """The pattern of a run, or its names if the pattern matches other modules too."""
    names = list(dict.fromkeys(call.name for call in run))
    pattern = _pattern(run[0])
    if match_modules(model, pattern) == names:
        return [pattern]
    return names
