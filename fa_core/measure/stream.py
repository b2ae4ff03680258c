"""Whether taps are *the* stream, proven on the data flow that ran, of independent samples.

What no graph shows is proven by running the first batch again, after all others (`Trials`).

Source: docs/protocol.md §2, *The stream, proven*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain, groupby, pairwise
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from fa_core.errors import MeasureError, TapError
from fa_core.measure.batch_input import IGNORED
from fa_core.measure.flow import ROOT, Flow, Operation, behind, dominators, entries, path_to
from fa_core.measure.hooks import READS
from fa_core.measure.isolate import Inputs, RngState, first_of, select_samples
from fa_core.measure.norms import agree, wrong_axis

_AFFINE = re.compile("_?(add|sub|mul|div|clamp|clamp_min|clone|to_copy|copy)_?")
_SCALING = re.compile("(mul|div)_?")
_COMPARING = re.compile("[gln][et]|eq|(logical|bitwise)_.*")


@dataclass(frozen=True)
class Stream:
    """The results of one forward pass.

    Attributes:
        logits: (B, C), attached to the graph.
        hidden: h_0..h_L in the network's own shapes, each (B, ...).
        edges: the state or graph edge at which to read g_l; None for layers not requested.
        names: names of h_0..h_L.
        returned: the network returned the states itself: they may be side branches.
        cuts: the operation that gave each state, of a pass that `Flow` records.
    """

    logits: Tensor
    hidden: list[Tensor]
    edges: Sequence[Tensor | GradientEdge | None]
    names: list[str]
    returned: bool = False
    cuts: Sequence[int] = ()


@dataclass(frozen=True)
class Proof:
    """What the proof of a cut leaves to say.

    All operations on the way to the logits lie before h_0, behind h_L, on a side input, or between
    states.

    Attributes:
        states: the operations that gave h_0..h_L.
        logits: the operation that gave the logits.
        outer: the operations before h_0, that which gives it included, those behind h_L, and those
            on side inputs.
        before: modules with weights before h_0, in forward order (see `_acting`).
        steps: those between each state and the next one.
        behind: those behind h_L.
        normed: the states that a norm gives, or an activation or pool behind one.
        side_inputs: those of what enters the blocks without passing h_0, or "the input".
        left_out: what the taps leave out; "" for the whole stream.
    """

    states: Sequence[int]
    logits: int
    outer: Sequence[set[int]]
    before: Sequence[str]
    steps: Sequence[Sequence[str]]
    behind: Sequence[str]
    normed: Sequence[str]
    side_inputs: Sequence[str]
    left_out: str = ""

    @property
    def note(self) -> str:
        """The report's note on what lies outside of h_0..h_L, and from one of these to the next."""
        steps = []
        for _, alike in groupby(map(" + ".join, self.steps), partial(re.sub, r"\d+", "*")):
            first, *others = alike
            one = first or "none"
            last = f" to {others[-1]}" if {*others} - {first} else ""
            steps.append(f"{one}{last} ({len(others) + 1} steps)" if others else one)
        places = {
            "weights before h_0": self.before or ["none"],
            "behind h_L": self.behind or ["none"],
            "between states": steps,
            "side input of the blocks": self.side_inputs,
            "outputs of norms, which set ‖h_l‖": self.normed,
        }
        return "; ".join(f"{place}: {', '.join(names)}" for place, names in places.items() if names)


class Merges:
    """The sums of two paths that fork at one activation, on the way from some sources.

    A layer of the network lies on the way: ``h - h.mean()`` and a GELU by its formula are none.

    Attributes:
        above: the dominators (see `dominators`).
    """

    def __init__(self, flow: Flow, sources: Collection[int]) -> None:
        self._flow = flow
        self.above = dominators(flow, sources)

    def __contains__(self, node: int) -> bool:
        operations, fork = self._flow.operations, self.above.get(node, ROOT)
        paths = self.above.keys() & operations[node].reads
        if not operations[node].adds or fork == ROOT or len(paths) < 2:
            return False
        has_layers = bool(self._flow.layers(self.way(node)))
        return has_layers and (self._flow.is_activation(fork) or self.skips(node))

    def way(self, node: int) -> set[int]:
        """The operations from an operation's dominator on, which is left out, to itself."""
        return behind(self._flow, [node], {self.above[node]}) - {self.above[node]}

    def readout(self, path: Sequence[int]) -> int:
        """The last layer behind which the logits are."""
        used = behind(self._flow, path[-1:]) & self.above.keys()
        return max(self._flow.layers(used), default=ROOT)

    def on(self, path: Sequence[int]) -> list[int]:
        """Those on a path that add to a whole state as it is, or lie before the readout."""
        last = self.readout(path)
        return [node for node in path if node in self and (node < last or self.skips(node))]

    def skips(self, node: int) -> bool:
        """Whether an operation adds to a whole state as it is."""
        origin, one = self._flow.origin, self._flow.operations[node]
        fork = origin(self.above.get(node, ROOT))
        return one.adds and fork in map(origin, {*one.reads} - {*one.parts})

    def before_norm(self, state: int) -> int:
        """What the norm that gave a state, up to gains, shifts and copies, reads; else the state.

        A norm is an operation of torch by that name, or has a product or quotient of a tensor and
        what is computed, without weights, from many of its entries.
        """
        node, operations = state, self._flow.operations
        while not self.is_norm(node):
            one, above = operations[node], self.above.get(node, ROOT)
            if above == ROOT or len(one.reads) != 1 or not _AFFINE.fullmatch(one.name):
                return state
            node = above
        return self._flow.origin(self.above.get(node, operations[node].reads[0]))

    def norms(self, state: int, gains: bool = True) -> list[int]:
        """What the norms and gains of a state read, last first, then the layer or sum before them.

        Activations, powers and pools may lie between and behind them.
        """
        found: list[int] = []
        while (above := self.above.get(state, ROOT)) != ROOT:
            if self._flow.layers(self.way(state)):
                break
            one = self._flow.operations[state]
            if self.is_norm(state) or (gains and one.weighted and is_scaling(one)):
                found.append(min(above, self.before_norm(state)))
            state = above
        return [*found, state]

    def is_norm(self, node: int) -> bool:
        """Whether an operation is a norm (see `before_norm`), or joins parts that are."""
        fork, one = self.above.get(node, ROOT), self._flow.operations[node]
        if fork == ROOT or one.adds or self._flow.layers(way := self.way(node)):
            return False
        return any(self._sets_size(each, fork) for each in ([node] if is_scaling(one) else way))

    def _sets_size(self, node: int, fork: int) -> bool:
        """Whether an operation is torch's norm, or scales by what it knows of many entries."""
        operations = self._flow.operations
        one = operations[node]
        if "norm" in one.name:
            return all(entries == one.size for *_, entries in one.views)
        for read in one.reads if is_scaling(one) and one.reads[1:] else ():
            by = [operations[each] for each in behind(self._flow, [read], {fork}) - {fork}]
            views = ((each, entries) for each in by for *_, entries in each.views)
            is_mask = _COMPARING.fullmatch(operations[self._flow.origin(read)].name)
            # gains may lie on what is divided, no gate on what divides
            is_gate = is_mask or any(each.weights for each in by)
            if not is_gate and any(entries > each.size for each, entries in views):
                return True
        return False


def prove(flow: Flow, stream: Stream) -> Proof:
    """Prove that states are a stream: every path to the logits passes them, one after the other.

    Args:
        flow: the pass.
        stream: its results.

    Raises:
        TapError: a path bypasses a state.
    """
    logits = flow.made(stream.logits)
    if logits == ROOT:
        raise TapError(
            "the network's logits do not depend on its input",
            hint="its forward must compute them in torch, from the tensors it is given",
        )
    used = behind(flow, [logits])
    states: list[int] = []
    for l, (name, made) in enumerate(zip(stream.names, stream.cuts, strict=True)):
        if made == ROOT:
            raise TapError(
                f"no input reaches tap {name}",
                hint="tap what is computed from the input: of block(pos, h), what it gives",
            )
        # of a returned copy that nothing reads, what it copies
        states.append(flow.origin(made, used))
        if states[l] not in used:
            raise TapError(
                f"the logits do not depend on tap {l} ({name})",
                hint="tap the tensor that the next block reads, not a by-product of it: of an LSTM "
                "or GRU out[:, -1], not h_n; where it reads two, return one that has both and run "
                "the blocks on its parts",
            )
    after = behind(flow, [logits], states[-1:]) - {states[-1]}
    if _is_readout(flow, stream, states, logits, after):
        raise TapError(
            f"the last tap, {stream.names[-1]}, gives the logits, or what a function without a "
            "layer makes them of, which is no hidden state",
            hint="leave it out: the last block's output is h_L",
        )
    said = [f"h_{l} ({name})" if name != f"h_{l}" else name for l, name in enumerate(stream.names)]
    _check_links(flow, [*states, logits], [*said, "the output"])
    outer = [behind(flow, states[:1]), after]
    beside, entering = _side_inputs(flow, states[0], used)
    steps = (behind(flow, [end], {start}) - {start} for start, end in pairwise(states))
    inside = [step.difference(outer[0], beside) for step in steps]
    outer.append(beside)
    before, last, sides, *between = _acting(flow, [*outer, *inside], used)
    if entering and not (sides and all(map(flow.is_activation, entering))):
        sides.append("the input")
    whole = Merges(flow, flow.sources)
    normed = [f"h_{l}" for l, one in enumerate(states) if whole.norms(one, gains=False)[1:]]
    return Proof(states, logits, outer, before, between, last, normed, sides)


def _is_readout(
    flow: Flow, stream: Stream, states: Sequence[int], logits: int, after: Iterable[int]
) -> bool:
    """Whether the last tap, with operations after it, is the logits, or lies behind the layer that
    they are made of.

    That is the last of all, behind the state before and on every path. A block that keeps the
    state's shape is none where the classes are fewer, nor is one before distances to weights.
    """
    shapes, classes = [h.shape[1:] for h in stream.hidden[-2:]], {*stream.logits.shape[-1:]}
    last = max(flow.layers(behind(flow, [logits])), default=ROOT)
    is_block = shapes[:-1] == shapes[1:] and classes.isdisjoint(shapes[0])
    ends_in_layer = [ROOT, *states][-2] < last <= states[-1] and not any(
        one.weighted and {flow.operations[read].size for read in one.reads} != {one.size}
        for one in map(flow.operations.__getitem__, after)
    )
    is_on_all = ends_in_layer and last in path_to(dominators(flow, flow.sources), logits)
    return (is_on_all and not is_block) or flow.origin(logits, states[-1:]) == states[-1]


def _check_links(flow: Flow, states: Sequence[int], said: Sequence[str]) -> None:
    """Check that each state is reached through the one before it only.

    Raises:
        TapError: two states without a path, or a path past a state.
    """
    before: dict[int, int] = {}
    for l, (here, following) in enumerate(pairwise(states)):
        met = behind(flow, [following], {here, *before})
        if here not in met:
            raise no_stream(f"{said[l + 1]} does not depend on {said[l]}")
        passing = met & before.keys() - {here}
        if passing:
            earlier = max(passing)
            stacks = any(
                one.name == "stack" and earlier in one.reads
                for one in map(flow.operations.__getitem__, met)
            )
            raise no_stream(
                f"past {said[l]}, {said[l + 1]} depends on {said[before[earlier]]}",
                hint="of states in one tensor (stack), a part counts as all: read each by itself"
                * stacks,
            )
        before[here] = l
    if met & set(flow.sources) - {here}:
        masked = " (masks may, as integers or bool)" * (len(flow.sources) > 1)
        raise no_stream(f"past {said[-2]}, {said[-1]} depends on the input{masked}")


def no_stream(what: str, hint: str = "") -> TapError:
    """The error for taps that are none."""
    return TapError(f"the taps are no stream: {what}", hint=hint)


def _side_inputs(flow: Flow, first: int, used: set[int]) -> tuple[set[int], set[int]]:
    """What enters the blocks without passing h_0: the operations on its way, and those that the
    blocks read.

    Raises:
        TapError: it forks from an activation before h_0, so it skips the states after it.
    """
    before = behind(flow, [first]) - {first}
    inside = dominators(flow, [first]).keys() & used - {first}
    entering = {*chain(*(flow.operations[node].reads for node in inside))} - inside - {first}
    beside = behind(flow, entering, before)
    fork = max(filter(flow.is_activation, beside & before), default=ROOT)
    if fork != ROOT:
        readers = (flow.operations[node] for node in used)
        # as a cell reads its time step
        if all(fork in one.parts for one in readers if fork in one.reads):
            return set(), set()
        what = module_of(flow, fork) or flow.operations[fork].name
        raise no_stream(f"past h_0, the states after it depend on what it is made of ({what})")
    # what a block itself does with them lies in the block
    calls = (range(call.begin, call.end) for call in flow.calls if call.begin > first)
    blocks = chain(*(call for call in calls if inside.intersection(call)))
    return beside.difference(blocks), entering


def _acting(flow: Flow, groups: Sequence[set[int]], used: set[int]) -> list[list[str]]:
    """What has the weights that act in groups of operations, in forward order.

    A module whose weights all act in a group is named there for its parts.

    Args:
        flow: the pass.
        groups: the operations.
        used: all operations on the way to the logits.
    """
    nodes = map(sorted, (*groups, used.difference(*groups)))
    found = [[*chain(*map(partial(_weights_of, flow), group))] for group in nodes]
    places: dict[str, set[int]] = {}
    for place, weights in enumerate(found):
        for weight in weights:
            places.setdefault(weight, set()).add(place)
    shared: dict[str, set[int]] = {}
    for weight, its in places.items():
        for part in _parts_of(weight):
            shared[part] = shared.get(part, its) & its

    def named(place: int) -> list[str]:
        parts = (filter(lambda part: place in shared[part], _parts_of(w)) for w in found[place])
        return list(dict.fromkeys(map(next, parts)))

    return list(map(named, range(len(groups))))


def _weights_of(flow: Flow, node: int) -> Sequence[str]:
    """The weights of an operation: parameters by name, else the module of a layer."""
    one = flow.operations[node]
    return one.weights or [module_of(flow, node) or "a tensor without a name"] * one.is_product


def _parts_of(name: str) -> Sequence[str]:
    """The modules around a name, the outermost first, and itself.

    >>> _parts_of("blocks.0.mlp")
    ['blocks', 'blocks.0', 'blocks.0.mlp']
    """
    return list(accumulate(name.split("."), "{}.{}".format))


def module_of(flow: Flow, node: int) -> str:
    """The name of the module that ran an operation; "" for the network itself."""
    call = flow.operations[node].call
    return flow.calls[call].name if call >= 0 else ""


def name_of(flow: Flow, node: int) -> str:
    """The module that gives or reads a state; "" without one."""
    named = [call for call in flow.calls if call.name]
    gives = [call.name for call in named if call.gave == node]
    return next(chain(gives, (f"{call.name}{READS}" for call in named if call.read == node)), "")


def is_scaling(operation: Operation) -> bool:
    """Whether an operation multiplies or divides."""
    return bool(_SCALING.fullmatch(operation.name))


Places: TypeAlias = Mapping[int, tuple[int, str]]
"""The operations that give states, by their numbers from `Flow.begin` on: l of h_l, and a name."""


class _Pinned(Flow):  # type: ignore[no-untyped-call]
    """A pass whose states are overwritten by vectors that are the same for all samples.

    What still differs between samples comes from the input past these states, in whatever way.
    Positions have the same vector too, so masks and lengths select among equal ones. A sample is
    left as it is, see `_touched`.

    Args:
        model: the network.
        x: inputs of the pass.
        places: the states.

    Attributes:
        pinned: the layers that were overwritten, and whether they differed between samples before.
    """

    def __init__(self, model: nn.Module, x: Inputs, places: Places) -> None:
        super().__init__(model, x)
        self._places = places
        self.pinned: dict[int, bool] = {}

    def gave(self, node: int, given: Tensor) -> None:
        layer, name = self._places.get(node - self.begin, (-1, ""))
        if name != self.operations[node].name or not given.is_floating_point():
            return
        self.pinned.setdefault(layer, False)
        before = given.clone()
        # a state that is written part by part is overwritten as a whole
        given.as_strided((entries(given),), (1,), 0).fill_(1)
        if given.dim() > 1 and len(given) == self._size:
            touched = _touched(self._size)
            given[:touched] = torch.linspace(0.5, 2, given.shape[-1])
            given[touched:] = before[touched:]
            others = before[1:touched]
            self.pinned[layer] |= not agree(before[:1].expand_as(others), others)


def _touched(size: int) -> int:
    """All samples but one; of two both, as else none would be compared with another."""
    return size - (size > 2)


@dataclass
class Trials:
    """Three more runs of the first batch, after all others.

    - Twice with a half of the samples moved to other places in the batch, and the other half
      changed to copies of one of these. What was moved must keep its logits, and one sample its
      states. So a sample that depends on a place in the batch is found, and one that depends on the
      content of a single other sample with a probability of 1/2.
    - With all states the same vector (see `_Pinned`): the logits must be the same for all samples
      but the untouched one, which must keep its own. A block whose state differs reads a side
      input.

    State between calls is found if it is another one than at first in one of the three. In a
    network that draws random numbers, the same ones in each run, no sample is moved, a run of the
    batch as it is stands for the first pass, and the last is left out.

    This needs no gradient, so detached and custom backward passes are no exception.

    Attributes:
        forward: runs the network.
        model: the network.
        x: inputs of the first batch.
        y: its labels.
        first: its pass, with the states of the samples at both ends of a circle.
        places: of its states.
        draws: whether the network drew random numbers.
    """

    forward: Callable[[Inputs], Stream]
    model: nn.Module
    x: Inputs
    y: Tensor
    first: Stream
    places: Places
    draws: bool

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(len(self.y))
        self._circle = torch.randperm(len(self.y), generator=generator)
        self._keep(self.first)

    def check(self) -> bool:
        """Run the batch again.

        Returns:
            Whether a block reads a side input.

        Raises:
            MeasureError: samples depend on each other, or the network keeps state.
            TapError: the samples of a state do, or the logits depend on the input past h_L.
        """
        if self.draws:
            self._keep(self._run(self.x))
        self._check_kept(0, self._circle)
        self._check_kept(-1, self._circle.flip(0))
        return not self.draws and self._check_past()

    def _check_kept(self, end: int, circle: Tensor) -> None:
        """Move one half of a circle of all samples one place on, and change the other half."""
        kept = circle[: (len(circle) + 1) // 2]
        to = (circle if self.draws else circle.roll(1))[: len(kept)]
        order = kept[:1].repeat(len(circle))
        order[to] = kept
        x = select_samples(self.x, order.to(first_of(self.x).device))
        stream = self._run(x)
        if not agree(self.first.logits[kept], stream.logits[to]):
            self._check_state(stream.logits, self._run(x).logits)
            raise MeasureError(
                "samples along axis 0 of a batch depend on each other"
                + (", or on how many random numbers others draw" if self.draws else "")
                + ", also in eval mode",
                hint="where the batch is axis 1, give x.transpose(0, 1) and y.transpose(0, 1), and "
                "wrap the network in a module that turns x, logits and states back; else fix what "
                "is computed over the batch, as statistics of a norm are",
            )
        for name, h, moved in zip(stream.names, self.first.hidden, stream.hidden, strict=False):
            if not agree(h[end], moved[to[0]]):
                raise wrong_axis(name, moved, len(circle))

    def _check_state(self, logits: Tensor, again: Tensor) -> None:
        """Refuse other logits than before for the same inputs, or than at first for the batch."""
        if not agree(logits, again) or not agree(self.first.logits, self._run(self.x).logits):
            raise MeasureError(
                "the network keeps state between calls, or draws past torch's seed: the first "
                "batch, run again, gives other logits",
                hint="call its reset in its forward, e.g. in a module around it; draw by torch",
            )

    def _check_past(self) -> bool:
        names = self.first.names
        last = len(names) - 1
        of_last = {node: one for node, one in self.places.items() if one[0] == last}
        touched = _touched(len(self.y))
        counted = self.y != IGNORED
        counted[touched:] = False
        proven = True
        for places in (self.places, of_last):
            run = _Pinned(self.model, self.x, places)
            with run:
                logits = self._run(self.x).logits
            if not agree(self.first.logits[touched:], logits[touched:]):
                with _Pinned(self.model, self.x, places):
                    again = self._run(self.x).logits
                self._check_state(logits, again)
            # where other operations run for such states, h_L alone is overwritten
            if last in run.pinned:
                one = logits.take_along_dim(counted.int().argmax(0)[None, ..., None], 0)
                proven = agree(one.expand_as(logits)[counted], logits[counted])
                if proven:
                    return any(l - 1 in run.pinned for l, differs in run.pinned.items() if differs)
        if proven:
            return False
        raise no_stream(
            f"past h_{last} ({names[last]}), the logits depend on the input: with the same "
            f"h_{last} for all samples they differ",
            hint="measure the network without that part, or with it before h_L",
        )

    def _keep(self, first: Stream) -> None:
        hidden = [h.detach()[self._circle[[0, -1]]] for h in first.hidden]
        self.first = replace(first, logits=first.logits.detach(), hidden=hidden, edges=())

    def _run(self, x: Inputs) -> Stream:
        with RngState().isolated():
            return self.forward(x)
