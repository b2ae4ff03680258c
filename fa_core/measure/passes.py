"""One forward and one backward pass per eval batch: logits, states and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor, nn

from fa_core.errors import TapError
from fa_core.measure.flattening import check_states
from fa_core.measure.gradients import (
    IGNORED,
    Layers,
    Stream,
    activation_gradients,
    mean_error_gradient,
)
from fa_core.measure.graph import (
    arithmetic,
    custom_functions,
    has_functions,
    reachable,
    straight_through,
)
from fa_core.measure.isolate import Inputs, RngState, select_samples
from fa_core.measure.lost_gradients import NODE_HOOK, LostGradientRecorder, backward_hooks
from fa_core.measure.pass_errors import (
    IN_PLACE,
    as_pass_failed,
    check_logits,
    is_out_of_memory,
)
from fa_core.measure.resolve import GuessedTaps, bypass_note, check_stream
from fa_core.measure.taps import ReturnedStream, Tapped
from fa_core.measure.tracing import OwnBackward, agreeing


@dataclass(frozen=True)
class Pass:
    """The results of one batch.

    Attributes:
        logits: (B, C), or (B, T, C), outside the graph.
        hidden: h_0..h_L, outside the graph, in the network's own shapes.
        gradients: g_l at the requested layers, same shapes.
        error: e_T as `fa_core.measure.gradients.loss_gradient` gives it, (B, C) or (B, T, 1), in
            float64.
        names: names of h_0..h_L.
        dtype: the arithmetic of the pass; with all layers requested, also inside the network.
        own_backward: names of the network's custom backward functions, if autograd's vector is not
            the gradient.
        credit: autograd's vector in that case, shaped as h_l: the method's credit. Only of a pass
            to all layers.
        gradient_unknown: why the gradient is unknown and `gradients` holds autograd's vector; "" if
            it is known.
        of_mean_error: `mean_error_gradient` at the layer of (c), where that was asked for.
        label_mask: (B, T) bool, the labels that are not ignored; None for labels (B,).
    """

    logits: Tensor
    hidden: list[Tensor]
    gradients: list[Tensor]
    error: Tensor
    names: list[str]
    dtype: str
    own_backward: Sequence[str] = ()
    credit: Sequence[Tensor] = ()
    gradient_unknown: str = ""
    of_mean_error: Tensor | None = None
    label_mask: Tensor | None = None


LayerOf: TypeAlias = Callable[[int], int]
"""Number of states → the layer of (c)."""


def backward(
    stream: Stream, y: Tensor, layers: Layers = None, mean_error_at: LayerOf | None = None
) -> Pass:
    """Run the backward pass of a forward pass.

    Args:
        stream: the forward pass.
        y: labels, each a class of the logits.
        layers: the layers to give gradients at; None = all.
        mean_error_at: where to give the gradient of the mean error of labels (B,); None = nowhere.

    Raises:
        TapError: a tap that the logits do not depend on.
    """
    again = mean_error_at is not None and y.dim() == 1
    gradients, error = activation_gradients(stream, y, layers, keep_graph=again)
    of_mean_error = None
    if mean_error_at is not None and again:
        layer = mean_error_at(len(stream.hidden))
        # a layer that does not exist is refused where its gradient is read
        if 0 <= layer < len(stream.edges):
            of_mean_error = mean_error_gradient(stream, error, layer)
    return Pass(
        logits=stream.logits.detach(),
        hidden=[h.detach() for h in stream.hidden],
        gradients=gradients,
        error=error,
        names=stream.names,
        dtype=arithmetic(stream.logits),
        of_mean_error=of_mean_error,
        label_mask=y != IGNORED if y.dim() == 2 else None,
    )


@dataclass(frozen=True)
class _Batch:
    """A batch on the network's device; `where` is its name in messages."""

    x: Inputs
    y: Tensor
    where: str


class PassRunner:
    """Runs a network forward and back, batch by batch.

    Args:
        taps: how to tap it.
        model: the network in eval mode (see `eval_mode`).

    Attributes:
        mean_error_at: as for `backward`.
        note: the report's note on the states; may be "".
    """

    def __init__(self, taps: Tapped | GuessedTaps, model: nn.Module) -> None:
        self._taps = taps
        self.mean_error_at: LayerOf | None = None
        self._model = model
        self._own: OwnBackward | None = None
        self.note = ""

    def run(self, x: Inputs, y: Tensor, layers: Layers = None, where: str = "") -> Pass:
        """Run one batch forward and back to some layers.

        Args:
            x: inputs, (B, ...).
            y: (B,) class indices on the same device.
            layers: the layers to give gradients at; None = all, which the first batch must use. The
                backward pass stops at the first of them.
            where: the batch's name in messages.

        Raises:
            PassFailed: the network raised, or its logits are not (B, C) or too few for the labels.
            TapError: a tap that cannot be used.
        """
        batch = _Batch(x, y, where)
        with as_pass_failed(x, where):
            try:
                return self._run(batch, layers)
            except RuntimeError as error:
                if IN_PLACE not in str(error):
                    raise
            # the network updates its stream in place: copy what the backward pass needs
            with torch.autograd.graph.allow_mutation_on_saved_tensors():
                return self._run(batch, layers)

    @property
    def _tapped(self) -> Tapped:
        assert not isinstance(self._taps, GuessedTaps), "the first pass asks for all layers"
        return self._taps

    def _run(self, batch: _Batch, layers: Layers) -> Pass:
        if layers is None:
            return self._run_all(batch)
        derived = self._derived(batch, layers)
        if derived is not None:
            return derived
        stream = self._tapped.forward(self._model, batch.x, layers)
        done = self._checked_backward(stream, batch, layers)
        if self._own is None:
            return done
        return replace(done, gradient_unknown=self._own.why)

    def _run_all(self, batch: _Batch) -> Pass:
        if isinstance(self._taps, GuessedTaps):
            self._taps = self._taps.choose(self._model, batch.x)
        with LostGradientRecorder(self._tapped.shifted) as recorded:
            stream = self._tapped.forward(self._model, batch.x)
        self._check(stream, batch, lost=bool(recorded.lost))
        nodes = reachable(stream.logits.grad_fn)
        dtype = arithmetic(stream.logits, nodes)
        of_modules = backward_hooks(self._model)
        if of_modules:
            # torch itself reads nodes of the graph to attach these hooks
            recorded.hooks.pop(NODE_HOOK, None)
        certain = custom_functions(nodes)
        certain += [*recorded.hooks, *of_modules, *straight_through(nodes)]
        if not certain and not recorded.lost and not has_functions(nodes):
            return replace(backward(stream, batch.y, None, self.mean_error_at), dtype=dtype)
        if self._own is None:
            self._own = OwnBackward(self._tapped, certain, recorded)
        return replace(self._run_both(batch, self._own), dtype=dtype)

    def _check(self, stream: Stream, batch: _Batch, lost: bool) -> None:
        """Refuse states and logits that cannot be used."""
        size = len(batch.y)
        if any(h.dim() > 2 and h.shape[0] == h.shape[1] == size > 1 for h in stream.hidden):
            # (B, B, d): a pass of one sample shows which axis is the batch
            one = self._tapped.forward(self._model, select_samples(batch.x, slice(1)), [])
            check_logits(one.logits, batch.y[:1], f"{batch.where}, one sample")
            check_states(one.hidden, one.names, 1)
        check_logits(stream.logits, batch.y, batch.where)
        if type(self._tapped) is ReturnedStream:
            self.note = bypass_note(stream)
        elif not lost:
            check_stream(stream)

    def _run_both(self, batch: _Batch, own: OwnBackward) -> Pass:
        """Run autograd and the derivative of the forward, for a backward that may be custom."""
        # both passes with the same random numbers
        with RngState().isolated():
            stream = self._tapped.forward(self._model, batch.x)
            done = backward(stream, batch.y, None, self.mean_error_at)
        with RngState().isolated():
            true = self._derived(batch, None)
        if true is None:
            is_gradient = not own.matters(self._model, batch.x)
        else:
            is_gradient = len(agreeing(done.gradients, true.gradients)) == len(done.names)
        if is_gradient:
            self._own = None
            return done
        if own.steps and not own.why:
            own.give_up(own.in_steps())
        if true is None or own.why:
            return replace(done, own_backward=own.names, gradient_unknown=own.why)
        return replace(true, names=done.names, own_backward=own.names, credit=done.gradients)

    def _derived(self, batch: _Batch, layers: Layers) -> Pass | None:
        """The pass by the derivative of the forward; None if not needed or not possible."""
        own = self._own
        if own is None or own.why:
            return None
        try:
            stream = own.forward(self._model, batch.x, layers)
            return self._checked_backward(stream, batch, layers)
        except Exception as error:
            if is_out_of_memory(error) or IN_PLACE in str(error):
                raise
            own.give_up(error)
            return None

    def _checked_backward(self, stream: Stream, batch: _Batch, layers: Layers) -> Pass:
        """`backward`, after a check of the logits and the number of states."""
        check_logits(stream.logits, batch.y, batch.where)
        if layers and max(layers) >= len(stream.hidden):
            raise TapError(
                f"{len(stream.hidden)} states, h_{max(layers)} in the first batch",
                where=batch.where,
                hint="the taps must be the same for every batch",
            )
        return backward(stream, batch.y, layers, self.mean_error_at)
