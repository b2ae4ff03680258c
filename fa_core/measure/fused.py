"""Passes over eval batches: what comes in is checked, and one forward and one backward pass give all of a batch.

A batch too large for memory is measured in parts, with the same numbers as in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fa_core.errors import FaError, MeasureError, TapError
from fa_core.measure.graph import (
    arithmetic,
    backward_functions,
    custom_functions,
    graph_nodes,
    straight_through,
)
from fa_core.measure.isolate import Borrowed, Draws, Inputs, each, first_of, rows, tensors_of
from fa_core.measure.norms import check_states
from fa_core.measure.resolve import check_stream, passed_by, resolve_taps
from fa_core.measure.taps import (
    IGNORED,
    ReturnedStream,
    Stream,
    Tapped,
    Taps,
    activation_gradients,
    loss_terms,
)
from fa_core.measure.tracing import (
    NODE_HOOK,
    Noticing,
    OwnBackward,
    agreeing,
    backward_hooks,
    untraced,
)


def counted(batches: Iterable[Any]) -> tuple[Iterable[Any], int]:
    """The batches and how many there are; a generator is read into a list first.

    Raises:
        MeasureError: there are none.
    """
    try:
        total = len(batches)  # type: ignore[arg-type]
    except TypeError:  # a generator, or a loader of unknown length
        if not isinstance(batches, Iterable):
            kind = type(batches).__name__
            raise MeasureError(
                f"the batches are a {kind}", hint="give (x, y) pairs, e.g. a DataLoader"
            ) from None
        batches = list(batches)
        total = len(batches)
    if not total:
        raise MeasureError(
            "there are no eval batches", hint="give at least one (x, y); drift needs 8 of 128"
        )
    return batches, total


def placed(batch: Any, index: int, net: Borrowed) -> tuple[Inputs, Tensor]:
    """One batch as tensors on the network's device, floating inputs in its dtype.

    Args:
        batch: (x, y): x (B, ...), y (B,) integer class indices, or (B, T) one per token, -100 where none
            counts; anything `torch.as_tensor` takes. Or a mapping of ``labels`` and of what the network is called with
            by name: labels (B, T) are the tokens' own there, and become those of the next ones (`predicts_next`).
        index: its place among the batches, for messages.
        net: the borrowed network.

    Raises:
        MeasureError: not a pair, no samples, unequal lengths, or labels that are no class indices.
    """
    x, y = pair(batch, index, net.model)
    counting = y if y.dim() == 1 else y[y != IGNORED]
    if not len(counting):
        hint = "drop it, or label the tokens that are to be predicted"
        raise MeasureError(
            f"no label counts: all are {IGNORED}", where=f"eval batch {index}", hint=hint
        )
    if int(counting.min()) < 0:
        hint = "classes are numbered from 0"
        raise MeasureError(
            f"label {int(counting.min())} is negative", where=f"eval batch {index}", hint=hint
        )
    return on_device(x, y, net.device, net.dtype)


def on_device(
    x: Inputs, y: Tensor, device: torch.device, dtype: torch.dtype | None
) -> tuple[Inputs, Tensor]:
    """A pair where the network is, floating inputs in its dtype."""
    there = each(x, lambda t: t.to(device=device, dtype=dtype if t.is_floating_point() else None))
    return there, y.to(device=device, dtype=torch.int64)


_LABELS_OF_THEIR_OWN_TOKEN = re.compile("MaskedLM|TokenClassification|ConditionalGeneration")


def predicts_next(model: nn.Module | None) -> bool:
    """Whether labels (B, T) of a mapping are those of the tokens themselves, of which a network predicts the next one.

    So it is in causal language models, of the model hub and else; not in classes of the hub, and what is derived from
    them, for masked language models, token classification and generation from an encoder: there they are those of
    their own position.
    """
    parts = () if model is None else (model, *model.children())
    names = [kind.__name__ for part in parts for kind in type(part).__mro__]
    return not any(map(_LABELS_OF_THEIR_OWN_TOKEN.search, names))


def _by_name(
    batch: Mapping[str, Any], where: str, model: nn.Module | None
) -> tuple[Inputs, Tensor]:
    """A mapping as inputs and labels."""
    if "labels" not in batch:
        hint = f"it needs 'labels' among {', '.join(map(repr, batch))}; or give pairs (x, y)"
        raise MeasureError(f"it is a {type(batch).__name__} without labels", where=where, hint=hint)
    values = {
        name: torch.as_tensor(v) if isinstance(v, (list, np.ndarray)) else v
        for name, v in batch.items()
    }
    y = torch.as_tensor(values.pop("labels"))
    if not tensors_of(values):
        raise MeasureError(
            "it holds labels alone",
            where=where,
            hint="add what the network is called with, by name",
        )
    if y.dim() == 2 and predicts_next(model):
        y = torch.cat([y[:, 1:], torch.full_like(y[:, :1], IGNORED)], dim=1)
    return values, y


def pair(batch: Any, index: int, model: nn.Module | None = None) -> tuple[Inputs, Tensor]:
    """One batch as tensors where they are, a label per sample or per token; the labels' values are not looked at.

    Raises:
        MeasureError: as `placed`, but for negative labels, and for none that counts.
    """
    where = f"eval batch {index}"
    if not (isinstance(batch, Mapping) or (isinstance(batch, (tuple, list)) and len(batch) == 2)):
        hint = "a batch is a pair (x, y), e.g. of a DataLoader, or a mapping with 'labels'"
        raise MeasureError(f"it is a {type(batch).__name__}", where=where, hint=hint)
    try:
        if isinstance(batch, Mapping):
            inputs, y = _by_name(batch, where, model)
        else:
            inputs, y = batch[0], torch.as_tensor(batch[1])
            inputs = inputs if isinstance(inputs, Mapping) else torch.as_tensor(inputs)
        inputs, y = each(inputs, _recordable), _recordable(y)
        x, *others = tensors_of(inputs)
    except (TypeError, ValueError, RuntimeError) as error:
        hint = "a batch is a pair (x, y) of arrays, each of one shape"
        raise MeasureError(f"no tensors: {error}", where=where, hint=hint) from error
    if x.dim() == 0 or len(x) == 0:
        raise MeasureError("it has no samples", where=where, hint="drop empty batches")
    per_token = (
        y.dim() == 2
        and y.shape[1] > 1
        and any(y.shape == t.shape[:2] for t in (x, *others))
        and not _one_hot(y)
    )
    if not per_token and (y.dim() != 1 or len(y) != len(x)):
        remedy = ""
        if y.dim() == 0:
            remedy = ": give batches, e.g. DataLoader(dataset, batch_size=128, shuffle=True)"
        elif y.dim() == 2 and len(y) == len(x):
            remedy = ": y.squeeze(1)" if y.shape[1] == 1 else ": y.argmax(1) where y is one-hot"
        what = f"labels have shape {tuple(y.shape)} for inputs of shape {tuple(x.shape)}"
        hint = f"labels are (B,) class indices, or (B, T) for tokens (B, T){remedy}"
        raise MeasureError(what, where=where, hint=hint)
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        kind = str(y.dtype).removeprefix("torch.")
        raise MeasureError(
            f"labels are {kind}", where=where, hint="labels are integer class indices: y.long()"
        )
    return inputs, y


def _one_hot(y: Tensor) -> bool:
    return bool(((y == 0) | (y == 1)).all() and (y.sum(dim=1) == 1).all())


def _recordable(tensor: Tensor) -> Tensor:
    """A tensor made under inference mode cannot enter a graph; its copy can."""
    return tensor.clone() if tensor.is_inference() else tensor


class PassFailed(MeasureError, RuntimeError):
    """The network could not run on a batch: data that do not fit it, most often."""


@dataclass(frozen=True)
class Pass:
    """One batch, measured.

    Attributes:
        logits: (B, C), or (B, T, C), outside the graph.
        hidden: h_0..h_L, outside the graph, in the network's own shapes.
        gradients: g_l at the asked layers, same shapes.
        error: e_T as `fa_core.measure.taps.loss_gradient` gives it, (B, C) or (B, T, 1), in float64.
        names: names of h_0..h_L.
        dtype: the arithmetic of the pass; that inside the network is looked for when all layers are asked for.
        own_backward: what of the network's backward pass is its own, where autograd's vector is not the gradient.
        credit: autograd's own vector then, of a pass that asks for all layers: the method's credit, shaped as h_l.
        untrue: why `gradients` are no gradients but that vector; "" where they are.
        counting: (B, T) bool, which labels count; None where a sample has one.
    """

    logits: Tensor
    hidden: list[Tensor]
    gradients: list[Tensor]
    error: Tensor
    names: list[str]
    dtype: str
    own_backward: Sequence[str] = ()
    credit: Sequence[Tensor] = ()
    untrue: str = ""
    counting: Tensor | None = None


_IN_PLACE = "modified by an inplace operation"


def fused_pass(
    tapped: Tapped,
    model: nn.Module,
    x: Inputs,
    y: Tensor,
    layers: Sequence[int] | None = None,
    where: str = "",
) -> Pass:
    """Run one batch forward and back to the asked layers.

    Args:
        tapped: how to tap `model`.
        model: the network, borrowed for measuring (see `borrow`).
        x: inputs, (B, ...).
        y: (B,) class indices on the same device.
        layers: whose gradients are wanted; None = all. The backward pass stops at the first of them.
        where: the batch's name, for messages.

    Raises:
        PassFailed: the network raised, or its logits are not (B, C) or too few for the labels.
        TapError: a tap that cannot be used.
    """
    with explained(x, where):
        try:
            return _once(tapped, model, x, y, layers, where)
        except RuntimeError as error:
            if _IN_PLACE not in str(error):
                raise
        # the network updates its stream in place: keep what the backward pass needs, at some cost
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            return _once(tapped, model, x, y, layers, where)


@contextmanager
def explained(x: Inputs, where: str) -> Iterator[None]:
    """Turn what a network raises on a batch into one line that names the batch; keep out-of-memory as it is."""
    try:
        yield
    except (torch.OutOfMemoryError, FaError):
        raise
    except Exception as error:
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        if not isinstance(error, (RuntimeError, ValueError, IndexError)):
            first_line = f"{type(error).__name__}: {first_line}"
        named = x.items() if isinstance(x, Mapping) else [("", x)]
        shown = [(name, t.shape, t.dtype) for name, t in named if isinstance(t, Tensor)]
        parts = [
            f"{name} of shape {tuple(s)}, {str(d).removeprefix('torch.')}".strip()
            for name, s, d in shown
        ]
        hint = next(
            hint for pattern, hint in _REMEDIES if re.search(pattern, first_line, re.IGNORECASE)
        )
        what = f"the network failed on inputs {', '.join(parts)}: {first_line}"
        raise PassFailed(what, where=where, hint=hint) from error


_ASK = "do these data belong to this network?"
_RAISED = "its forward raised it: run model(x) on this batch by itself"
_REMEDIES = (
    (
        "use_reentrant",
        "checkpoint with use_reentrant=False, or switch checkpointing off while measuring",
    ),
    ("inference tensor", "load or copy the network outside torch.inference_mode()"),
    ("same device|device type", "move the network to one device, or give device="),
    (
        "missing .*argument|takes .*argument|unexpected keyword|subscript|invalid data type|KeyError",
        "it is called as model(x): wrap it in a module whose forward takes x alone and passes on what else it needs, "
        "or give a function (model, x) -> (logits, states)",
    ),
    ("dtype|scalar type|input type", f"{_ASK} where they do, give x.float(), or {_RAISED}"),
    (
        "shape|size|dimension|channel|out of (range|bounds)|number of values|samples of",
        f"{_ASK} where they do, {_RAISED}",
    ),
    ("", f"{_RAISED}; where it needs more than x, wrap it in a module that passes that on"),
)
"""What to do about what a network raises: the first pattern that its message holds."""


def _once(
    tapped: Tapped, model: nn.Module, x: Inputs, y: Tensor, layers: Sequence[int] | None, where: str
) -> Pass:
    if layers is not None:
        true = _derived(tapped, model, x, y, layers, where)
        done = true or _passed(tapped.forward(model, x, layers), y, layers, where)
        return done if true else replace(done, untrue=tapped.own.why if tapped.own else "")
    with Noticing(tapped.shifted) as noticed:
        stream = tapped.forward(model, x)
    if any(h.dim() > 2 and h.shape[0] == h.shape[1] == len(y) > 1 for h in stream.hidden):
        # (B, B, d): one sample shows which axis is the batch
        one = tapped.forward(model, rows(x, slice(1)), [])
        check_logits(one.logits, y[:1], f"{where}, one sample")
        check_states(one.hidden, one.names, 1)
    check_logits(stream.logits, y, where)
    if type(tapped) is ReturnedStream:
        tapped.remark = passed_by(stream)
    elif not noticed.lost:
        check_stream(model, x, stream)
    nodes = graph_nodes(stream.logits)
    dtype = arithmetic(stream.logits, nodes, stream.dtypes)
    of_modules = backward_hooks(model)
    if of_modules:
        # torch reads nodes of the graph to attach them
        noticed.hooks.pop(NODE_HOOK, None)
    certain = [*custom_functions(nodes), *noticed.hooks, *of_modules, *straight_through(nodes)]
    if not (certain or noticed.lost or backward_functions(nodes)):
        return replace(backward(stream, y), dtype=dtype)
    tapped.own = tapped.own or OwnBackward(tapped, certain, noticed)
    return replace(_by_trace(tapped, model, x, y, where), dtype=dtype)


def _by_trace(tapped: Tapped, model: nn.Module, x: Inputs, y: Tensor, where: str) -> Pass:
    """A pass of a network whose backward pass may be its own: by autograd, and by the derivative of its forward."""
    # both of the same random numbers, where it draws some
    with Draws().passing():
        done = backward(tapped.forward(model, x), y)
    with Draws().passing():
        true = _derived(tapped, model, x, y, None, where)
    own: OwnBackward = tapped.own
    if true is None:
        harmless = not own.matters(model, x)
    else:
        harmless = len(agreeing(done.gradients, true.gradients)) == len(done.names)
    if harmless:
        tapped.own = None
        return done
    if own.steps and not own.why:
        own.why = untraced(own.names, own.in_steps())
    if true is None or own.why:
        return replace(done, own_backward=own.names, untrue=own.why)
    return replace(true, names=done.names, own_backward=own.names, credit=done.gradients)


def _derived(
    tapped: Tapped, model: nn.Module, x: Inputs, y: Tensor, layers: Sequence[int] | None, where: str
) -> Pass | None:
    """The pass by the derivative of the forward, of a network whose backward is its own; None where `own.why` says."""
    own: OwnBackward | None = tapped.own
    if own is None or own.why:
        return None
    try:
        return _passed(own.forward(model, x, layers), y, layers, where)
    except Exception as error:
        if is_out_of_memory(error) or _IN_PLACE in str(error):
            raise
        own.why = untraced(own.names, error)
        return None


def _passed(stream: Stream, y: Tensor, layers: Sequence[int] | None, where: str) -> Pass:
    """What a forward pass gave, and the backward pass from there."""
    check_logits(stream.logits, y, where)
    if layers and max(layers) >= len(stream.hidden):
        hint = "the taps must be the same for every batch"
        raise TapError(
            f"{len(stream.hidden)} states, h_{max(layers)} in the first batch",
            where=where,
            hint=hint,
        )
    return backward(stream, y, layers)


def backward(stream: Stream, y: Tensor, layers: Sequence[int] | None = None) -> Pass:
    """The backward pass from a forward pass, of one network or of several stacked ones.

    Args:
        stream: the forward pass.
        y: labels as for `fused_pass`, each a class of the logits.
        layers: whose gradients are wanted; None = all.

    Raises:
        TapError: a tap that the logits do not depend on.
    """
    gradients, error = activation_gradients(stream, y, layers)
    hidden = [h.detach() for h in stream.hidden]
    dtype, counting = arithmetic(stream.logits, ()), y != IGNORED if y.dim() == 2 else None
    return Pass(
        stream.logits.detach(), hidden, gradients, error, stream.names, dtype, counting=counting
    )


def check_logits(logits: object, y: Tensor, where: str) -> None:
    """Refuse an output that is not (B, C) logits, or (B, T, C) for labels (B, T), with a class for every label.

    Raises:
        PassFailed: says both shapes, or the label and the number of classes.
    """
    shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if not (
        isinstance(logits, Tensor) and logits.shape[:-1] == y.shape and logits.is_floating_point()
    ):
        raise PassFailed(
            f"the network's output is {shape} for {len(y) if y.dim() == 1 else tuple(y.shape)} labels",
            where=where,
            hint="logits are (B, C) floats, (B, T, C) for labels (B, T), returned alone, as .logits or as ['logits']: "
            "wrap the network in a module that does so, or give a function (model, x) -> (logits, states)",
        )
    if logits.shape[-1] == 1:
        what = "the network gives one logit per sample, and a softmax over one class is always 1"
        hint = "for two classes, wrap it in a module that returns torch.cat([torch.zeros_like(z), z], dim=1)"
        raise PassFailed(what, where=where, hint=hint)
    largest = int(y.max())
    if largest >= logits.shape[-1]:
        what = f"label {largest} but the network has {logits.shape[-1]} classes (0..{logits.shape[-1] - 1})"
        raise PassFailed(what, where=where, hint=_ASK)


def in_parts(
    run: Callable[[Inputs, Tensor], Pass], x: Inputs, y: Tensor, largest: int | None = None
) -> Pass:
    """One batch's pass from passes over its parts.

    In eval mode samples do not see each other, so ∂CE/∂h of a sample in a part of b samples is (B/b) times that
    in the batch of B: scaled by b/B and put back together, it is the batch's, up to rounding (relative 2^-24;
    exact where b/B is a power of two).

    Args:
        run: (x, y) → their pass.
        x: inputs (B, ...).
        y: labels (B,).
        largest: samples per pass; None = all at once.
    """
    if largest is None or largest >= len(y):
        return run(x, y)
    terms = loss_terms(y)
    parts = [
        (run(a, b), loss_terms(b) / terms)
        for a, b in zip(cut(x, largest), cut(y, largest), strict=True)
    ]
    passes, shares = zip(*parts, strict=True)
    first: Pass = passes[0]

    def joined(vectors: list[Sequence[Tensor]]) -> list[Tensor]:
        """Of every part its vectors by layer → by layer, at the scale of the whole batch."""
        layers = zip(*vectors, strict=True)
        return [torch.cat([g * share for g, share in zip(l, shares, strict=True)]) for l in layers]

    return replace(
        first,
        logits=torch.cat([part.logits for part in passes]),
        hidden=[
            torch.cat(states) for states in zip(*(part.hidden for part in passes), strict=True)
        ],
        gradients=joined([part.gradients for part in passes]),
        error=torch.cat([part.error for part in passes]),
        credit=joined([part.credit for part in passes]),
        counting=None if first.counting is None else torch.cat([part.counting for part in passes]),
    )


def true_pass(net: Borrowed, taps: Taps, x: Inputs, y: Tensor, largest: int | None = None) -> Pass:
    """`fused_pass` to all layers.

    Args:
        net: the borrowed network.
        taps: as for `diagnose`.
        x: inputs (B, ...).
        y: labels.
        largest: as for `in_parts`.

    Raises:
        TapError: states whose first axis is not the batch.
        MeasureError: the network's backward pass is its own, and the gradient is not known.
    """
    with net.draws.passing():
        done = in_parts(
            partial(fused_pass, resolve_taps(net.model, taps), net.model), x, y, largest
        )
    check_states(done.hidden, done.names, len(y))
    if done.untrue:
        raise MeasureError(done.untrue)
    return done


def cut(x: Inputs, largest: int) -> list[Inputs]:
    """The inputs in pieces of at most ``largest`` samples."""
    return [rows(x, slice(at, at + largest)) for at in range(0, len(first_of(x)), largest)]


_MESSAGES = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an exception, or what caused it, says that memory ran out.

    >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory")), is_out_of_memory(None)
    (True, False)
    """
    while error is not None:
        if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
            return True
        if isinstance(error, RuntimeError) and any(message in str(error) for message in _MESSAGES):
            return True
        error = error.__cause__
    return False
