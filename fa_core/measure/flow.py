"""The data flow of one forward pass, recorded as it ran.

Autograd's graph ends at a `.detach()`, under `torch.no_grad()` and in a custom Function. `Flow`
sees every operation below autograd, so those have edges like any other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from fa_core.errors import MeasureError
from fa_core.measure.hooks import Args, Kwargs, first_tensor, pattern_of
from fa_core.measure.isolate import Inputs, first_of, tensors_of

_NOWHERE = -(2**40)
"""Where the network itself was not called, as by a function that runs its parts."""

ROOT = -1
"""In place of an operation or a call where there is none: the origin of all sources."""

_COPIES = re.compile("clone|_to_copy|copy_?|(select|slice|view)_copy|as_strided_|roll|flip")
_LOOKUPS = re.compile("embedding.*|index|index_select|gather|take|masked_select")
_SUMS = re.compile(
    "_?(add|sub|rsub|lerp|addcmul|addcdiv|addmm|addmv|baddbmm|addbmm|(index|scatter)_add)_?"
)
_PRODUCTS = re.compile(".*(mm|mv|conv|linear|matmul|rnn|lstm|gru|::).*")

_OVERWRITING = {"copy_", "fill_", "zero_"}
_VALUELESS = re.compile(".*_like|new_.*")


@dataclass(frozen=True)
class Operation:
    """One operation that depends on the network's input.

    Attributes:
        name: torch's name of it, ``addmm``; of a registered operator, with its library.
        reads: the operations whose results it reads.
        parts: those of them that it reads in part.
        views: what it reads of each: the operation, where a view begins, its entries.
        adds: whether it sums results of at least two of them.
        weighted: whether it also reads a tensor that is no function of the input, as weights are.
        weights: names of the parameters and buffers that it reads, or of what it reads is made.
        is_whole: whether it depends on token ids or other integers of the input alone.
        size: entries of its result.
        is_vector: whether that is one vector per sample, without tokens or pixels.
        call: place of the module's call, in `Flow.calls`, that ran it.
    """

    name: str
    size: int
    call: int
    is_vector: bool = False
    reads: tuple[int, ...] = ()
    parts: tuple[int, ...] = ()
    views: Collection[tuple[int, int, int]] = ()
    adds: bool = False
    weighted: bool = False
    weights: tuple[str, ...] = ()
    is_whole: bool = False

    @property
    def is_product(self) -> bool:
        """Whether it is a linear map by weights, or an operator by some: what makes a layer."""
        return self.weighted and bool(_PRODUCTS.fullmatch(self.name))

    @property
    def is_copy(self) -> bool:
        """Whether it gives the entries of one result, in any order."""
        return len(self.reads) == 1 and bool(_COPIES.fullmatch(self.name))


@dataclass(eq=False)
class Call:
    """One call of a module.

    Attributes:
        name: name of the module.
        pattern: of its list (see `pattern_of`).
        module: the module.
        around: place of the call that made this one.
        begin: number of operations before it.
        end: number of operations after it.
        read: the operation that gave its first tensor argument.
        gave: the operation that gave its first tensor result.
    """

    name: str
    pattern: str
    module: nn.Module
    around: int
    begin: int
    read: int
    end: int = 0
    gave: int = ROOT


class Flow(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the operations of one forward pass and what each read.

    A tensor is known by its storage, so views have no operations of their own. A write in place
    makes a new version of a storage, which depends on the one before it unless all is overwritten;
    a view that shares no entry with the write still reads the old version.

    Integers of the input count where they are looked up in a table: the result is a source. Masks,
    lengths and places computed from them select, and are no path here (`trials` tries whether they
    are one). If the network computes from integers alone (images as bytes), these are the sources.

    Args:
        model: the network, whose calls of modules are recorded.
        x: inputs of the pass.

    Attributes:
        operations: in the order in which they ran; their places are their names elsewhere.
        calls: the calls of modules, likewise.
        numbers: whether numbers were read out of float tensors, as by ``item``.
        begin: number of operations before the last call of the network itself, or `_NOWHERE`.

    >>> h = torch.ones(2, 3)
    >>> with Flow(nn.Identity(), h) as flow:
    ...     branch = h.detach().exp()
    ...     logits = h + branch
    >>> [(one.name, one.reads) for one in flow.operations]
    [('input', ()), ('exp', (0,)), ('add', (0, 1))]
    >>> flow.made(logits)
    2
    """

    def __init__(self, model: nn.Module, x: Inputs) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []
        self.calls: list[Call] = []
        self.numbers = False
        self.begin = _NOWHERE
        self.model = model
        self._modules = len(list(model.modules()))
        self._size = len(first_of(x))
        self._call = -1
        self._hooks = ExitStack()
        self._writes: dict[object, list[tuple[Tensor | None, int]]] = {}
        self._storages: list[StorageWeakRef] = []
        self._looked_up: list[int] = []
        self._followed: dict[int, bool] = {}
        self._lost: dict[int, set[int]] = {}
        self._spread: dict[tuple[int, int], int] = {}
        named = chain(model.named_parameters(), model.named_buffers())
        self._names: dict[object, tuple[str, ...]] = {_key(t): (name,) for name, t in named}
        for tensor in tensors_of(x):
            node = self._append("input", tensor.numel(), is_whole=is_whole(tensor))
            self._write(tensor, node, fresh=True)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # torch asks this; its "yes" imports the compiler, which takes seconds
        return False

    def __deepcopy__(self, _: object) -> Flow:
        # a module that the network copies in its forward has these hooks, too
        return self

    def __enter__(self) -> Flow:
        for name, module in self.model.named_modules():
            pattern = pattern_of(self.model, name)
            enter, leave = partial(self._enter_call, name, pattern), self._leave_call
            self._hooks.enter_context(module.register_forward_pre_hook(enter, with_kwargs=True))
            self._hooks.enter_context(module.register_forward_hook(leave))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.close()
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        if len(list(self.model.modules())) > self._modules:
            raise MeasureError(
                "the network builds modules in its forward", hint="run it once before, in eval mode"
            )

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Args = (), kwargs: Kwargs | None = None
    ) -> object:
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        read = _tensors((args, *kwargs.values()))
        written = _written(func, args, kwargs)
        known = set(map(_key, read))
        given = _tensors(output)
        fresh = [tensor for tensor in given if _key(tensor) not in known]
        name = func._schema.name.removeprefix("aten::")
        if name == "_local_scalar_dense" and self.made(read[0]) != ROOT:
            self.numbers = self.numbers or read[0].is_floating_point()
        if not fresh and not written:
            return output
        if _VALUELESS.fullmatch(name):
            read = []
        if "batch_norm" in name and not any(value is True for value in args):
            # by stored statistics: the same map for every sample
            name = "mul"
        if name in _OVERWRITING or "out" in kwargs:
            read = [tensor for tensor in read if id(tensor) not in map(id, written)]
        # what a write leaves over is part of the new version
        parts = [into for into in written if into.numel() < entries(into)]
        rest = [into.as_strided((entries(into),), (1,), 0) for into in parts]
        size = max([*map(Tensor.numel, fresh), *map(entries, written)])
        node = self._operation(name, [*read, *rest], [*fresh, *written][0], size)
        if node == ROOT and (names := self._weights(read)):
            self._names |= dict.fromkeys(map(_key, [*fresh, *written]), names)
        if node != ROOT:
            self._note_gradients(node, read, written)
        for tensor in fresh:
            self._write(tensor, self._result(node, tensor, fresh), fresh=True)
        for tensor in written:
            self._write(tensor, node)
        for tensor in (*fresh, *written):
            self.gave(self.made(tensor), tensor)
        return output

    def made(self, tensor: Tensor) -> int:
        """The operation that gave a tensor its values; ROOT if it is no function of the input.

        A view that repeats entries, as `expand` gives it, is a result of its own.
        """
        for written, node in reversed(self._writes.get(_key(tensor), ())):
            if written is None or _overlap(written, tensor):
                spread = node, tensor.numel()
                if node == ROOT or spread[1] <= self.operations[node].size:
                    return node
                if spread not in self._spread:
                    self._spread[spread] = self._append("expand", spread[1], reads=(node,))
                return self._spread[spread]
        return ROOT

    @property
    def sources(self) -> list[int]:
        """Where the data come in: float inputs and what is looked up for integers of the input."""
        inputs = [node for node, one in enumerate(self.operations) if one.name == "input"]
        floats = [node for node in inputs if not self.operations[node].is_whole]
        return sorted(floats + self._looked_up) or inputs

    def layers(self, nodes: Iterable[int]) -> list[int]:
        """Those operations that are layers by weights, in forward order."""
        return sorted(node for node in nodes if self.operations[node].is_product)

    def is_activation(self, node: int) -> bool:
        """Whether a node is computed from the input, rather than the input or copies of it."""
        one = self.operations[self.origin(node)]
        while one.name in ("repeat", "stack") and len(one.reads) == 1:
            one = self.operations[self.origin(one.reads[0])]
        return node != ROOT and one.name != "input"

    def origin(self, node: int, known: Collection[int] = ()) -> int:
        """Walk back through copies, to the first known or other operation."""
        while node != ROOT and node not in known and self.operations[node].is_copy:
            node = self.operations[node].reads[0]
        return node

    def _operation(self, name: str, read: list[Tensor], given: Tensor, size: int) -> int:
        """Append an operation; ROOT if what it reads is no function of the input."""
        found = [(tensor, self.made(tensor)) for tensor in read]
        reads = {node: self.operations[node] for _, node in found if node != ROOT}
        if not reads:
            return ROOT
        of_whole = all(one.is_whole for one in reads.values())
        others = [tensor for tensor, node in found if node == ROOT]
        names = self._weights(others)
        if of_whole and not is_whole(given) and _LOOKUPS.fullmatch(name):
            node = self._append("lookup", size, weights=names)
            self._looked_up.append(node)
            return node
        if not of_whole:
            # integers of the input select
            reads = {node: one for node, one in reads.items() if not one.is_whole}
        views = {(n, t.storage_offset(), t.numel()) for t, n in found if n in reads}
        parts = [n for n, _, entries in views if entries < reads[n].size]
        if _LOOKUPS.fullmatch(name):
            views = {(n, -len(self.operations), size) for n in reads}
        weighted = any(not is_whole(tensor) and tensor.numel() > 1 for tensor in others)
        adds = len(reads) > 1 and found[0][1] in reads and bool(_SUMS.fullmatch(name))
        return self._append(
            name,
            size,
            reads=tuple(reads),
            parts=tuple(parts),
            views=views,
            adds=adds,
            weighted=weighted,
            weights=names,
            is_whole=of_whole,
            is_vector=sum(length > 1 for length in given.shape[1:]) < 2,
        )

    def _result(self, node: int, tensor: Tensor, of: list[Tensor]) -> int:
        """An operation's result; of several of a layer, as a recurrent one, one by itself."""
        if len(of) < 2 or node == ROOT or not self.operations[node].is_product:
            return node
        one = self._append("item", tensor.numel(), reads=(node,))
        self._followed[one] = torch.is_grad_enabled()
        return one

    def _weights(self, read: Iterable[Tensor]) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for key in map(_key, read):
            names |= dict.fromkeys(self._names.get(key, ()))
        return tuple(names)

    def _note_gradients(self, node: int, read: list[Tensor], written: list[Tensor]) -> None:
        """Note whether autograd follows an operation, and of which of its reads it does not."""
        recorded = torch.is_grad_enabled()
        if any(tensor.requires_grad for tensor in read):
            self._followed[node] = recorded
        for tensor in read:
            made = self.made(tensor)
            over = not recorded and id(tensor) in map(id, written)
            if made in self._followed and (over or not tensor.requires_grad):
                self._lost.setdefault(node, set()).add(made)

    def lost_gradients(self, states: Collection[int], logits: int) -> list[str]:
        """How values computed from some states reach the logits without a gradient."""
        following = dominators(self, states).keys()
        used = behind(self, [logits]) & following
        lost = set().union(*(self._lost.get(node, ()) for node in used)) & following
        return sorted({(".detach()" if self._followed[n] else "torch.no_grad()") for n in lost})

    def gave(self, node: int, given: Tensor) -> None:
        """An operation ran and gave a tensor."""

    def _append(self, name: str, size: int, **what: Any) -> int:
        self.operations.append(Operation(name, size, self._call, **what))
        return len(self.operations) - 1

    def _write(self, tensor: Tensor, node: int, fresh: bool = False) -> None:
        key = _key(tensor)
        if key not in self._writes and isinstance(key, int):
            # a storage's number is not given to another one while something refers to it
            kept = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
            self._storages.append(kept)
        if fresh or tensor.numel() == entries(tensor):
            self._writes[key] = [(None, node)]
        else:
            self._writes.setdefault(key, []).append((tensor.detach(), node))

    def _enter_call(
        self, name: str, pattern: str, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> None:
        read = self._made_first((*args, *kwargs.values()))
        if not name:
            self.begin = len(self.operations)
        self.calls.append(Call(name, pattern, module, self._call, len(self.operations), read))
        self._call = len(self.calls) - 1

    def _made_first(self, values: object) -> int:
        first = first_tensor(values)
        # nodes of all samples as rows are no state
        if first is None or (first.dim() == 2 and len(first) > self._size):
            return ROOT
        return self.made(first)

    def _leave_call(self, module: nn.Module, args: Args, output: object) -> None:
        call = self.calls[self._call]
        call.end = len(self.operations)
        call.gave = self._made_first(output)
        self._call = call.around


def recording() -> Flow | None:
    """The `Flow` that records what runs now, if any."""
    stack = _get_current_dispatch_mode_stack()
    return next((mode for mode in stack if isinstance(mode, Flow)), None)


def behind(flow: Flow, target: Iterable[int], stops: Collection[int] = ()) -> set[int]:
    """All operations that a target depends on, itself included; the search ends at `stops`."""
    seen: set[int] = set()
    waiting = list(target)
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            if node not in stops:
                waiting += flow.operations[node].reads
    return seen


def partly_read(flow: Flow, used: Iterable[int]) -> set[int]:
    """The operations of whose results some others read a part alone.

    >>> h = torch.ones(2, 3)
    >>> with Flow(nn.Identity(), h) as flow:
    ...     logits = h[:, :1] + h[:, 1:].exp().exp()[:, 1:]
    >>> [flow.operations[node].name for node in partly_read(flow, range(4))]
    ['exp']
    """
    views = set[tuple[int, int, int]]()
    for place in used:
        views.update(flow.operations[place].views)
    read: Counter[int] = Counter()
    for node, _, entries in views:
        read[node] += entries
    return {node for node in read if read[node] < flow.operations[node].size}


def dominators(flow: Flow, sources: Collection[int]) -> dict[int, int]:
    """For each operation that depends on the sources, the last one on every path from them to it.

    `ROOT` if there is none. As operations are in the order in which they ran, one walk is enough.
    Source: Cooper, Harvey and Kennedy, A simple, fast dominance algorithm, 2001.

    >>> h = torch.ones(2)
    >>> with Flow(nn.Identity(), h) as flow:
    ...     stem = h.exp()
    ...     logits = stem + stem.exp()
    >>> dominators(flow, flow.sources)
    {0: -1, 1: 0, 2: 1, 3: 1}
    """
    above = dict.fromkeys(sources, ROOT)
    for node, operation in enumerate(flow.operations):
        reads = above.keys() & operation.reads
        if reads and node not in above:
            while len(reads) > 1:
                last = max(reads)
                reads = reads - {last} | {above[last]}
            (above[node],) = reads
    return above


def path_to(above: Mapping[int, int], node: int) -> list[int]:
    """All operations on every path to a node, in forward order, itself included."""
    found = []
    while node != ROOT:
        found.append(node)
        node = above[node]
    return found[::-1]


def _written(func: OpOverload, args: Args, kwargs: Kwargs) -> list[Tensor]:
    """The tensors that an operation writes into."""
    written: list[object] = []
    if func._schema.is_mutable:
        given = dict(enumerate(args))
        for place, one in enumerate(func._schema.arguments):
            if one.is_write:
                written.append(given.get(place, kwargs.get(one.name)))
    return _tensors(written)


def _tensors(values: object) -> list[Tensor]:
    if isinstance(values, (tuple, list)):
        return list(chain(*map(_tensors, values)))
    return [values] if isinstance(values, Tensor) else []


def _key(tensor: Tensor) -> object:
    """The number of a tensor's storage; of a subclass without one, its own."""
    try:
        return tensor.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        return str(id(tensor))


def entries(tensor: Tensor) -> int:
    """Entries of a tensor's storage; of a sparse tensor, which has none, its own."""
    if tensor.layout != torch.strided:
        return tensor.numel()
    return tensor.untyped_storage().nbytes() // tensor.element_size()


def _overlap(one: Tensor, other: Tensor) -> bool:
    """Whether two views of a storage share an entry; yes if they differ in type."""
    if one.dtype != other.dtype:
        return True
    marked = torch.zeros(entries(one), dtype=torch.bool)
    marked.as_strided(one.shape, one.stride(), one.storage_offset()).fill_(True)
    return bool(marked.as_strided(other.shape, other.stride(), other.storage_offset()).any())


def is_whole(tensor: Tensor) -> bool:
    """Whether a tensor has integers or booleans."""
    return not tensor.is_floating_point() and not tensor.is_complex()
