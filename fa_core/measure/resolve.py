"""How a network is tapped: as the caller says, as the network offers, or by a guess.

The guess: the longest run of like blocks, and what feeds it.
"""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from torch import Tensor, nn

from fa_core.errors import TapError
from fa_core.measure.taps import (
    ModuleTaps,
    ReturnedStream,
    Stream,
    Tapped,
    Taps,
    candidates,
    first_tensor,
    hooked,
    match_modules,
    own_stream,
    plain_logits,
)


def resolve_taps(model: nn.Module, taps: Taps = None, say: Callable[[str], None] | None = None) -> Tapped:
    """Turn what the caller asked for into a way to tap `model`.

    Args:
        model: the network.
        taps: None for the model's own ``model(x, return_hidden=True) -> (logits, [h_0..h_L])``, and where it has
            none for a guess (`guess_taps`); module-name patterns (``*`` and ``?`` within one part of a dotted name),
            whose outputs are the stream in the order of the forward pass; or a function (model, x) -> (logits, states).
        say: called with the guess, before the first pass is measured.

    Raises:
        TapError: a pattern that names no module; lists candidates.

    Source: README, "From Python".
    """
    if taps is None:
        if not _returns_hidden(model):
            return GuessedTaps(model, say)
        return ReturnedStream(own_stream, "return_hidden=True")
    if callable(taps):
        return ReturnedStream(taps, getattr(taps, "__name__", "taps"))
    return ModuleTaps(model, taps)


def _returns_hidden(model: nn.Module) -> bool:
    try:
        parameters = inspect.signature(model.forward).parameters
    except (TypeError, ValueError):
        return False
    wrapped = getattr(model, "module", None)
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()) and isinstance(wrapped, nn.Module):
        return _returns_hidden(wrapped)
    return "return_hidden" in parameters


class GuessedTaps(ModuleTaps):
    """Taps that the first pass guesses.

    Args:
        model: the network.
        say: called with the guess, before that pass is measured.

    Attributes:
        taps: the guess; empty before.
    """

    def __init__(self, model: nn.Module, say: Callable[[str], None] | None = None) -> None:
        super().__init__(model, "*")
        self.taps: Sequence[str] = ()
        self._say = say

    def forward(self, model: nn.Module, x: Tensor, layers: Sequence[int] | None = None) -> Stream:
        if not self.taps:
            self.taps = guess_taps(model, x)
            self._names = match_modules(model, self.taps)
            if self._say is not None:
                self._say(said(self.taps))
        return super().forward(model, x, layers)


def said(taps: Sequence[str]) -> str:
    """What a report says of guessed taps."""
    start = "" if len(taps) > 1 else "; no module gives what feeds the first block: h_0 is its output"
    return f"taps guessed: --taps '{','.join(taps)}'{start}"


class Call(NamedTuple):
    """One module, run once: its name, and the first tensor that it read and that it gave."""

    name: str
    read: Tensor | None
    gave: Tensor | None


def guess_taps(model: nn.Module, x: Any) -> list[str]:
    """Patterns for h_0..h_L of a network that does not offer its stream.

    The blocks are the longest run of modules of one class whose names differ in numbers alone, of which each reads the
    very tensor that the one before it gave, but for the first of every list. Modules inside others of which two and
    more have the same shapes are parts of blocks, not blocks; those around a longer run are stages. h_0 is what the
    last module before the first block gave and that block read, if any did. A cell of a recurrent network is a run of
    its own, with a tap per time step.

    Args:
        model: the network, borrowed for measuring.
        x: inputs; two samples are enough.

    Raises:
        TapError: no such run, or two of equal length, with the taps of each; a recurrent layer.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 2), *(nn.Sequential(nn.Linear(2, 2), nn.ReLU()) for _ in range(3)))
    >>> guess_taps(net, torch.ones(1, 2))
    ['0', '1', '2', '3']
    """
    calls = _calls(model, x)
    runs = [run for run in _alike(model, calls).values() if _is_chain(model, run)]
    runs = [run for run in runs if not _is_stages(model, run, runs)]
    runs = [run for run in runs if not any(_holds(other, run) for other in runs)]
    longest = [run for run in runs if len(run) == max(map(len, runs))]
    guesses = [_patterns(model, calls, run) for run in longest]
    if len(guesses) == 1:
        return guesses[0]
    name = type(model).__name__
    if guesses:
        choices = " or ".join(f"--taps '{','.join(guess)}'" for guess in guesses)
        raise TapError(f"{name} has {len(guesses)} runs of {len(longest[0])} like blocks", hint=f"choose: {choices}")
    recurrent = next((part for part, module in model.named_modules() if isinstance(module, nn.RNNBase)), None)
    if recurrent is not None:
        raise TapError(
            f"{name} is recurrent: {recurrent} runs all time steps at once, and none of its states can be tapped",
            hint="write it with a cell, nn.LSTMCell say, in a loop: taps=['cell'] is then one tap per time step; "
            f"or tap whole layers by name: taps=['{recurrent}']",
        )
    raise TapError(
        f"{name} offers no model(x, return_hidden=True), and no run of like blocks shows what its stream is",
        hint=f"name the modules that give h_0..h_L with taps, e.g. {candidates(model)}; where blocks give f(h) alone, "
        "give a function (model, x) -> (logits, [h_0..h_L])",
    )


def _calls(model: nn.Module, x: Any) -> list[Call]:
    """Every module that ran in a forward pass, as it ended."""
    calls: list[Call] = []

    def note(name: str, module: nn.Module, args: Any, kwargs: Mapping[str, Any], output: Any) -> None:
        calls.append(Call(name, first_tensor((*args, *kwargs.values())), first_tensor(output)))

    with hooked(model, note):
        plain_logits(model, x)
    return calls


def _alike(model: nn.Module, calls: Sequence[Call]) -> Mapping[Any, list[Call]]:
    """Calls of modules with parts, and of recurrent cells, by class and by name without its numbers."""
    found: defaultdict[Any, list[Call]] = defaultdict(list)
    for call in calls:
        module = model.get_submodule(call.name)
        if isinstance(module, nn.RNNCellBase):
            found[call.name].append(call)
        elif any(module.children()):
            found[type(module), re.sub(r"\d+", "*", call.name)].append(call)
    return {key: run for key, run in found.items() if len(run) > 1}


def _is_chain(model: nn.Module, run: Sequence[Call]) -> bool:
    """Whether each reads what the one before it gave, but for the first of a list; a cell reads inputs as well."""
    lists = {call.name.rpartition(".")[0] for call in run}
    links = sum(one.gave is not None and one.gave is other.read for one, other in pairwise(run))
    cell = isinstance(model.get_submodule(run[0].name), nn.RNNCellBase)
    return cell or links >= max(1, len(run) - len(lists))


def _is_stages(model: nn.Module, run: Sequence[Call], runs: Sequence[Sequence[Call]]) -> bool:
    """Whether these hold a longer run, and are lists, or of another shape each."""
    if not any(len(other) > len(run) and _holds(run, other) for other in runs):
        return False
    modules = [model.get_submodule(call.name) for call in run]
    shapes = [[tuple(p.shape) for p in module.parameters()] for module in modules]
    return type(modules[0]) is nn.Sequential or not any(one == other for one, other in pairwise(shapes))


def _holds(outer: Sequence[Call], inner: Sequence[Call]) -> bool:
    return outer is not inner and all(any(call.name.startswith(f"{block.name}.") for block in outer) for call in inner)


def _patterns(model: nn.Module, calls: Sequence[Call], run: Sequence[Call]) -> list[str]:
    """The module that feeds the run, if there is one, and the run, as a pattern where that matches nothing else."""
    first, names = run[0], list(dict.fromkeys(call.name for call in run))
    before = calls[: next(place for place, call in enumerate(calls) if call.name.startswith(first.name))]
    fed = [call.name for call in before if call.gave is not None and call.gave is first.read]
    pattern = re.sub(r"\d+", "*", first.name)
    # of those that passed the same tensor on, the last of the outermost
    feeds = [min(reversed(fed), key=lambda name: name.count("."))] if fed else []
    return [*feeds, *([pattern] if match_modules(model, pattern) == names else names)]
