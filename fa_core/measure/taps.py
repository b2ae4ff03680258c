"""Taps: h_0..h_L and their places in the graph, from one forward pass of any network.

They are the caller's, the network's own stream, or guessed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from fa_core.errors import TapError
from fa_core.measure.blocks import left_out, read_outside, said_of
from fa_core.measure.flow import Flow, path_to, recording
from fa_core.measure.gradients import (
    Layers,
    first_without_positions,
    part_of_read,
    read_by,
    selected,
    selects_features,
)
from fa_core.measure.graph import read_in_another_form
from fa_core.measure.guess import in_lists, no_guess, possible_taps
from fa_core.measure.hooks import (
    READS,
    described,
    match_modules,
    pattern_of,
    plain_logits,
    read_logits,
    split_patterns,
    tapped,
)
from fa_core.measure.isolate import Inputs, call_model, detached_inputs
from fa_core.measure.norms import Flattening
from fa_core.measure.stream import Merges, Stream, module_of, name_of, no_stream, prove
from fa_core.report.numbers import listed

StreamFunction: TypeAlias = Callable[[nn.Module, Any], tuple[Tensor, Sequence[Tensor]]]
"""``(model, x) -> (logits, [h_0..h_L])``."""

Taps: TypeAlias = str | Sequence[str] | StreamFunction | None
"""Taps as a caller gives them: None (the model's own stream), patterns, or a function."""

States: TypeAlias = tuple[Tensor, list[Tensor]]
"""Logits and h_0..h_L."""


class Tapped:
    """Runs a network with its stream tapped.

    Attributes:
        guess: patterns that were guessed; empty for taps that were given.
    """

    guess: Sequence[str] = ()

    def chosen(self, model: nn.Module, x: Inputs) -> Tapped:
        """The taps, after a look at the first batch."""
        return self

    def forward(self, model: nn.Module, x: Inputs, layers: Layers = None) -> Stream:
        """Run once; gradients are needed at ``layers``."""
        raise NotImplementedError

    def plain(self, model: nn.Module, x: Inputs) -> States:
        """Run without a look at the graph."""
        raise NotImplementedError

    def logits(self, model: nn.Module, x: Inputs) -> Tensor:
        """The logits alone, (B, C), outside the graph."""
        return plain_logits(model, x)


class ReturnedStream(Tapped):
    """A stream returned by the network or by a caller's function.

    Args:
        model: the network.
        function: ``(model, x) -> (logits, [h_0..h_L])``.
        name: its name in messages.
    """

    def __init__(self, model: nn.Module, function: StreamFunction, name: str) -> None:
        # listed once: walking the modules takes 2 % of a pass
        self._parameters = list(model.parameters())
        self._function = function
        self._name = name
        self._labels: list[str] = []

    def forward(self, model: nn.Module, x: Inputs, layers: Layers = None) -> Stream:
        logits, hidden = self.plain(model, x)
        for l, h in enumerate(hidden):
            if not h.requires_grad:
                raise TapError(
                    f"h_{l} from {self._name} carries no gradient",
                    hint="tap or return states that torch computes from weights or the input, with "
                    "no .detach(), torch.no_grad() or step (v > 0)",
                )
        _refuse_overwritten(hidden, self._name)
        names = self._labels or [f"h_{l}" for l in range(len(hidden))]
        flow = recording()
        if flow:
            _refuse_partial(logits, hidden, names)
        cuts = [flow.made(h) for h in hidden] if flow else ()
        return Stream(logits, hidden, hidden, names, returned=True, cuts=cuts)

    def logits(self, model: nn.Module, x: Inputs) -> Tensor:
        return self.plain(model, x)[0].detach()

    def plain(self, model: nn.Module, x: Inputs) -> States:
        # token ids carry no gradient, so the graph starts at the parameters
        with thawed(self._parameters):
            output = self._function(model, detached_inputs(model, x, gradients=True))
        match output:
            case [logits, [_, *_] as hidden]:
                pass
            case _:
                raise TapError(
                    f"{self._name} returned {described(output)}",
                    hint="it must return (logits, [h_0, ..., h_L]), the states as a list",
                )
        for l, h in enumerate(hidden):
            if not isinstance(h, Tensor) or not h.is_floating_point():
                raise TapError(
                    f"h_{l} from {self._name} is {described(h)}",
                    hint="return float tensors, one per layer",
                )
        return read_logits(logits), list(hidden)


class _Recorder:
    """Records the outputs of tapped modules in one forward pass.

    Each output is replaced by a copy, at which the gradient is read, so that a later in-place
    update cannot overwrite a tapped state.
    """

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self.names: list[str] = []
        self.hidden: list[Tensor] = []
        self.edges: list[GradientEdge | None] = []
        self.cuts: list[int] = []

    def __call__(self, name: str, state: Tensor) -> Tensor:
        wanted = self._layers is None or len(self.hidden) in self._layers
        self.names.append(name)
        self.hidden.append(state)
        if torch._C._functorch.is_functorch_wrapped_tensor(state):
            raise TapError(
                f"module {name} runs inside a transform of torch.func",
                hint="give a function (model, x) -> (logits, [h_0..h_L]) that returns its states",
            )
        with torch.inference_mode(False), torch.enable_grad():
            if not wanted:
                self.edges.append(None)
                return state.clone()
            if not state.requires_grad:
                state = state.detach().clone().requires_grad_()
            copied = state.clone()
        with torch._C.DisableTorchFunction():
            self.edges.append(get_gradient_edge(copied))
        flow = recording()
        if flow:
            self.cuts.append(flow.made(copied))
        return copied


class ModuleTaps(Tapped):
    """Outputs of the modules whose names match, in the order of the forward pass.

    A module that runs several times (tied weights) is a tap each time. Of a tuple, the first tensor
    is the state.
    """

    def __init__(self, model: nn.Module, patterns: str | Sequence[str]) -> None:
        self._modules = match_modules(model, patterns)

    def forward(self, model: nn.Module, x: Inputs, layers: Layers = None) -> Stream:
        found = _Recorder(layers)
        with tapped(model, self._modules, found):
            logits = read_logits(call_model(model, detached_inputs(model, x)))
        _check_ran(self._modules, found.names)
        return Stream(logits, found.hidden, found.edges, found.names, cuts=found.cuts)

    def plain(self, model: nn.Module, x: Inputs) -> States:
        hidden: list[Tensor] = []

        def tap(name: str, state: Tensor) -> Tensor:
            hidden.append(state)
            return state.clone()

        with tapped(model, self._modules, tap):
            logits = read_logits(call_model(model, detached_inputs(model, x, gradients=True)))
        return logits, hidden


class ReadTaps(ReturnedStream):
    """States as inputs (``blocks.*:in``) or outputs (``embed``) of modules, in forward order.

    This taps a network that adds ``h + block(h)`` itself: its blocks read the states, and the
    module after them, ``head:in``, reads the last one. A module's first tensor argument is the
    state. A tensor that several modules read is one state.
    """

    def __init__(self, model: nn.Module, patterns: str | Sequence[str]) -> None:
        super().__init__(model, self._collect, "the taps")
        self._modules = match_modules(model, patterns)
        self._copies = False

    def _collect(self, model: nn.Module, x: Inputs) -> States:
        labels: list[str] = []
        states: list[Tensor] = []
        read: list[tuple[Tensor, int]] = []
        ran: list[str] = []

        def tap(name: str, state: Tensor) -> Tensor:
            ran.append(name)
            for other, (earlier, version) in zip(labels, read, strict=True):
                if state is earlier and state._version == version:
                    _refuse_alike(model, other, name)
                    return state
            read.append((state, state._version))
            labels.append(name)
            states.append(state.clone() if self._copies else state)
            return state

        with tapped(model, self._modules, tap):
            logits = read_logits(call_model(model, x))
        written = any(state._version != version for state, version in read)
        if written and not self._copies:
            # the gradient is then read from the copies, which takes a pass per layer
            self._copies = True
            return self._collect(model, x)
        _check_ran(self._modules, ran)
        self._labels = labels
        return logits, states


def _refuse_alike(model: nn.Module, one: str, other: str) -> None:
    """Refuse two modules of a list that read one tensor, as blocks that read a condition do.

    Raises:
        TapError: names both.
    """
    pattern = pattern_of(model, one)
    if one != other and pattern == pattern_of(model, other):
        raise no_stream(
            f"{one} and {other} are one tensor",
            hint=f"leave one out, or tap what the blocks give: '{pattern.removesuffix(READS)}'",
        )


def _check_ran(modules: Sequence[str], ran: Collection[str]) -> None:
    """Refuse tapped modules that did not run; hooks do not see ``block.forward(h)``.

    Raises:
        TapError: names them.
    """
    idle = [name for name in modules if name not in ran]
    if idle:
        raise TapError(
            f"tapped modules that the network does not call: {', '.join(idle)}",
            hint="tap those that it calls as block(h), whatever it draws, as block.forward(h) runs "
            "no hooks, or give a function (model, x) -> (logits, [h_0..h_L])",
        )


@contextmanager
def thawed(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Let all floating-point parameters require gradients."""
    frozen = [p for p in parameters if p.is_floating_point() and not p.requires_grad]
    for p in frozen:
        p.requires_grad_(True)
    try:
        yield
    finally:
        for p in frozen:
            p.requires_grad_(False)


def _refuse_overwritten(hidden: Sequence[Tensor], name: str) -> None:
    """Refuse states in one memory that was written in place, which loses the earlier state.

    The same tensor twice is fine if nothing wrote into it (a block that returns its input).

    Raises:
        TapError: a state was overwritten.
    """
    seen: dict[int, int] = {}
    for l, h in enumerate(hidden):
        earlier = seen.setdefault(h.data_ptr(), l)
        if earlier != l and h._version > 0 and h.numel():
            raise TapError(
                f"h_{earlier} and h_{l} from {name} share memory that was written in place, "
                f"so h_{earlier} is gone",
                hint="write h = h + f(h), return h.clone(), or tap the blocks by name",
            )


def _refuse_partial(logits: Tensor, hidden: Sequence[Tensor], names: Sequence[str]) -> None:
    """Refuse parts of a state's vectors, and views of what the network reads in another form, too.

    Raises:
        TapError: the norm or the gradient at a state would be a part of it.
    """
    for name, h in zip(names, hidden, strict=True):
        with torch._C.DisableTorchFunction():
            is_partial, is_read = selects_features(h), read_in_another_form(h, logits)
            part = part_of_read(h, logits)
            is_other = part is not None and not any(map(part.equal, selected(hidden[-1])))
        if is_other or (part is not None and h is hidden[-1]):
            raise TapError(
                f"{name} is a part of a state, and the logits read other parts of it",
                hint="return whole states; of a state of which the head reads one token, that one",
            )
        if is_partial:
            raise TapError(
                f"{name} is a part of each vector of a state",
                hint="return whole states; some of their tokens will do, as h[:, 0]",
            )
        if is_read:
            raise TapError(
                f"{name} is a view, and the network also reads what it is a view of",
                hint="give a function (model, x) -> (logits, [h_0..h_L]) that returns that",
            )


class GuessedTaps(Tapped):
    """Taps that are guessed from the first batch, by a forward pass (see `guess_taps`)."""

    def chosen(self, model: nn.Module, x: Inputs) -> Tapped:
        self.guess = guess_taps(model, x)
        return _by_names(model, self.guess)


def guess_taps(model: nn.Module, x: Inputs) -> list[str]:
    """Patterns for h_0..h_L of a network that does not return its stream, proven to be one.

    What taps leave out is added to them, and tried after all `possible_taps`.

    Args:
        model: the network in eval mode.
        x: inputs.

    Raises:
        TapError: no such stream, or no module gives or reads one of its states.
    """
    ways = possible_taps(model, x)
    tries, part = [*ways], list[str]()
    why = "the states that its sums and layers show are not all given or read by modules"
    for place, taps in enumerate(tries):
        if taps in ([], *tries[:place]):
            continue
        try:
            tapped = _by_names(model, taps)
            with torch.enable_grad(), Flow(model, x) as flow:
                stream = tapped.forward(model, x)
            proof = prove(flow, stream)
            left, pool = left_out(flow, proof, stream.hidden), pooled(flow, stream)
        except TapError as error:
            why = why if part else error.what
            continue
        # a module that hands its input on gives a state again
        cuts, sizes = map(flow.origin, proof.states), map(Tensor.numel, stream.hidden)
        states = {*zip(cuts, sizes, strict=True)}
        # side inputs may be a part of what is left out
        is_beside = part and proof.side_inputs and taps not in ways
        if is_beside or len(states) < max(2, len(stream.names)):
            continue
        # a module that runs several times has one
        names = [name.partition(" ")[0] for name in stream.names]
        if pool is not None:
            l, before = pool
            why = why if part else said_of_pool(stream, pool)
            names[l : l + 1] = [before]
            tries.append(names if before else names[:l])
            continue
        outer = read_outside(flow, proof)
        # more than the blocks
        left = left or said_of(outer * (len(outer) >= len(names)))
        part = in_lists(model, names)
        if not left:
            return part
        why = f"'{','.join(part)}' would leave out {listed(left)}"
        # a module whose output is tapped is left out by what it reads
        given = [f"{name}{READS}" if name in names else name for name in left.values()]
        at = len(tries) if taps in ways else place + 1
        more = ([*filter(None, added)] for added in (outer, given))
        tries[at:at] = [names + added for added in more if added]
    raise no_guess(model, why, part)


def pooled(flow: Flow, stream: Stream) -> tuple[int, str] | None:
    """The first state without tokens or pixels, if it pools those of the states before it.

    Layers may lie behind the pool of tokens, or behind a part of them.

    Returns:
        Its layer, and the module that gives or reads what is pooled, or reads the part; "" without
        one.
    """
    l = first_without_positions(stream.hidden)
    read = read_by(stream.hidden)
    node = stream.cuts[l]
    if not l or (read is not None and Flattening.of(stream.hidden, read).reads_token):
        return None
    size, pool = stream.hidden[l].numel(), None
    is_image = stream.hidden[l - 1].dim() > 3
    cuts = [*map(flow.origin, stream.cuts[:l])]
    while flow.operations[node].size <= size:
        one = flow.operations[node]
        # a part of the pixels is a transition's, and one of the tokens a readout's
        if (is_image and one.parts) or not one.reads or flow.origin(node) in cuts:
            return None
        # a residual behind the pool adds to what it gives
        largest = max(one.reads, key=lambda read: flow.operations[read].size)
        if one.is_product:
            if one.parts:
                return l, f"{module_of(flow, node)}{READS}"
            size = max(size, flow.operations[largest].size)
        pool = None if one.adds or one.parts else one
        node = min(one.reads) if one.adds else largest
    # some places are left, or every block may end in one
    alike = [flow.operations[made].name for made in stream.cuts[:l]]
    is_step = pool and (("pool" in pool.name and not pool.is_vector) or pool.name in alike)
    if is_step or (is_image and not pool):
        return None
    merges = Merges(flow, flow.sources)
    # keys and values of attention to a pool lie beside the states
    path = path_to(merges.above, flow.made(stream.logits))
    node = max({*path}.intersection(path_to(merges.above, node)), default=node)
    # of a final norm, what it reads
    within, behind = len(merges.norms(stream.cuts[l - 1])), merges.norms(node)
    if len(behind) > within:
        node = behind[-1 - within]
    if (made := flow.origin(node)) in cuts:
        return l, stream.names[cuts.index(made)]
    # what a module reads of it may be the part
    known = "", stream.names[l]
    while (name := name_of(flow, node)) in known:
        one = flow.operations[node]
        if one.is_product or len(one.reads) != 1:
            return l, ""
        (node,) = one.reads
    return l, name


def said_of_pool(stream: Stream, pool: tuple[int, str]) -> str:
    """What a pooled state is."""
    l, before = pool
    return (
        f"h_{l} ({stream.names[l]}) is, or is made of, a part or a pool of tokens or pixels, so "
        "its norm does not compare"
        + "; no module gives the state before (for h_n of an LSTM, read out[:, -1])"
        * (not before)
    )


def working_taps(model: nn.Module, x: Inputs) -> str:
    """The hint of an error about taps: the guess, if there is one."""
    try:
        return f"these are one: '{','.join(guess_taps(model, x))}'"
    except TapError as error:
        return error.hint


def resolve_taps(model: nn.Module, taps: Taps) -> Tapped:
    """The taps of `model` for a caller's ``taps``.

    Args:
        model: the network.
        taps: None for the model's own ``model(x, return_hidden=True) -> (logits, [h_0..h_L])``, or
            without one for a guess (`guess_taps`). Module-name patterns (``*`` and ``?`` within one
            part of a dotted name) tap the modules' outputs, in the order of the forward pass; with
            ``:in`` their inputs (``blocks.*:in, head:in``). Or a function (model, x) -> (logits,
            states).

    Raises:
        TapError: a pattern that names no module; lists names.

    Source: docs/formats.md, "Taps".
    """
    if taps is None:
        if _returns_hidden(model):
            own: Callable[..., Any] = partial(call_model, return_hidden=True)
            return ReturnedStream(model, own, "return_hidden=True")
        return GuessedTaps()
    if callable(taps):
        return ReturnedStream(model, taps, getattr(taps, "__name__", "taps"))
    return _by_names(model, taps)


def _by_names(model: nn.Module, taps: str | Sequence[str]) -> Tapped:
    """Taps by pattern: at the modules' outputs, or with ``:in`` at their inputs."""
    if any(part.endswith(READS) for part in split_patterns(taps)):
        return ReadTaps(model, taps)
    return ModuleTaps(model, taps)


def _returns_hidden(model: nn.Module) -> bool:
    try:
        parameters = inspect.signature(model.forward).parameters
    except (TypeError, ValueError):
        return False
    # a wrapper that forwards all arguments, such as DataParallel
    wrapped = getattr(model, "module", None)
    passes_on = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return "return_hidden" in parameters or (
        passes_on and isinstance(wrapped, nn.Module) and _returns_hidden(wrapped)
    )
