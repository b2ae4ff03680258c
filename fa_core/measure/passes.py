"""A network's passes, batch by batch: checked, by its true derivative, errors as one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from fa_core.errors import FaError, MeasureError, TapError, UsageError, first_line
from fa_core.measure.batch_input import to_device
from fa_core.measure.blocks import left_out
from fa_core.measure.flow import Flow
from fa_core.measure.gradients import LayerOf, Layers, Pass, backward, microbatches
from fa_core.measure.graph import (
    NODE_HOOK,
    HookRecorder,
    arithmetic,
    backward_hooks,
    custom_functions,
    has_functions,
    reachable,
)
from fa_core.measure.hooks import plain_logits
from fa_core.measure.isolate import (
    Device,
    GeneratorStates,
    Inputs,
    RngState,
    dtype_name,
    eval_mode,
    to_float64,
)
from fa_core.measure.loss import CE, Loss, LossChoice, check_loss, settled
from fa_core.measure.norms import Flattening, Signal, agree, check_states, each
from fa_core.measure.proven_credit import CreditProof
from fa_core.measure.stream import Proof, Stream, Trials, prove
from fa_core.measure.taps import (
    Tapped,
    Taps,
    pooled,
    resolve_taps,
    said_of_pool,
    working_taps,
)
from fa_core.measure.tracing import STRAIGHT_THROUGH, OwnBackward, agreeing

IN_PLACE = "modified by an inplace operation"
"""In torch's message if the backward pass needs a value that was overwritten."""

UNSEEN = "its own backward pass reads values that the forward wrote over through .data"
"""Why the gradient by copies of them, where torch notices no write, has no Γ beside it."""

CreditFunction: TypeAlias = Callable[[nn.Module, Any, Tensor], Signal]
"""``(model, x, y) -> [a_0..a_L]``."""


@dataclass(frozen=True)
class PassOptions:
    """How the batches of a network are measured: options of `diagnose`, passed on as a whole.

    Attributes:
        taps, device, stability_layer, norm_batches, dtype, largest_pass, loss: as for `diagnose`.
        credit: a function (model, x, y) -> [a_0..a_L], see `fa_core.measure.credit.given_credit`.
        decide_at: ceiling of (c); 8, 16, 32 or 64 batches are measured, the first number at which
            it is decided.
    """

    taps: Taps = None
    device: Device = None
    stability_layer: int | None = None
    norm_batches: int = 1
    dtype: str | None = None
    largest_pass: int | None = None
    credit: CreditFunction | None = None
    decide_at: float | None = None
    loss: LossChoice = "ce"

    def check(self) -> None:
        """Check the counts and the loss.

        Raises:
            UsageError: a count below 1, an unknown loss.
        """
        check_loss(self.loss)
        if self.norm_batches < 1:
            raise UsageError(
                f"norm_batches is {self.norm_batches}", hint="at least one batch gives the norms"
            )
        if self.largest_pass is not None and self.largest_pass < 1:
            raise UsageError(
                f"largest_pass is {self.largest_pass}", hint="a pass needs at least one sample"
            )


DEFAULTS = PassOptions()
"""Those of `diagnose`."""


@dataclass(frozen=True)
class _Batch:
    """A batch on the network's device, and what is asked of its pass: arguments of `run`."""

    x: Inputs
    y: Tensor
    where: str
    layers: Layers
    mean_error_at: LayerOf | None


class _Copies(torch.autograd.graph.saved_tensors_hooks):
    """Gives backward passes what they save as it was.

    Attributes:
        written: whether the network wrote into any of it.
        unseen: whether torch, which then gives another gradient, did not notice.
    """

    def __init__(self) -> None:
        self.written = self.unseen = False
        super().__init__(self._pack, self._unpack)

    def _pack(self, saved: Tensor) -> tuple[Tensor, Tensor, int]:
        # unseen by the record of operations
        with _disable_current_modes():
            return saved.detach(), saved.clone(), saved._version

    def _unpack(self, packed: tuple[Tensor, Tensor, int]) -> Tensor:
        own, copy, version = packed
        with _disable_current_modes():
            # bytes are room for a kernel's own use (oneDNN's LSTM)
            is_room = own.dtype == torch.uint8 or own.layout != torch.strided
            if is_room or torch.equal(own, copy):
                return own
        self.written = True
        self.unseen |= own._version == version
        return copy


class PassRunner:
    """Runs a network forward and back, batch by batch.

    Args:
        taps: how to tap it.
        model: the network in eval mode (see `eval_mode`).
        loss: as for `diagnose`; the first batch decides it (`settled`).

    Attributes:
        loss: the loss, from the first batch on.
        proof: what the proof of the stream leaves to say; None before the first batch.
        drew: whether its own backward pass, seen apart from the others, drew random numbers.
    """

    def __init__(self, taps: Tapped, model: nn.Module, loss: LossChoice) -> None:
        self._tapped = taps
        self._asked: LossChoice = loss
        self.loss: Loss = CE
        self._model = model
        self._own: OwnBackward | None = None
        self._dtype = ""
        self._copies = True
        self.proof: Proof | None = None
        self.drew = False
        self._trials: Trials | None = None

    def run(
        self,
        x: Inputs,
        y: Tensor,
        layers: Layers = None,
        where: str = "",
        mean_error_at: LayerOf | None = None,
    ) -> Pass:
        """Run one batch forward and back to some layers.

        Args:
            x: inputs, (B, ...).
            y: (B,) class indices on the same device.
            layers: the layers to give gradients at; None = all, which the first batch must use. The
                backward pass stops at the first of them.
            where: the batch's name in messages.
            mean_error_at: as for `backward`.

        Raises:
            PassFailed: the network raised, or its logits are not (B, C) or too few for the labels.
            TapError: a tap that cannot be used.
        """
        batch = _Batch(x, y, where, layers, mean_error_at)
        with as_pass_failed(x, where):
            try:
                done = self._run_copying(batch) if self._copies else self._run(batch)
            except RuntimeError as error:
                if self._copies or IN_PLACE not in str(error):
                    raise
                self._copies = True
                done = self._run_copying(batch)
        return replace(done, dtype=self._dtype)

    def _run_copying(self, batch: _Batch) -> Pass:
        """Run the first batch, and all of a network that writes into what its backward pass needs,
        with copies of it. (`allow_mutation_on_saved_tensors` sees no write through ``.data``, and
        takes a tensor for a freed one of its address.)"""
        is_first, copies = self.proof is None, _Copies()
        with copies:
            done = self._run(batch)
        self._copies = copies.written or not is_first
        if copies.unseen:
            return replace(done, credit=[], no_credit=done.no_credit or UNSEEN)
        return done

    def _run(self, batch: _Batch) -> Pass:
        if self.proof is None:
            self._tapped = self._tapped.chosen(self._model, batch.x)
            return self._first(batch)
        own = self._own
        if own is not None and batch.layers is None:
            return self._run_both(batch, own)
        derived = self._derived(batch)
        if derived is not None:
            return derived
        stream = self._tapped.forward(self._model, batch.x, batch.layers)
        done = self._checked_backward(stream, batch)
        return done if own is None else replace(done, gradient_unknown=own.why)

    def _first(self, batch: _Batch) -> Pass:
        """Run the first batch: prove the stream, and find what its backward pass has of its own."""
        begun = GeneratorStates()
        with HookRecorder() as hooks, Flow(self._model, batch.x) as flow:
            stream = self._tapped.forward(self._model, batch.x)
        draws = not begun.same(GeneratorStates())
        check_logits(stream.logits, batch.y, batch.where)
        self.loss = settled(self._asked, stream.logits, batch.y)
        outside = [f"what {name} reads" for name, is_data in hooks.read.items() if is_data]
        lost = self._prove(flow, stream, batch, outside, draws)
        nodes = reachable(stream.logits.grad_fn)
        self._dtype = arithmetic(stream.logits, nodes)
        of_modules = backward_hooks(self._model)
        if of_modules:
            # torch itself reads nodes of the graph to attach these hooks
            hooks.hooks.pop(NODE_HOOK, None)
        certain = [*custom_functions(nodes), *hooks.hooks, *of_modules]
        if any(STRAIGHT_THROUGH.search(operation.name) for operation in flow.operations):
            certain.append("fake_quantize")
        lost += [*hooks.read, *[".item()"] * flow.numbers]
        if not certain and not lost and not has_functions(nodes):
            return self._checked_backward(stream, batch)
        self._own = OwnBackward(self._tapped, certain, lost, bool(hooks.read))
        return self._run_both(batch, self._own)

    def _prove(
        self, flow: Flow, stream: Stream, batch: _Batch, outside: Sequence[str], draws: bool
    ) -> list[str]:
        """Prove the stream on the first batch, but for what leaves torch.

        Returns:
            How values lose their gradient on the way from the states to the logits.

        Raises:
            TapError: the taps are no stream; with taps that are one.
        """
        check_states(stream.hidden, stream.names, len(batch.y))
        try:
            proof = prove(flow, stream)
            left = left_out(flow, proof, stream.hidden)
        except TapError as error:
            hint = error.hint or working_taps(self._model, batch.x)
            raise TapError(error.what, hint=hint) from error
        pool = pooled(flow, stream)
        if pool is not None:
            raise TapError(
                said_of_pool(stream, pool),
                hint="leave it out"
                if pool[1] in stream.names
                else f"in its place, tap the state before: {pool[1] or 'return it by a function'}",
            )
        self.proof = replace(proof, left_out="; ".join(filter(None, [", ".join(left), *outside])))
        run = partial(self._tapped.forward, self._model)
        places = {
            node - flow.begin: (l, flow.operations[node].name)
            for l, node in enumerate(proof.states)
        }
        self._trials = Trials(run, self._model, batch.x, batch.y, stream, places, draws)
        return flow.lost_gradients(proof.states, proof.logits)

    def prove_by_trial(self) -> None:
        """Prove, after all batches, what more runs of the first one show (see `Trials`).

        Raises:
            MeasureError: samples depend on each other, the network keeps state, or its logits
                depend on the input past h_L.
        """
        assert self._trials and self.proof, "after the first batch"
        if self._trials.check() and not self.proof.side_inputs:
            self.proof = replace(self.proof, side_inputs=["the input"])

    def compared(self) -> str:
        """By how much the logits that a function of taps returns for the first batch differ from
        the network's own; "" for rounding, and where the network is not called as model(x)."""
        assert self._trials, "after the first batch"
        x, logits = self._trials.x, self._trials.first.logits
        try:
            with as_pass_failed(x, ""), RngState().isolated():
                own = plain_logits(self._model, x)
        except FaError:
            return ""
        if own.shape != logits.shape or agree(logits, own):
            return ""
        by = float((logits - own).abs().max() / torch.stack([logits, own]).abs().max())
        return f"logits of the function differ from model(x)'s by {by:.2g} of the largest"

    def _run_both(self, batch: _Batch, own: OwnBackward) -> Pass:
        """Run the derivative of the forward, and autograd, whose backward may be custom."""
        # all passes with the same random numbers
        with RngState().isolated():
            true = self._derived(batch)
        try:
            draws = RngState()
            with draws.isolated():
                stream = self._tapped.forward(self._model, batch.x)
                done = backward(stream, batch.y, None, batch.mean_error_at, self.loss)
            self.drew |= draws.noticed
        except Exception as error:
            of_network = own.certain or isinstance(error, TapError)
            if not of_network or is_out_of_memory(error) or IN_PLACE in str(error):
                raise
            why = _why_no_backward(error, own.names)
            if true is None:
                raise MeasureError(f"{why}; {own.why}", where=batch.where) from error
            if own.steps:
                own.give_up()
            return replace(true, own_backward=own.names, no_credit=why, gradient_unknown=own.why)
        if true is None:
            is_gradient = not own.names
        else:
            is_gradient = len(agreeing(done.gradients, true.gradients)) == len(done.names)
        if not is_gradient and own.steps and not own.why:
            own.give_up()
        if true is None or own.why:
            if not is_gradient:
                return replace(done, own_backward=own.names, gradient_unknown=own.why)
        elif own.certain or not is_gradient:
            proof = CreditProof(self._tapped, self._model, own, batch.x, batch.y, self.loss)
            if not is_gradient or not proof.is_derivative(true.gradients):
                credit, why = proof.credit()
                return replace(
                    true,
                    names=done.names,
                    own_backward=own.names,
                    credit=credit,
                    no_credit=why,
                )
        self._own = None
        return done

    def _derived(self, batch: _Batch) -> Pass | None:
        """The pass by the derivative of the forward; None if not needed or not possible."""
        own = self._own
        if own is None or own.why:
            return None
        try:
            return self._checked_backward(own.forward(self._model, batch.x, batch.layers), batch)
        except Exception as error:
            if is_out_of_memory(error) or IN_PLACE in str(error):
                raise
            own.give_up(error)
            return None

    def _checked_backward(self, stream: Stream, batch: _Batch) -> Pass:
        """`backward`, after a check of the logits and the number of states."""
        check_logits(stream.logits, batch.y, batch.where)
        layers = batch.layers
        if layers and max(layers) >= len(stream.hidden):
            raise TapError(
                f"{len(stream.hidden)} states, h_{max(layers)} in the first batch",
                where=batch.where,
                hint="the taps must be the same for every batch",
            )
        return backward(stream, batch.y, layers, batch.mean_error_at, self.loss)


def _why_no_backward(error: Exception, names: Sequence[str]) -> str:
    """Why autograd's own pass of a network gives no vectors; its forward ran."""
    own = f"its own backward pass ({', '.join(names)})"
    if isinstance(error, TapError):
        return f"{own} is cut: {error.what}"
    return f"{own} fails, not its forward: {type(error).__name__}: {first_line(error)}"


@dataclass(frozen=True)
class Reference:
    """The true gradients of one batch, to compare others with.

    Attributes:
        model: the network in eval mode.
        x: inputs (B, ...).
        y: labels.
        done: a pass to all layers.
        flattening: how its states become vectors.
        gradients: g_0..g_L as vectors.
        loss: of a sample.
    """

    model: nn.Module
    x: Inputs
    y: Tensor
    done: Pass
    flattening: Flattening
    gradients: list[Tensor]
    loss: Loss

    def vectors(self, credit: Signal) -> list[Tensor | None]:
        """Credit as float64 vectors beside the gradients.

        Raises:
            MeasureError: its length or a shape differs from the states'; with both.
        """
        hidden = self.done.hidden
        if len(credit) != len(hidden):
            raise MeasureError(
                f"{len(credit)} credits for {len(hidden)} states",
                hint="give a_0..a_L, None where there is none",
            )
        for l, (a, h) in enumerate(zip(credit, hidden, strict=True)):
            if a is not None and a.shape != h.shape:
                raise MeasureError(
                    f"a_{l} has shape {tuple(a.shape)}, h_{l} has {tuple(h.shape)}",
                    hint="a credit signal has its state's shape, batch included",
                )
        return each(lambda a: self.flattening.vectors(to_float64(a).to(self.y.device)), credit)


@contextmanager
def reference(model: nn.Module, batch: object, how: PassOptions) -> Iterator[Reference]:
    """Run one batch to all layers by true gradients; the network stays in eval mode inside.

    Raises:
        TapError: states whose first axis is not the batch.
        MeasureError: the network has a custom backward pass, and its gradient is unknown.
    """
    with eval_mode(model, how.dtype, how.device) as net:
        x, y = to_device(batch, 0, net)
        runner = PassRunner(resolve_taps(net.model, how.taps), net.model, how.loss)
        with net.rng.isolated():
            done = microbatches(runner.run, x, y, how.largest_pass)
            runner.prove_by_trial()
        if done.gradient_unknown:
            raise MeasureError(done.gradient_unknown)
        flattening = Flattening.of(done.hidden, done.at_head, done.label_mask)
        gradients = [flattening.vectors(g) for g in done.gradients]
        yield Reference(net.model, x, y, done, flattening, gradients, runner.loss)


class PassFailed(MeasureError, RuntimeError):
    """The network could not run on a batch; most often the data do not fit it."""


@contextmanager
def as_pass_failed(x: Inputs, where: str) -> Iterator[None]:
    """Raise a network's errors on a batch as `PassFailed`, except out-of-memory."""
    try:
        yield
    except (torch.OutOfMemoryError, FaError):
        raise
    except Exception as error:
        what = first_line(error)
        if not isinstance(error, (RuntimeError, ValueError, IndexError)):
            what = f"{type(error).__name__}: {what}"
        known = (hint for one, hint in _REMEDIES if re.search(one, what, re.IGNORECASE))
        raise PassFailed(
            f"the network failed on inputs {_shapes(x)}: {what}",
            where=where,
            hint=next(
                known,
                f"{_RAISED}; where it needs more than x, wrap it in a module that passes that on",
            ),
        ) from error


def _shapes(x: Inputs) -> str:
    """Names, shapes and types of the inputs."""
    parts = []
    for name, tensor in x.items() if isinstance(x, Mapping) else [("", x)]:
        if isinstance(tensor, Tensor):
            dtype = dtype_name(tensor.dtype)
            parts.append(f"{name} of shape {tuple(tensor.shape)}, {dtype}".strip())
    return ", ".join(parts)


_ASK = "do these data belong to this network?"
_RAISED = "its forward raised it: run model(x) on this batch by itself"
_REMEDIES = (
    (
        "use_reentrant",
        "checkpoint with use_reentrant=False, or switch checkpointing off while measuring",
    ),
    ("ScriptModules", "give the nn.Module that each TorchScript block was made of"),
    ("inference tensor", "load or copy the network outside torch.inference_mode()"),
    (
        "cudnn RNN",
        "measure it on the CPU (--device cpu), or set torch.backends.cudnn.enabled = False",
    ),
    ("same device|device type", "move the network to one device, or give device="),
    (
        "missing .*argument|takes .*argument|unexpected keyword|subscript|invalid data type|"
        "KeyError",
        "the network is called as model(x), or model(**x) by name, and a function of taps as "
        "f(model, x): wrap the network in a module whose forward takes x alone and passes on what "
        "else it needs",
    ),
    ("dtype|scalar type|input type", f"{_ASK} where they do, give x.float(), or {_RAISED}"),
    (
        "shape|size|dimension|channel|out of (range|bounds)|number of values|samples of",
        f"{_ASK} where they do, {_RAISED}",
    ),
)
"""Pattern in the message of an error → remedy; the first that matches is used."""


def check_logits(logits: Tensor, y: Tensor, where: str) -> None:
    """Refuse an output that is not (B, C) logits, or (B, T, C) for labels (B, T).

    Raises:
        PassFailed: a wrong shape or dtype, a single class, or a label without a class.
    """
    if logits.shape[:-1] != y.shape or not logits.is_floating_point():
        labels = len(y) if y.dim() == 1 else tuple(y.shape)
        raise PassFailed(
            f"the network's output is {tuple(logits.shape)} for {labels} labels",
            where=where,
            hint="logits are (B, C) floats, (B, T, C) for labels (B, T): wrap the network in a "
            "module that returns them, or give a function (model, x) -> (logits, states)",
        )
    classes = logits.shape[-1]
    if classes == 1:
        raise PassFailed(
            "the network gives one output per sample, and C classes take C ≥ 2",
            where=where,
            hint="for two classes, wrap it in a module that returns "
            'torch.cat([torch.zeros_like(z), z], dim=1), with loss "ce"',
        )
    largest = int(y.max())
    if largest >= classes:
        raise PassFailed(
            f"label {largest} but the network has {classes} classes (0..{classes - 1})",
            where=where,
            hint=_ASK,
        )


_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "ALLOC_FAILED")


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an exception, or one of its causes, is an out-of-memory error.

    >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    True
    """
    while error is not None:
        if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
            return True
        message = str(error)
        if isinstance(error, RuntimeError) and any(part in message for part in _OUT_OF_MEMORY):
            return True
        error = error.__cause__
    return False
