"""Taps: how to get h_0..h_L, and the gradients at them, out of any network in one forward pass."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge
from torch.utils._pytree import tree_leaves

from fa_core.errors import TapError
from fa_core.measure.graph import SELECTIONS, follows_norm, node_of, origin
from fa_core.measure.isolate import Inputs, answer, lent, wide
from fa_core.measure.norms import vector_norms
from fa_core.methods.base import output_error

_MOST_SUGGESTIONS = 8


def match_modules(model: nn.Module, patterns: str | Sequence[str]) -> list[str]:
    """The modules that patterns name, each once, under its first name.

    ``*`` and ``?`` stay within one part of a dotted name: ``blocks.*`` is the blocks, not what is inside
    them. A module registered under several names (tied weights) matches by any of them. ``:in`` and ``:out`` behind
    a pattern say which of its tensors is the state (`ReadTaps`), and are left out here.

    Args:
        model: the network.
        patterns: one pattern, several, or several joined by commas.

    Raises:
        TapError: a pattern that matches nothing; lists candidates.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    >>> match_modules(net, "0, 1.*")
    ['0', '1.0', '1.1']
    """
    parts = [part.removesuffix(READS).removesuffix(":out") for part in split_patterns(patterns)]
    if not parts:
        raise TapError("no taps given", hint=f"candidates: {candidates(model)}")
    first_name = {module: name for name, module in model.named_modules() if name}
    named = list(model.named_modules(remove_duplicate=False))
    found: dict[str, None] = {}
    for pattern in parts:
        hits = [first_name[module] for name, module in named if name and _matches(name, pattern)]
        if not hits:
            hint = f"candidates: {candidates(model)}"
            raise TapError(f"no module of {type(model).__name__} is named {pattern!r}", hint=hint)
        found.update(dict.fromkeys(hits))
    return list(found)


READS = ":in"
"""Behind a pattern: what the modules read is the state, not what they give."""


def split_patterns(patterns: str | Sequence[str]) -> list[str]:
    """Patterns one by one, of one text joined by commas or of several.

    >>> split_patterns("embed, blocks.*:in")
    ['embed', 'blocks.*:in']
    """
    given = [patterns] if isinstance(patterns, str) else list(patterns)
    return [part.strip() for pattern in given for part in pattern.split(",") if part.strip()]


def candidates(model: nn.Module) -> str:
    """Patterns worth trying: lists of like blocks, and the modules before them.

    >>> candidates(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))))
    "['0', '1.*']"
    """
    names: list[str] = []
    for name, module in model.named_children():
        inside = [
            f"{name}.{inner}"
            for inner, child in module.named_modules()
            if inner and _is_list(child)
        ]
        names += [f"{one}.*" for one in ([name] if _is_list(module) else inside[:2])] or [name]
    lists = [place for place, name in enumerate(names) if name.endswith(".*")]
    # what comes after the blocks (norm, head) is no stream
    names = names[: lists[-1] + 1] if lists else names
    shown = names[:_MOST_SUGGESTIONS]
    more = ["..."] if len(names) > len(shown) else []
    return str(shown + more) if shown else "(it has no submodules: give a function)"


def _is_list(module: nn.Module) -> bool:
    return isinstance(module, (nn.ModuleList, nn.Sequential)) and len(module) > 1


def _matches(name: str, pattern: str) -> bool:
    ours, theirs = name.split("."), pattern.split(".")
    return len(ours) == len(theirs) and all(map(fnmatchcase, ours, theirs))


@dataclass(frozen=True)
class Stream:
    """What one forward pass gave.

    Attributes:
        logits: (B, C), attached to the graph.
        hidden: h_0..h_L as the network made them, each (B, ...).
        edges: where in the graph to read g_l: a state itself, or its place; None for layers that were not asked for.
        names: names of h_0..h_L.
        returned: the network handed the states over itself, so that they may be side branches.
        dtypes: of what modules gave, also before the first tap, where the graph may begin.
        cuts: nodes of every state (see `fa_core.measure.graph.unlinked`).
    """

    logits: Tensor
    hidden: list[Tensor]
    edges: Sequence[Tensor | GradientEdge | None]
    names: list[str]
    returned: bool = False
    dtypes: Collection[torch.dtype] = ()
    cuts: Sequence[Sequence[Any]] = ()


IGNORED = -100
"""A label (B, T) of this value does not count, as in `torch.nn.functional.cross_entropy`."""

_LARGEST_ERROR = 2**24
"""Entries of e_T at a time where there is one per token: 128 MB in float64."""


def loss_terms(y: Tensor) -> int:
    """How many labels CE averages over: B, or those of (B, T) that count."""
    return len(y) if y.dim() == 1 else int((y != IGNORED).sum())


def loss_gradient(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """∂CE/∂logits = e_T/N, rounded once to the logits' dtype, and e_T; both 0 where a label is ignored.

    Args:
        logits: (..., B, C) for labels (B,), or (B, T, C) for labels (B, T).
        y: class indices; N of them count (`loss_terms`).

    Returns:
        (shaped like the logits, e_T in float64: (..., B, C), or its norm alone, (B, T, 1), where it is one per token).

    Source: docs/protocol.md §2.
    """
    terms = max(1, loss_terms(y))
    if y.dim() == 1:
        error = output_error(wide(logits), y)
        return (error / terms).to(logits), error
    rows, size = logits.detach().flatten(0, 1), max(1, _LARGEST_ERROR // logits.shape[-1])
    starts, norms = [], []
    for at in range(0, len(rows), size):
        part, labels = rows[at : at + size], y.flatten()[at : at + size]
        counts = (labels != IGNORED).to(wide(part).device)[:, None]
        error = torch.where(counts, output_error(wide(part), labels.clamp(min=0)), 0.0)
        starts.append((error / terms).to(logits))
        norms.append(vector_norms(error))
    return torch.cat(starts).view(logits.shape), torch.cat(norms).view(*y.shape, 1)


def activation_gradients(
    stream: Stream, y: Tensor, layers: Sequence[int] | None = None
) -> tuple[list[Tensor], Tensor]:
    """g_l = ∂CE/∂h_l at the asked layers, and e_T, from one backward pass.

    CE is averaged over the labels: the pass starts from `loss_gradient`.
    Parameters get no gradient. Networks stacked as (N, B, C) each have their own mean.

    Args:
        stream: a forward pass.
        y: (B,) class indices, or (B, T) with ignored ones.
        layers: which l; None = all.

    Returns:
        ([g_l, each shaped like h_l], e_T as `loss_gradient` gives it).

    Raises:
        TapError: a tap that the logits do not depend on.

    Source: docs/protocol.md §2.
    """
    logits = stream.logits
    if not logits.requires_grad:
        hint = "its forward must run without .detach(), torch.no_grad() and torch.inference_mode() after the taps"
        raise TapError("the network's logits carry no gradient", hint=hint)
    chosen = range(len(stream.edges)) if layers is None else layers
    edges: Any = [edge for edge in (stream.edges[l] for l in chosen) if edge is not None]
    start, error = loss_gradient(logits, y)
    # a side branch is only known by its missing gradient; finding its source takes the graph once more
    found = torch.autograd.grad(
        logits, edges, start, allow_unused=True, retain_graph=stream.returned
    )
    gradients = []
    for layer, gradient in zip(chosen, found, strict=True):
        if gradient is None and stream.returned:
            gradient = _side_branch_gradient(logits, start, stream.hidden[layer])
        if gradient is None:
            hint = "tap the tensor that the next block reads, not a by-product of it; no .detach() may lie behind it"
            raise TapError(
                f"the logits do not depend on tap {layer} ({stream.names[layer]})", hint=hint
            )
        gradients.append(gradient)
    return gradients, error


def _side_branch_gradient(logits: Tensor, start: Tensor, state: Tensor) -> Tensor | None:
    """The gradient at the stream entries that a returned copy, view or slice shows.

    The state is S·h for a selection S, and the logits depend on h only. Walking back from the state
    through its copying and slicing nodes to the first tensor with a gradient g = ∂CE/∂h, the wanted
    gradient is S·g. The nodes compute Sᵀv, which is linear in v, so S·g is its derivative against g.
    """
    node: Any = state.grad_fn
    v = torch.zeros_like(state).requires_grad_()
    adjoint: Tensor = v
    while node is not None and node.name() in SELECTIONS:
        adjoint = node(adjoint)
        source, output = node.next_functions[0]
        if source is None:
            return None
        edge = GradientEdge(source, output)
        (gradient,) = torch.autograd.grad(
            logits, [edge], start, allow_unused=True, retain_graph=True
        )
        if gradient is not None:
            return torch.autograd.grad(adjoint, v, gradient)[0]
        node = source
    return None


StreamFunction: TypeAlias = Callable[[nn.Module, Any], tuple[Tensor, Sequence[Tensor]]]
"""``(model, x) -> (logits, [h_0..h_L])``."""

Taps: TypeAlias = str | Sequence[str] | StreamFunction | None
"""What a caller may ask for: None (the model's own stream), patterns, or a function."""


def own_stream(model: nn.Module, x: Inputs) -> Any:
    """The stream that a network offers by itself."""
    return answer(model, x, return_hidden=True)


def read_logits(output: Any) -> Any:
    """The logits in what a forward pass returned: a tensor, ``.logits``, ``["logits"]``, or the first item.

    Raises:
        TapError: the first of several items, where another one may as well be the logits: (features, logits).
    """
    if isinstance(output, Tensor):
        return output
    if hasattr(output, "logits"):
        return output.logits
    if isinstance(output, dict):
        return output.get("logits", output)
    if not isinstance(output, (tuple, list)) or not output:
        return output
    rivals = [
        item
        for item in output[1:]
        if _is_matrix(item) and _is_matrix(output[0]) and len(item) == len(output[0])
    ]
    for rival in rivals:
        if rival is not output[0]:
            raise TapError(
                f"the forward returns {_kind(output[0])} and {_kind(rival)}: either may be the logits",
                hint="wrap the network in a module whose forward returns the logits alone, e.g. self.net(x)[1], "
                "and tap its blocks through it: net.blocks.*",
            )
    return output[0]


def _is_matrix(item: Any) -> bool:
    return isinstance(item, Tensor) and item.dim() == 2 and item.is_floating_point()


def plain_logits(model: nn.Module, x: Inputs) -> Tensor:
    """What the network answers to (B, ...), (B, C), without a graph."""
    with torch.no_grad():
        logits: Tensor = read_logits(answer(model, lent(model, x)))
    return logits


def first_tensor(output: Any) -> Tensor | None:
    """The tensor a module returned: itself, or the first in a tuple or list."""
    items = output if isinstance(output, (tuple, list)) else (output,)
    return next((item for item in items if isinstance(item, Tensor)), None)


def replace_first_tensor(output: Any, tensor: Tensor) -> Any:
    """What a module returned, with `tensor` in the place of its first tensor."""
    if isinstance(output, Tensor):
        return tensor
    items = list(output)
    items[next(i for i, item in enumerate(items) if isinstance(item, Tensor))] = tensor
    return getattr(type(output), "_make", type(output))(items)


class ReturnedStream:
    """A stream that the network, or a function of the caller's, returns.

    Args:
        function: ``(model, x) -> (logits, [h_0..h_L])``.
        name: what to call it in messages.
    """

    shifted = False

    def __init__(self, function: StreamFunction, name: str) -> None:
        self.own: Any = None
        self._function = function
        self._name = name
        self._from_parameters = False
        self._looked = False
        self.remark = ""
        self._labels: list[str] = []

    def forward(self, model: nn.Module, x: Inputs, layers: Sequence[int] | None = None) -> Stream:
        logits, hidden = self._run(model, x)
        if not self._from_parameters and not all(h.requires_grad for h in hidden):
            # token ids carry no gradient: the graph has to start at the embedding's weights
            self._from_parameters = True
            logits, hidden = self._run(model, x)
        for layer, h in enumerate(hidden):
            if not h.requires_grad:
                hint = "return the stream's own tensors: no .detach(), no torch.no_grad()"
                raise TapError(f"h_{layer} from {self._name} is detached from the graph", hint=hint)
        _refuse_overwritten(hidden, self._name)
        names = self._labels or [f"h_{layer}" for layer in range(len(hidden))]
        after_norm = not self._looked and follows_norm([node_of(h) for h in hidden])
        if (
            after_norm
            and (blocks := _blocks_behind(model, lambda: self._run(model, x)[1])) is not None
        ):
            instead = f"tap the blocks instead: taps={blocks}; or " if blocks else ""
            what = f"{names[-1]} from {self._name} comes after the final norm, where no explosion shows"
            raise TapError(what, hint=f"{instead}return what the norm reads as {names[-1]}")
        self._looked = True
        cuts = [[self._node(h)] for h in hidden]
        return Stream(logits, hidden, hidden, names, returned=True, cuts=cuts)

    def _node(self, state: Tensor) -> Any:
        return node_of(state)

    def plain(
        self, model: nn.Module, x: Inputs, shifts: Sequence[Tensor] | None
    ) -> tuple[Tensor, list[Tensor]]:
        return self._run(model, x)

    def logits(self, model: nn.Module, x: Inputs) -> Tensor:
        with torch.no_grad():
            return self._run(model, x)[0]

    def _run(self, model: nn.Module, x: Inputs) -> tuple[Tensor, list[Tensor]]:
        with thawed(model) if self._from_parameters and torch.is_grad_enabled() else nullcontext():
            output = self._function(model, lent(model, x, gradients=True))
        hint = "it must return (logits, [h_0, ..., h_L]), the states as a list"
        if not (
            isinstance(output, (tuple, list))
            and len(output) == 2
            and isinstance(output[1], (tuple, list))
        ):
            raise TapError(f"{self._name} returned {_kind(output)}", hint=hint)
        hidden = list(output[1])
        if not hidden:
            raise TapError(f"{self._name} returned an empty stream", hint=hint)
        for layer, h in enumerate(hidden):
            if not (isinstance(h, Tensor) and h.is_floating_point()):
                raise TapError(
                    f"h_{layer} from {self._name} is {_kind(h)}",
                    hint="return float tensors, one per layer",
                )
        return read_logits(output[0]), hidden


class ModuleTaps:
    """The outputs of the modules whose names match, in the order of the forward pass.

    A module that runs several times (tied weights) is a tap each time. Each output is replaced by a
    copy of itself, so that a later in-place update cannot overwrite a tapped state, and the copy is
    where the gradient is read. Of a tuple, the first tensor counts.
    """

    shifted = True

    def __init__(self, model: nn.Module, patterns: str | Sequence[str]) -> None:
        self.own: Any = None
        self.remark = ""
        self._names = match_modules(model, patterns)
        self._looked = False
        self._dtypes: set[torch.dtype] = set()

    def forward(self, model: nn.Module, x: Inputs, layers: Sequence[int] | None = None) -> Stream:
        names: list[str] = []
        hidden: list[Tensor] = []
        edges: list[GradientEdge | None] = []
        nodes: list[Any] = []
        cuts: list[list[Any]] = []

        def tap(name: str, state: Tensor, beside: Sequence[Tensor]) -> Tensor:
            layer = len(hidden)
            names.append(name)
            nodes.append(node_of(state))
            hidden.append(state)
            with torch.enable_grad():
                if layers is not None and layer not in layers:
                    edges.append(None)
                    return state.clone()
                source = state if state.requires_grad else state.detach().requires_grad_()
                onward = source.clone()
                with torch._C.DisableTorchFunction():
                    edges.append(torch.autograd.graph.get_gradient_edge(onward))
                cuts.append([node for t in (onward, *beside) if (node := node_of(t)) is not None])
                return onward

        with (
            tapped_outputs(model, self._names, tap),
            nullcontext() if self._looked else module_dtypes(model, self._dtypes),
        ):
            logits = read_logits(answer(model, lent(model, x)))
        if not hidden:
            hint = f"tap modules that its forward calls, e.g. {candidates(model)}"
            raise TapError(f"none of the tapped modules ran: {', '.join(self._names)}", hint=hint)
        end = edges[-1] and edges[-1].node
        if end is not None and origin(node_of(logits), SELECTIONS, [end]) is end:
            hint = "leave it out: the last block's output is h_L"
            raise TapError(
                f"the last tap, {names[-1]}, gives the logits, which are no hidden state", hint=hint
            )
        # a block that ends in a norm is a tap like any other; a norm by itself is none
        alone = not self._looked and not any(
            model.get_submodule(names[-1].split(" ")[0]).children()
        )
        if alone and nodes[-1] is None:
            # no state before it starts a graph: the parameters have to
            with thawed(model):
                nodes = [node_of(h) for h in self.plain(model, x, None)[1]]
        if alone and follows_norm(nodes):
            hint = f"leave it out: the last block's output is h_L; candidates: {candidates(model)}"
            raise TapError(
                f"the last tap, {names[-1]}, is the final norm, after which no explosion shows",
                hint=hint,
            )
        self._looked = True
        return Stream(logits, hidden, edges, names, dtypes=self._dtypes, cuts=cuts)

    def plain(
        self, model: nn.Module, x: Inputs, shifts: Sequence[Tensor] | None
    ) -> tuple[Tensor, list[Tensor]]:
        hidden: list[Tensor] = []

        def tap(name: str, state: Tensor, beside: Sequence[Tensor]) -> Tensor:
            hidden.append(state)
            return (
                state.detach().requires_grad_().clone()
                if shifts is None
                else state + shifts[len(hidden) - 1]
            )

        with tapped_outputs(model, self._names, tap):
            logits: Tensor = read_logits(answer(model, lent(model, x, gradients=True)))
        return logits, hidden

    logits = staticmethod(plain_logits)


class ReadTaps(ReturnedStream):
    """States where modules read them (``blocks.*:in``) or give them (``embed``), in the order of the forward pass.

    So the stream of a network that adds ``h + block(h)`` itself is tapped: its blocks read the states, and what
    comes behind them, ``head:in``, reads the last one. The first tensor that a module is called with counts. One
    tensor is one state: read again, by whichever module, it is no further layer.
    """

    def __init__(self, model: nn.Module, patterns: str | Sequence[str]) -> None:
        super().__init__(self._collect, "the taps")
        parts = split_patterns(patterns)
        self._read = match_modules(model, [part for part in parts if part.endswith(READS)])
        given = [part for part in parts if not part.endswith(READS)]
        self._given = match_modules(model, given) if given else []
        self._copies = False

    def _node(self, state: Tensor) -> Any:
        node = node_of(state)
        return node.next_functions[0][0] if self._copies else node

    def _collect(self, model: nn.Module, x: Inputs) -> tuple[Tensor, list[Tensor]]:
        labels: list[str] = []
        states: list[Tensor] = []
        versions: list[int] = []
        read: list[Tensor] = []

        def tap(name: str, state: Tensor, beside: Sequence[Tensor]) -> Tensor:
            if any(state is h and state._version == v for h, v in zip(read, versions, strict=True)):
                return state
            read.append(state)
            labels.append(name)
            versions.append(state._version)
            states.append(state.clone() if self._copies else state)
            return state

        with tapped_inputs(model, self._read, tap), tapped_outputs(model, self._given, tap):
            logits = read_logits(answer(model, x))
        written = any(h._version != v for h, v in zip(read, versions, strict=True))
        if written and not self._copies:
            # its gradient is then found from the copy, which takes a pass per layer
            self._copies = True
            return self._collect(model, x)
        self._labels = labels
        return logits, states


Tapped: TypeAlias = ReturnedStream | ModuleTaps
"""A way to run a network with its stream tapped.

``shifted``: whether its states take shifts; else gradients are read at the states themselves.
``remark``: what a report has to say of its states.
``own``: what is known of a backward pass of the network's own (`fa_core.measure.tracing.OwnBackward`).
``forward``: run once; ``layers`` are those whose gradient is wanted (None = all).
``plain``: logits and states without a look at the graph; h_l goes on as h_l plus its shift, None = zeros.
``logits``: the logits alone, (B, C), without a graph.
"""


Tap: TypeAlias = Callable[[str, Tensor, Sequence[Tensor]], Tensor]
"""(name, state, tensors that the module gave beside it) → what goes on in the state's place."""


@contextmanager
def tapped_inputs(model: nn.Module, modules: Sequence[str], tap: Tap) -> Iterator[None]:
    """Show `tap` the first tensor that modules are called with, every time they run; it goes on as it is.

    Raises:
        TapError: in the pass, from a module that is called with no float tensor.
    """
    calls: Counter[str] = Counter()

    def hook(name: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        first = first_tensor((*args, *kwargs.values()))
        if first is None or not first.is_floating_point():
            hint = "tap a module that is called with the state"
            raise TapError(f"module {name} reads {_kind(first)}", hint=hint)
        calls[name] += 1
        again = "" if calls[name] == 1 else f" (call {calls[name]})"
        tap(f"{name}{READS}{again}", first, ())

    handles = [
        model.get_submodule(name).register_forward_pre_hook(partial(hook, name), with_kwargs=True)
        for name in modules
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def tapped_outputs(model: nn.Module, modules: Sequence[str], tap: Tap) -> Iterator[None]:
    """Replace what modules return, every time they run, by what `tap` makes of it.

    Args:
        model: the network.
        modules: their names.
        tap: called with the name, the number of the call after the first behind it.

    Raises:
        TapError: in the pass, from a module that returns no float tensor.
    """
    calls: Counter[str] = Counter()

    def hook(name: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        first = first_tensor(output)
        if first is None:
            hint = "tap a module that returns a tensor, or give a function (model, x) -> (logits, states)"
            raise TapError(f"module {name} returns {_kind(output)}", hint=hint)
        if not first.is_floating_point():
            raise TapError(
                f"module {name} returns {_kind(first)}",
                hint="tap a module that returns a float tensor",
            )
        calls[name] += 1
        label = name if calls[name] == 1 else f"{name} (call {calls[name]})"
        beside = [t for t in tree_leaves(output) if isinstance(t, Tensor) and t is not first]
        return replace_first_tensor(output, tap(label, first, beside))

    with hooked(model, hook, modules):
        yield


@contextmanager
def hooked(
    model: nn.Module, hook: Callable[..., Any], modules: Sequence[str] | None = None
) -> Iterator[None]:
    """Call ``hook(name, module, args, keyword arguments, output)`` after modules ran; it may return another output.

    Args:
        model: the network.
        hook: as above.
        modules: their names; None = all, but for the network itself.
    """
    names = [name for name, _ in model.named_modules() if name] if modules is None else modules
    how = [(model.get_submodule(name), partial(hook, name)) for name in names]
    handles = [module.register_forward_hook(call, with_kwargs=True) for module, call in how]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _blocks_behind(model: nn.Module, run: Callable[[], list[Tensor]]) -> list[str] | None:
    """Patterns for the modules that made the states before a final norm, h_0 excepted where none made it.

    None of them where one of the states is no module's output, as where a block returns the branch alone.
    None where the norm is the end of a block: of a module that gives h_L and does not hold what gives h_{L−1}.
    """
    made: dict[Any, list[str]] = {}
    read: dict[Any, Any] = {}

    def hook(name: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        given, got = first_tensor(args), first_tensor(output)
        if got is not None and got.grad_fn is not None and not _is_list(module):
            # from the inside out
            made.setdefault(got.grad_fn, []).append(name)
            read.setdefault(got.grad_fn, given.grad_fn if given is not None else None)

    with hooked(model, hook):
        *before, last = [origin(h.grad_fn, SELECTIONS, made) for h in run()]
    previous = made.get(before[-1], []) if before else []
    around = made.get(last, [])[1:]
    if previous and any(not name.startswith(f"{block}.") for block in around for name in previous):
        return None
    # a norm that is no module does not show what it read: the states before it have to do
    stream = [*before, origin(read[last], SELECTIONS, made)] if last in read else before
    needed = stream[1:] if before else stream
    if not needed or any(node not in made for node in needed):
        return []
    outermost = [made[node][-1] for node in stream if node in made]
    return list(dict.fromkeys(re.sub(r"\.\d+$", ".*", name) for name in outermost))


@contextmanager
def module_dtypes(model: nn.Module, found: set[torch.dtype]) -> Iterator[None]:
    """Collect the dtypes of what modules return."""

    def hook(name: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        first = first_tensor(output)
        if first is not None:
            found.add(first.dtype)

    with hooked(model, hook, ["", *(name for name, _ in model.named_modules() if name)]):
        yield


@contextmanager
def thawed(model: nn.Module) -> Iterator[None]:
    """Let the parameters carry gradients."""
    frozen = [p for p in model.parameters() if p.is_floating_point() and not p.requires_grad]
    for p in frozen:
        p.requires_grad_(True)
    try:
        yield
    finally:
        for p in frozen:
            p.requires_grad_(False)


def _refuse_overwritten(hidden: Sequence[Tensor], name: str) -> None:
    """Refuse states that are one memory written in place: the earlier one's values are gone.

    The same tensor twice is fine where nothing wrote into it (a block that passes its input through).
    """
    if not any(h._version for h in hidden):
        return
    seen: dict[tuple[int, int], int] = {}
    for layer, h in enumerate(hidden):
        key = (h.untyped_storage().data_ptr(), h.data_ptr())
        earlier = seen.setdefault(key, layer)
        if earlier != layer and h._version > 0 and h.numel():
            raise TapError(
                f"h_{earlier} and h_{layer} from {name} share memory that was written in place, so h_{earlier} is gone",
                hint="write h = h + f(h), return h.clone(), or tap the blocks by name",
            )


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a {str(value.dtype).removeprefix('torch.')} tensor of shape {tuple(value.shape)}"
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return f"({_kind(value[0])}, {_kind(value[1])})"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
