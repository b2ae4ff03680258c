"""The credit of a network's own backward pass, proven by the gradients that this pass writes.

What reaches a state need not train anything: a hook or a Function behind it may replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from fa_core.measure.batch_input import IGNORED
from fa_core.measure.gradients import loss_gradient
from fa_core.measure.graph import is_selection
from fa_core.measure.isolate import Inputs, RngState, tree_map
from fa_core.measure.loss import Loss
from fa_core.measure.norms import Signal, length, same
from fa_core.measure.taps import Tapped, thawed
from fa_core.measure.tracing import CutStates, OwnBackward

TOLERANCE = 1e-4
"""Relative distance of gradients that count as the same."""

_NEGLIGIBLE = 1e-6
"""A gradient this small against those of its block may be rounding alone, e.g. of a bias that a
softmax ignores."""

Credit: TypeAlias = Callable[[Inputs, Tensor], Signal]
"""(inputs, labels) → a_0..a_L of that batch."""

_Place: TypeAlias = tuple[Node, int]
"""A node of the graph and which of its outputs."""


@dataclass(frozen=True)
class _Backward:
    """One pass of a network's own backward.

    Attributes:
        arrived: for every state the vectors at its `_places`; None where the pass does not come.
        written: the gradients of the parameters; 0 where none arrives.
    """

    arrived: Sequence[Signal]
    written: Sequence[Tensor]


@dataclass
class CreditProof:
    """Finds the credit of one batch.

    a_l is what trains: by the plain forward, the vector–Jacobian product of the block before h_l
    with a_l is, parameter by parameter, the gradient that the network's own backward pass writes
    (relative `TOLERANCE`). A parameter that a feedback inside the block lies before has another
    gradient; there the network's own backward pass from h_l must be linear, twice a_l giving twice
    what was written, and some parameter of the block must be reached without feedback. Before h_0,
    one such parameter is enough. Where the vector at the tap fails, those behind copies and
    Functions at the tap are tried.

    a_l follows the error of this batch: with all labels replaced by one, also where the network is
    given them, it changes. It is the same when the batch runs again.

    Attributes:
        tapped: how the network is tapped.
        model: the network.
        own: the trace of its forward.
        x: inputs (B, ...).
        y: labels.
        loss: of a sample.

    Source: docs/protocol.md §4.
    """

    tapped: Tapped
    model: nn.Module
    own: OwnBackward
    x: Inputs
    y: Tensor
    loss: Loss

    def __post_init__(self) -> None:
        # those at hand: a forward may put others in the place of some
        self._parameters = [p for p in self.model.parameters() if p.is_floating_point()]
        self._backward = self._run(self.x, self.y)

    def is_derivative(self, gradients: Sequence[Tensor]) -> bool:
        """Whether the network's own backward pass writes what the gradients make of the parameters.

        Args:
            gradients: g_0..g_L.
        """
        with thawed(self._parameters):
            _, total = self._trained_by(self.own.cut(self.model, self.x), gradients)
        floor = _NEGLIGIBLE * length(total)
        pairs = zip(self._backward.written, total, strict=True)
        return all(_same(written, wanted, floor) for written, wanted in pairs)

    def credit(self) -> tuple[Signal, str]:
        """a_0..a_L, None for a state whose credit is not proven, and why some are not, or ""."""
        arrived = self._backward.arrived
        if not any(map(torch.is_tensor, chain(*arrived[1:]))):
            return [], "no error comes back to the states: its backward pass is cut"
        found = self._found()
        if {*found} == {None}:
            return [], _UNPROVEN.format(_layers(range(len(found))))

        def of(passed: _Backward) -> list[Tensor | None]:
            pairs = zip(passed.arrived, found, strict=True)
            return [None if k is None else at[k] for at, k in pairs]

        def again(x: Inputs, y: Tensor) -> list[Tensor | None]:
            return of(self._run(x, y))

        credit = of(self._backward)
        why = doubt(credit, again, self.x, self.y)
        if why:
            return [], why
        unproven = [l for l, a in enumerate(credit) if a is None]
        return credit, _UNPROVEN.format(_layers(unproven)) if unproven else ""

    def _run(self, x: Inputs, y: Tensor) -> _Backward:
        """Run the network's own forward and backward pass."""
        with RngState().isolated(), thawed(self._parameters):
            stream = self.tapped.forward(self.model, x)
            seen: dict[_Place, Tensor] = {}
            places = list(map(_places, stream.edges))
            for node, output in set(chain(*places)):
                node.register_prehook(partial(_keep, seen, (node, output)))
            start, _ = loss_gradient(stream.logits, y, self.loss)
            edges = [GradientEdge(*found[0]) for found in places]
            inputs: list[Any] = [*self._parameters, *edges]
            found = torch.autograd.grad(stream.logits, inputs, start, allow_unused=True)
        count = len(self._parameters)
        arrived = []
        for (first, *behind), at_tap in zip(places, found[count:], strict=True):
            # a node that the pass need not go through runs no hook
            arrived.append([seen.get(first, at_tap), *map(seen.get, behind)])
        return _Backward(arrived, self._summed([found[:count]]))

    def _found(self) -> list[int | None]:
        """For every state the first place whose vector is proven."""
        arrived = self._backward.arrived
        found: list[int | None] = [None] * len(arrived)
        with thawed(self._parameters):
            cut = self.own.cut(self.model, self.x)
            for k in range(max(map(len, arrived))):
                vectors = [at[k] if k < len(at) else None for at in arrived]
                trained, total = self._trained_by(cut, vectors)
                for l, (one, a) in enumerate(zip(trained, vectors, strict=True)):
                    if found[l] is not None or a is None:
                        continue
                    *gradients, passed_on = one
                    block = [p for p, gradient in enumerate(gradients) if gradient is not None]
                    if not block:
                        proven = self._is_passed_on(l, passed_on, found)
                    else:
                        proven = self._is_proven(l, k, a, block, total)
                    if proven:
                        found[l] = k
        return found

    def _trained_by(self, cut: CutStates, vectors: Signal) -> tuple[list[Signal], list[Tensor]]:
        """What vectors at the states make of each block, and of all parameters in all.

        Of a block, by the derivative of the forward: the gradients of the parameters, None for
        those of other blocks, and the vector at the state before it, None if that is not read.
        """
        start, _ = loss_gradient(cut.logits, self.y, self.loss)
        by_head = _gradients(cut.logits, self._parameters, start)
        trained = []
        for l, (state, a) in enumerate(zip(cut.before, vectors, strict=True)):
            # of h_0 itself for l = 0, which it does not read
            before = cut.after[max(l - 1, 0)]
            trained.append(_gradients(state, [*self._parameters, before], a))
        return trained, self._summed([by_head, *(one[:-1] for one in trained)])

    def _summed(self, parts: Sequence[Signal]) -> list[Tensor]:
        """Gradients of all blocks: a parameter may belong to several, or to none."""
        total = []
        for p, *gradients in zip(self._parameters, *parts, strict=True):
            known = [gradient for gradient in gradients if gradient is not None]
            total.append(sum(known[1:], known[0]) if known else torch.zeros_like(p))
        return total

    def _is_proven(
        self, l: int, k: int, a: Tensor, parameters: Sequence[int], total: Sequence[Tensor]
    ) -> bool:
        """Whether the k-th vector at h_l is what trains the block before it.

        Args:
            l: the layer.
            k: the place.
            a: the vector.
            parameters: of the block.
            total: what all vectors make of all parameters.
        """
        written = self._backward.written
        floor = _NEGLIGIBLE * length([total[p] for p in parameters])
        others = [p for p in parameters if not _same(written[p], total[p], floor, a)]
        if not any(p not in others and bool(written[p].any()) for p in parameters):
            # a credit of 0 trains nothing, and nothing is trained
            return not others and not bool(a.any())
        # what lies before h_0 is no block of the stream
        return not others or l == 0 or self._is_carried(l, k, a, others)

    def _is_passed_on(self, l: int, passed_on: Tensor | None, found: Sequence[int | None]) -> bool:
        """Whether a block without parameters hands its credit on to a proven one."""
        k = found[l - 1] if l else None
        if k is None or passed_on is None:
            return False
        a = self._backward.arrived[l - 1][k]
        return a is not None and _same(a, passed_on)

    def _is_carried(self, l: int, k: int, a: Tensor, parameters: Sequence[int]) -> bool:
        """Whether feedback inside the block before h_l carries a_l to some of its parameters."""
        with RngState().isolated(), thawed(self._parameters):
            stream = self.tapped.forward(self.model, self.x)
            edge: Any = GradientEdge(*_places(stream.edges[l])[k])
            inputs = [self._parameters[p] for p in parameters]
            try:
                found = torch.autograd.grad(edge, inputs, 2 * a, allow_unused=True)
            except Exception:
                # also of a hook that waits for one before it
                return False
        for p, twice in zip(parameters, found, strict=True):
            once = self._backward.written[p]
            if twice is None or not bool(once.any()) or not _same(twice, 2 * once, like=a):
                return False
        return True


_UNPROVEN = (
    "the vector at {} is not shown to train the parameters before it: its backward pass writes "
    "gradients to them that are not made of this vector alone"
)


def _layers(layers: Sequence[int]) -> str:
    """``h_1, h_2``."""
    return ", ".join(map("h_{}".format, layers))


def _places(edge: Tensor | GradientEdge | None) -> list[_Place]:
    """Where the vector at a state can be read: at the tap, then behind its copies and Functions."""
    assert edge is not None, "all layers are asked for"
    start = edge if isinstance(edge, GradientEdge) else get_gradient_edge(edge)
    found: list[_Place] = [(start.node, start.output_nr)]
    shape = _shape(*found[0])
    for node, _ in found:
        if not is_selection(node) and not isinstance(node, BackwardCFunction):
            continue
        for source, output in node.next_functions:
            place = (source, output)
            if source is not None and place not in found and _shape(source, output) == shape:
                found.append((source, output))
    return found


def _shape(node: Node, output: int) -> object:
    metadata: Any = node._input_metadata
    return tuple(metadata[output].shape)


def _keep(seen: dict[_Place, Tensor], place: _Place, vectors: tuple[Tensor | None, ...]) -> None:
    vector = vectors[place[1]]
    if vector is not None:
        seen[place] = vector.detach().clone()


def _gradients(of: Tensor, inputs: Sequence[Tensor], vector: Tensor | None) -> Signal:
    if vector is None or not of.requires_grad:
        return [None] * len(inputs)
    return torch.autograd.grad(of, inputs, vector.to(of), allow_unused=True, retain_graph=True)


def _same(a: Tensor, b: Tensor, floor: float = 0.0, like: Tensor | None = None) -> bool:
    """Whether vectors agree to `TOLERANCE`, or what half precision can hold, if `like` has it."""
    kind = (a if like is None else like).dtype
    return same(a, b, max(TOLERANCE, 8 * torch.finfo(kind).eps), floor)


def doubt(credit: Signal, again: Credit, x: Inputs, y: Tensor) -> str:
    """Why a credit is not that of its batch: a stored error, or another vector in one of three more
    runs; "" if it is.

    Args:
        credit: a_0..a_L of the batch.
        again: the credit of another batch.
        x: inputs (B, ...).
        y: labels.
    """
    stored = _of_no_error(credit, again, x, y)
    if stored:
        return (
            f"its feedback reads a stored error or none: the vector at {_layers(stored)} does not "
            "follow the labels of the batch"
        )
    for _ in range(3):
        pairs = enumerate(zip(credit, again(x, y), strict=True))
        changing = [l for l, (a, b) in pairs if a is not None and (b is None or not _same(a, b))]
        if changing:
            return (
                f"its feedback keeps state: the vector at {_layers(changing)} is another one when "
                "the batch runs again"
            )
    return ""


def _of_no_error(credit: Signal, again: Credit, x: Inputs, y: Tensor) -> list[int]:
    """Layers whose vectors do not follow the error of a batch, as those of a stored error."""
    known = y[y != IGNORED]
    # another class for most samples, and another number of samples in each class
    other = (known.mode().values + 1) % max(int(known.max()) + 1, 2)
    others = torch.where(y == IGNORED, y, other)
    changed = again(tree_map(partial(relabelled, y=y, others=others), x), others)
    stored = []
    for l, (a, b) in enumerate(zip(credit, changed, strict=True)):
        if a is not None and bool(a.any()) and b is not None and _same(a, b):
            stored.append(l)
    return stored


def relabelled(tensor: Tensor, y: Tensor, others: Tensor) -> Tensor:
    """An input with other labels in the columns that hold the labels, as classes or one-hot.

    >>> relabelled(torch.eye(3)[:2], torch.tensor([0, 1]), torch.tensor([1, 1])).tolist()
    [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    """
    if tensor.shape[: y.dim()] != y.shape:
        return tensor
    columns = tensor.reshape(y.numel(), -1).clone()
    labels, others = y.reshape(-1, 1), others.reshape(-1, 1)
    for held, wanted in (
        (labels, others),
        *((labels == c, others == c) for c in set(y.flatten().tolist())),
    ):
        # a constant column may be a mask
        found = (columns == held).all(dim=0) & (held != held[0]).any()
        columns[:, found] = wanted.to(columns)
    return columns.reshape(tensor.shape)
