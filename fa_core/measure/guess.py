"""The guess of taps: the longest run of like blocks, and what feeds it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from fa_core.errors import TapError
from fa_core.measure.hooks import READS, Args, Kwargs, first_tensor, hooked
from fa_core.measure.isolate import Inputs
from fa_core.measure.patterns import candidates, match_modules
from fa_core.measure.taps import plain_logits


@dataclass(frozen=True, eq=False)
class Call:
    """One module, run once.

    Attributes:
        name: of the module.
        module: itself.
        read: the first tensor that it read.
        gave: the first tensor that it gave.
        state: what it read, as it was then: a stream that is updated in place shows.
    """

    name: str
    module: nn.Module
    read: Tensor | None
    gave: Tensor | None
    state: tuple[int, int]


Run = Sequence[Call]
"""Calls of like modules, in the order of the forward pass."""


def guess_taps(model: nn.Module, x: Inputs) -> list[str]:
    """Patterns for h_0..h_L of a network that does not offer its stream.

    The blocks are the longest run of modules of one class whose names differ in numbers alone, of
    which each reads the very tensor that the one before it gave, but for the first of every list.
    Modules inside others of which two and more have the same shapes are parts of blocks, not
    blocks; those around a longer run are stages. h_0 is what the last module before the first block
    gave and that block read, if any did. Where no module gives the states, as the network adds ``h
    + block(h)`` itself, they are what the blocks read, and what the module behind them does.

    Args:
        model: the network in eval mode.
        x: inputs; two samples are enough.

    Raises:
        TapError: no such run, or two of equal length, with the taps of each.

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
        runs = [run for run in alike if _reads_alike(run) and _inputs_of(model, calls, run)]
    runs = _blocks_among(runs)
    most = max(map(len, runs), default=0)
    guesses = [taps_of(model, calls, run) for run in runs if len(run) == most]
    if len(guesses) == 1:
        return guesses[0]
    name = type(model).__name__
    if guesses:
        lines = [f"--taps '{','.join(guess)}'" for guess in guesses]
        raise TapError(
            f"{name} has {len(guesses)} runs of {most} like blocks",
            hint=f"choose: {' or '.join(lines)}",
        )
    raise TapError(
        f"{name} offers no model(x, return_hidden=True), and no run of like blocks shows what its "
        "stream is",
        hint=f"name the modules that give h_0..h_L with taps, e.g. {candidates(model)}; "
        "where the network adds h + block(h) itself, what reads them: 'blocks.*:in,head:in'; "
        "or give a function (model, x) -> (logits, [h_0..h_L])",
    )


def _called_modules(model: nn.Module, x: Inputs) -> list[Call]:
    """Every module that ran in a forward pass, as it ended."""
    calls: list[Call] = []

    def note(name: str, module: nn.Module, args: Args, kwargs: Kwargs, output: object) -> None:
        read = first_tensor((*args, *kwargs.values()))
        version = 0
        if read is not None and not read.is_inference():
            version = read._version
        gave = first_tensor(output)
        calls.append(Call(name, module, read, gave, state=(id(read), version)))

    with hooked(model, note):
        plain_logits(model, x)
    return calls


def _runs_of_like_modules(calls: Run) -> list[list[Call]]:
    """Calls of modules with parts, by class and by name without its numbers."""
    found: dict[tuple[type, str], list[Call]] = {}
    for call in calls:
        if any(call.module.children()):
            kind = type(call.module), _pattern(call)
            found.setdefault(kind, []).append(call)
    return [run for run in found.values() if len(run) > 1]


def _pattern(call: Call) -> str:
    return re.sub(r"\d+", "*", call.name)


def _is_chain(run: Run) -> bool:
    """Whether each reads what the one before it gave, but for the first of a list."""
    lists = {call.name.rpartition(".")[0] for call in run}
    links = 0
    for one, other in pairwise(run):
        if one.gave is not None and one.gave is other.read:
            links += 1
    return links >= max(1, len(run) - len(lists))


def _reads_alike(run: Run) -> bool:
    """Whether all tensors read and given have one shape, and none is read that another one gave or
    read."""
    given = {id(call.gave) for call in run}
    read = {call.state for call in run}
    if not len(given) == len(read) == len(run):
        return False
    first = run[0].read
    for call in run:
        if id(call.read) in given or call.read is None or call.gave is None or first is None:
            return False
        if not call.read.shape == call.gave.shape == first.shape:
            return False
    return True


def _blocks_among(runs: list[list[Call]]) -> list[list[Call]]:
    """The runs that are neither stages around blocks nor parts of blocks."""
    blocks = [run for run in runs if not _is_stages(run, runs)]
    outermost = []
    for run in blocks:
        if not any(_holds(other, run) for other in blocks):
            outermost.append(run)
    return outermost


def _is_stages(run: Run, runs: Sequence[Run]) -> bool:
    """Whether these hold a longer run, and are lists, or of another shape each."""
    if not any(len(other) > len(run) and _holds(run, other) for other in runs):
        return False
    if type(run[0].module) is nn.Sequential:
        return True
    shapes = [_shapes(call.module) for call in run]
    return all(one != other for one, other in pairwise(shapes))


def _shapes(module: nn.Module) -> list[torch.Size]:
    return [parameter.shape for parameter in module.parameters()]


def _holds(outer: Run, inner: Run) -> bool:
    """Whether every module of a run is inside a module of another one."""
    if outer is inner:
        return False
    inside = tuple(f"{block.name}." for block in outer)
    return all(call.name.startswith(inside) for call in inner)


def _outputs_of(model: nn.Module, calls: Run, run: Run) -> list[str]:
    """Patterns for the module that feeds a run, if there is one, and for the run."""
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
    """Patterns for what a run of blocks reads, and the module behind them; [] where none reads the
    last state."""
    last = run[-1]
    if last.read is None:
        return []
    element = re.sub(r"(.*\.\d+)\..*", r"\1.", last.name)
    place = calls.index(last)
    behind = calls[place + 1 :]
    for call in behind:
        if last.name.startswith(f"{call.name}.") or call.name.startswith(element):
            continue
        if call.read is None or call.state == last.state or call.read.shape != last.read.shape:
            continue
        readers = [other for other in behind if other.state == call.state]
        modules = [*_patterns(model, run), _outermost(readers)]
        return [f"{name}{READS}" for name in modules]
    return []


def _outermost(calls: Run) -> str:
    """Of those that passed the same tensor on, the last of the outermost."""
    names = [call.name for call in reversed(calls)]
    return min(names, key=lambda name: name.count("."))


def _patterns(model: nn.Module, run: Run) -> list[str]:
    """A run as one pattern where that matches nothing else, else as names."""
    names = list(dict.fromkeys(call.name for call in run))
    pattern = _pattern(run[0])
    if match_modules(model, pattern) == names:
        return [pattern]
    return names
