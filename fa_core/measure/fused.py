"""The fused pass: logits, states and the wanted gradients of one batch from one forward and one backward."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fa_core.errors import MeasureError, TapError
from fa_core.measure.custom_backward import custom_functions
from fa_core.measure.stream import activation_gradients
from fa_core.measure.taps import Tapped


class PassFailed(MeasureError, RuntimeError):
    """The network could not run on a batch: data that do not fit it, most often."""


class CustomBackward(UserWarning):
    """The network brings its own backward pass, so that autograd's gradient may not be the gradient."""


@dataclass(frozen=True)
class Pass:
    """One batch, measured.

    Attributes:
        logits: (B, C), outside the graph.
        hidden: h_0..h_L, outside the graph, in the network's own shapes.
        gradients: g_l at the asked layers, same shapes.
        logit_gradient: ∂CE/∂logits = e_T/B, (B, C), in the arithmetic of the backward pass.
        names: names of h_0..h_L.
        custom_functions: the network's own backward functions, looked for when all layers are asked for.
    """

    logits: Tensor
    hidden: list[Tensor]
    gradients: list[Tensor]
    logit_gradient: Tensor
    names: list[str]
    custom_functions: list[str] = field(default_factory=list)


def fused_pass(
    tapped: Tapped, model: nn.Module, x: Tensor, y: Tensor, layers: Sequence[int] | None = None, where: str = ""
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
            if "modified by an inplace operation" not in str(error):
                raise
        # the network updates its stream in place: keep what the backward pass needs, at some cost
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            return _once(tapped, model, x, y, layers, where)


@contextmanager
def explained(x: Tensor, where: str) -> Iterator[None]:
    """Turn what a network raises on a batch into one line that names the batch; keep out-of-memory as it is."""
    try:
        yield
    except (torch.OutOfMemoryError, PassFailed):
        raise
    except (RuntimeError, ValueError, IndexError) as error:
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        inputs = f"inputs of shape {tuple(x.shape)}, {str(x.dtype).removeprefix('torch.')}"
        raise PassFailed(
            f"the network failed on {inputs}: {first_line}",
            where=where,
            hint="do these data belong to this network?",
        ) from error


def _once(tapped: Tapped, model: nn.Module, x: Tensor, y: Tensor, layers: Sequence[int] | None, where: str) -> Pass:
    stream = tapped.forward(model, x, layers)
    check_logits(stream.logits, y, where)
    if layers and max(layers) >= len(stream.hidden):
        raise TapError(
            f"{len(stream.hidden)} states, h_{max(layers)} in the first batch",
            where=where,
            hint="the taps must be the same for every batch",
        )
    own = custom_functions(stream.logits) if layers is None else []
    if own:
        warnings.warn(
            f"the network's backward pass is partly its own ({', '.join(own)}): what is measured as the BP gradient "
            "is what that gives; measure the same network with plain layers if it is a feedback rule",
            CustomBackward,
            stacklevel=2,
        )
    gradients, logit_gradient = activation_gradients(stream, y, layers)
    hidden = [h.detach() for h in stream.hidden]
    return Pass(stream.logits.detach(), hidden, gradients, logit_gradient, stream.names, own)


def check_logits(logits: object, y: Tensor, where: str) -> None:
    """Refuse an output that is not (B, C) logits with a class for every label.

    Raises:
        PassFailed: says both shapes, or the label and the number of classes.
    """
    shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if not (isinstance(logits, Tensor) and logits.dim() == 2 and len(logits) == len(y) and logits.is_floating_point()):
        raise PassFailed(
            f"the network's output is {shape} for {len(y)} labels", where=where, hint="logits are (B, C) floats"
        )
    largest = int(y.max())
    if largest >= logits.shape[1]:
        raise PassFailed(
            f"label {largest} but the network has {logits.shape[1]} classes (0..{logits.shape[1] - 1})",
            where=where,
            hint="do these data belong to this network?",
        )
