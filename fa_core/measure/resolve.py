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
from fa_core.measure.graph import node_of, unlinked
from fa_core.measure.taps import (
    READS,
    ModuleTaps,
    ReadTaps,
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
    split_patterns,
)


def resolve_taps(
    model: nn.Module, taps: Taps = None, say: Callable[[str], None] | None = None
) -> Tapped:
    """Turn what the caller asked for into a way to tap `model`.

    Args:
        model: the network.
        taps: None for the model's own ``model(x, return_hidden=True) -> (logits, [h_0..h_L])``, and where it has
            none for a guess (`guess_taps`); module-name patterns (``*`` and ``?`` within one part of a dotted name),
            whose outputs are the stream in the order of the forward pass, or with ``:in`` what they read
            (``blocks.*:in, head:in``); or a function (model, x) -> (logits, states).
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
    return _by_names(model, taps)


def _by_names(model: nn.Module, taps: str | Sequence[str]) -> Tapped:
    """Taps by pattern: at what the modules give, or, with ``:in``, at what they read."""
    reading = any(part.endswith(READS) for part in split_patterns(taps))
    return ReadTaps(model, taps) if reading else ModuleTaps(model, taps)


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
        self._read: ReadTaps | None = None

    def forward(self, model: nn.Module, x: Tensor, layers: Sequence[int] | None = None) -> Stream:
        if not self.taps:
            self.taps = guess_taps(model, x)
            self._names = match_modules(model, self.taps)
            chosen = _by_names(model, self.taps)
            if isinstance(chosen, ReadTaps):
                self._read, self.shifted = chosen, False
            if self._say is not None:
                self._say(said(self.taps))
        if self._read is not None:
            return self._read.forward(model, x, layers)
        return super().forward(model, x, layers)

    def plain(
        self, model: nn.Module, x: Any, shifts: Sequence[Tensor] | None
    ) -> tuple[Tensor, list[Tensor]]:
        if self._read is not None:
            return self._read.plain(model, x, shifts)
        return super().plain(model, x, shifts)


def said(taps: Sequence[str]) -> str:
    """What a report says of guessed taps."""
    start = (
        "" if len(taps) > 1 else "; no module gives what feeds the first block: h_0 is its output"
    )
    return f"taps guessed: --taps '{','.join(taps)}'{start}"


class Call(NamedTuple):
    """One module, run once: its name, and the first tensor that it read and that it gave.

    `version` counts what was written into the first, so that a stream that is updated in place shows.
    """

    name: str
    read: Tensor | None
    gave: Tensor | None
    version: int = 0

    @property
    def state(self) -> tuple[int, int]:
        """What it read, as it was then."""
        return id(self.read), self.version


def guess_taps(model: nn.Module, x: Any) -> list[str]:
    """Patterns for h_0..h_L of a network that does not offer its stream.

    The blocks are the longest run of modules of one class whose names differ in numbers alone, of which each reads the
    very tensor that the one before it gave, but for the first of every list. Modules inside others of which two and
    more have the same shapes are parts of blocks, not blocks; those around a longer run are stages. h_0 is what the
    last module before the first block gave and that block read, if any did. A cell of a recurrent network is a run of
    its own, with a tap per time step. Where no module gives the states, as the network adds ``h + block(h)``
    itself, they are what the blocks read, and what the module behind them does.

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
    alike = list(_alike(model, calls).values())
    runs = [run for run in alike if _is_chain(model, run)]
    if not runs:
        runs = [run for run in alike if _reads_alike(run)]
        runs = [run for run in runs if inputs_of(model, calls, run)]
    runs = [run for run in runs if not _is_stages(model, run, runs)]
    runs = [run for run in runs if not any(_holds(other, run) for other in runs)]
    longest = [run for run in runs if len(run) == max(map(len, runs))]
    guesses = [
        _patterns(model, calls, run) if _is_chain(model, run) else inputs_of(model, calls, run)
        for run in longest
    ]
    if len(guesses) == 1:
        return guesses[0]
    name = type(model).__name__
    if guesses:
        choices = " or ".join(f"--taps '{','.join(guess)}'" for guess in guesses)
        raise TapError(
            f"{name} has {len(guesses)} runs of {len(longest[0])} like blocks",
            hint=f"choose: {choices}",
        )
    recurrent = next(
        (part for part, module in model.named_modules() if isinstance(module, nn.RNNBase)), None
    )
    if recurrent is not None:
        raise TapError(
            f"{name} is recurrent: {recurrent} runs all time steps at once, and none of its states can be tapped",
            hint="write it with a cell, nn.LSTMCell say, in a loop: taps=['cell'] is then one tap per time step; "
            f"or tap whole layers by name: taps=['{recurrent}']",
        )
    raise TapError(
        f"{name} offers no model(x, return_hidden=True), and no run of like blocks shows what its stream is",
        hint=f"name the modules that give h_0..h_L with taps, e.g. {candidates(model)}; where the network adds "
        "h + block(h) itself, what reads them: 'blocks.*:in,head:in'; "
        "or give a function (model, x) -> (logits, [h_0..h_L])",
    )


def _calls(model: nn.Module, x: Any) -> list[Call]:
    """Every module that ran in a forward pass, as it ended."""
    calls: list[Call] = []

    def note(
        name: str, module: nn.Module, args: Any, kwargs: Mapping[str, Any], output: Any
    ) -> None:
        read = first_tensor((*args, *kwargs.values()))
        version = 0 if read is None or read.is_inference() else read._version
        calls.append(Call(name, read, first_tensor(output), version))

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


def _reads_alike(run: Sequence[Call]) -> bool:
    """Whether each reads and gives a tensor of the same shape, and none reads what another one gave or read."""
    shapes = {t.shape if t is not None else None for call in run for t in (call.read, call.gave)}
    given = {id(call.gave) for call in run}
    read = {call.state for call in run}
    apart = given.isdisjoint(id(call.read) for call in run)
    return len(shapes) == 1 and apart and len(given) == len(read) == len(run)


def inputs_of(model: nn.Module, calls: Sequence[Call], run: Sequence[Call]) -> list[str]:
    """Patterns for what a run of blocks reads, and the module behind them; [] where no module reads the last state."""
    last = run[-1]
    if last.read is None:
        return []
    names = list(dict.fromkeys(one.name for one in run))
    element = re.sub(r"(.*\.\d+)\..*", r"\1.", last.name)
    behind = calls[1 + next(i for i, call in enumerate(calls) if call is last) :]
    for call in behind:
        same_part = last.name.startswith(f"{call.name}.") or call.name.startswith(element)
        if same_part or call.read is None or call.state == last.state:
            continue
        if call.read.shape != last.read.shape:
            continue
        reading = [one.name for one in behind if one.state == call.state]
        outermost = min(reversed(reading), key=lambda name: name.count("."))
        pattern = re.sub(r"\d+", "*", run[0].name)
        blocks = [pattern] if match_modules(model, pattern) == names else names
        return [f"{name}{READS}" for name in (*blocks, outermost)]
    return []


def passed_by(stream: Stream) -> str:
    """How the states of a returned stream are passed by, as a remark; "" where they are not."""
    unread, past = _links(stream)
    if unread or 2 * len(past) <= len(stream.names) - 1:
        return ""
    l = past[0]
    after = f"h_{l + 1}" if l + 1 < len(stream.names) else "the logits"
    return f"{after} depends on h_{l - 1} past h_{l}: the states may be outputs of branches"


def _links(stream: Stream) -> tuple[list[int], list[int]]:
    if len(stream.cuts) < 2 or not all(node for cut in stream.cuts for node in cut[:1]):
        return [], []
    return unlinked(node_of(stream.logits), stream.cuts)


def check_stream(model: nn.Module, x: Any, stream: Stream) -> None:
    """Refuse module taps that are no stream: of which more than half of the states are passed by.

    Outputs of blocks that the network adds itself, ``h + block(h)``, and outputs of norms in front of blocks read a
    stream that none of them is. A single long connection is no reason.

    Raises:
        TapError: names two taps, and what to tap where that shows.

    Source: docs/formats.md, "Taps".
    """
    unread, past = _links(stream)
    # that the logits do not depend on a tap shows in the backward pass
    unread = [l for l in unread if l + 1 < len(stream.names)]
    names = [f"h_{l} ({name})" for l, name in enumerate(stream.names)] + ["what follows"]
    if unread:
        l = unread[0]
        what = f"the taps are no stream: {names[l + 1]} does not depend on {names[l]}"
    elif 2 * len(past) > len(stream.cuts) - 1:
        l = past[0]
        what = f"the taps are no stream: past {names[l]}, {names[l + 1]} depends on {names[l - 1]}"
    else:
        return
    hint = "tap the states themselves, or give a function (model, x) -> (logits, [h_0..h_L])"
    tapped = [name.split(" ")[0].removesuffix(READS) for name in stream.names]
    calls = _calls(model, x)
    run = [call for call in calls if call.name in tapped[1:]]
    if past and len(run) > 1 and (instead := inputs_of(model, calls, run)):
        hint = f"where the network adds h + block(h), tap what its blocks read: --taps '{','.join(instead)}'"
    raise TapError(what, hint=hint)


def _is_stages(model: nn.Module, run: Sequence[Call], runs: Sequence[Sequence[Call]]) -> bool:
    """Whether these hold a longer run, and are lists, or of another shape each."""
    if not any(len(other) > len(run) and _holds(run, other) for other in runs):
        return False
    modules = [model.get_submodule(call.name) for call in run]
    shapes = [[tuple(p.shape) for p in module.parameters()] for module in modules]
    return type(modules[0]) is nn.Sequential or not any(
        one == other for one, other in pairwise(shapes)
    )


def _holds(outer: Sequence[Call], inner: Sequence[Call]) -> bool:
    return outer is not inner and all(
        any(call.name.startswith(f"{block.name}.") for block in outer) for call in inner
    )


def _patterns(model: nn.Module, calls: Sequence[Call], run: Sequence[Call]) -> list[str]:
    """The module that feeds the run, if there is one, and the run, as a pattern where that matches nothing else."""
    first, names = run[0], list(dict.fromkeys(call.name for call in run))
    before = calls[
        : next(place for place, call in enumerate(calls) if call.name.startswith(first.name))
    ]
    fed = [call.name for call in before if call.gave is not None and call.gave is first.read]
    pattern = re.sub(r"\d+", "*", first.name)
    # of those that passed the same tensor on, the last of the outermost
    feeds = [min(reversed(fed), key=lambda name: name.count("."))] if fed else []
    return [*feeds, *([pattern] if match_modules(model, pattern) == names else names)]
