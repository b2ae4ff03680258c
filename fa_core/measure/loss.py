"""What outputs are worth by their labels: the loss whose gradients are measured, and accuracy.

The loss is cross entropy, or the one that a network was trained with. Each is a loss per sample,
ℓ_i, of the outputs z_i (C,) and the label, t_i its one-hot vector. A batch has their mean, so that
g_l carries 1/B; e_T = ∂ℓ_i/∂z_i does not.

    ce                     −log softmax(z)_y, in nats
    bce                    mean_c softplus(z_c) − t_c·z_c, of logits
    bce of probabilities   −mean_c t_c·log z_c + (1 − t_c)·log(1 − z_c), flat where a log is of 0
    mse                    mean_c (z_c − t_c)²

The means over the C classes are those of `torch.nn.BCEWithLogitsLoss`, `BCELoss` and `MSELoss`: a
loss that sums over classes, or halves the square, is another function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, logsigmoid, one_hot

from fa_core.errors import FaError, MeasureError, first_line
from fa_core.measure.batch_input import IGNORED, move_batch
from fa_core.measure.copies import copied
from fa_core.measure.credit_metrics import ce_change
from fa_core.measure.hooks import described
from fa_core.measure.isolate import (
    HALF,
    EvalNetwork,
    Inputs,
    first_of,
    select_samples,
    to_float64,
)
from fa_core.option_values import LOSSES, unknown_name
from fa_core.report.numbers import joined
from fa_core.zoo.methods.base import output_error

LossFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""``(outputs (B, C), labels (B,)) -> losses per sample (B,)``."""

FEW_CLASSES = 8
"""With fewer classes, the small logits of an untrained network may all lie in [0, 1] by chance."""

ROWS = 128
"""Rows of outputs that show whether they are probabilities: a language model has thousands."""

_SQUASHING = ("SigmoidBackward0", "SoftmaxBackward0")
"""Nodes of a graph that give probabilities."""

_LEAST = torch.finfo(torch.float32).tiny
"""The logarithm of probabilities is flat below, as `torch.nn.BCELoss` ends it at −100."""


@dataclass(frozen=True)
class Loss:
    """A loss per sample.

    Attributes:
        name: as the report records it.
        values: (outputs, labels) → (B,).
        note: the report's note on it; may be "".
        in_float64: whether it is computed in float64, and not in the outputs' arithmetic.
    """

    name: str
    values: LossFunction
    note: str = ""
    in_float64: bool = True

    def error(self, outputs: Tensor, y: Tensor) -> Tensor:
        """e_T = ∂ℓ_i/∂z_i, (B, C) float64, outside the graph.

        Raises:
            MeasureError: the loss cannot be differentiated, or its derivative is not finite.
        """
        z = (to_float64(outputs) if self.in_float64 else outputs.detach()).requires_grad_()
        with torch.enable_grad():
            losses = self.values(z, y.to(z.device))
        error = None
        if losses.requires_grad:
            (error,) = torch.autograd.grad(losses.sum(), z, allow_unused=True)
        if error is None:
            raise MeasureError(
                f"the loss {self.name} has no gradient",
                hint="compute it from the outputs by torch's operations, without .detach()",
            )
        _check_finite(self.name, error, z)
        return to_float64(error)

    def change(self, outputs: Tensor, moved: Tensor, y: Tensor) -> Tensor:
        """ℓ(moved) − ℓ(outputs) per sample: outputs (B, C), moved (M, B, C) → (M, B)."""
        return torch.stack([self.values(z, y) for z in moved]) - self.values(outputs, y)


class CrossEntropy(Loss):
    """Cross entropy, by closed forms that keep the digits of nearly certain samples."""

    def error(self, outputs: Tensor, y: Tensor) -> Tensor:
        return output_error(to_float64(outputs), y)

    def change(self, outputs: Tensor, moved: Tensor, y: Tensor) -> Tensor:
        return ce_change(outputs, moved, y)


def _targets(z: Tensor, y: Tensor) -> Tensor:
    return one_hot(y, z.shape[1]).bool()


def _bce_of_logits(z: Tensor, y: Tensor) -> Tensor:
    # autograd of logsigmoid keeps σ(−z) for large z, where σ(z) − 1 cancels
    return -logsigmoid(torch.where(_targets(z, y), z, -z)).mean(dim=1)


def _bce_of_probabilities(p: Tensor, y: Tensor) -> Tensor:
    if bool((p < 0).any() | (p > 1).any()):
        raise MeasureError(
            "outputs outside [0, 1], after a batch of probabilities",
            hint="logits=… names the outputs before the sigmoid, of which bce is taken as well",
        )
    return -_of_label(p, y).clamp(min=_LEAST).log().mean(dim=1)


def _of_label(p: Tensor, y: Tensor) -> Tensor:
    """The probability given to what each target says."""
    return torch.where(_targets(p, y), p, 1 - p)


def _mse(z: Tensor, y: Tensor) -> Tensor:
    return (z - _targets(z, y).to(z)).square().mean(dim=1)


CE = CrossEntropy("ce", partial(cross_entropy, reduction="none"))
"""Cross entropy of outputs that are logits."""

LossChoice: TypeAlias = str | LossFunction | Loss
"""A loss as a caller gives it: one of `LOSSES`, or a function."""


def check_loss(loss: object) -> None:
    """Refuse what is no loss.

    Raises:
        UsageError: with the known names.
    """
    if not (callable(loss) or isinstance(loss, Loss) or loss in LOSSES):
        raise unknown_name("loss", str(loss), [*LOSSES, "a function (outputs, y) -> (B,)"])


def settled(loss: LossChoice, outputs: Tensor, y: Tensor) -> Loss:
    """The loss of a network, decided by the outputs of its first batch.

    - ce: outputs that are probabilities are refused (`are_probabilities`). Where that is left open,
      they are taken for logits, with a note.
    - bce: outputs in [0, 1] that are not all 0 are probabilities, else logits.

    Args:
        loss: the caller's; a `Loss` is settled already.
        outputs: (B, C), or (B, T, C).
        y: labels (B,), or (B, T).

    Raises:
        MeasureError: probabilities for ce; a function that does not give a loss per sample.
    """
    if isinstance(loss, Loss):
        return loss
    if callable(loss):
        return _own_loss(loss, outputs, y)
    inside = lie_inside(outputs)
    if loss == "mse":
        return _named("mse", _mse)
    if loss == "bce" and inside:
        return _named("bce of probabilities", _bce_of_probabilities, _flat_note(outputs, y))
    if loss == "bce":
        return _named("bce", _bce_of_logits)
    if are_probabilities(outputs):
        raise MeasureError(
            f"the outputs {'lie in [0, 1]' if inside else 'sum to 1'} as probabilities do, and "
            "cross entropy takes logits",
            hint='name the loss, loss="bce" or "mse" (--loss), or where the logits are, '
            "logits=… (--logits)",
        )
    if inside:
        return replace(
            CE, note="the outputs of the first batch lie in [0, 1] and are taken for logits"
        )
    return CE


def lie_inside(outputs: Tensor) -> bool:
    """Whether all outputs lie in [0, 1], and not all are 0."""
    low, high = outputs.detach().aminmax()
    return bool((low >= 0) & (high > 0) & (high <= 1))


def are_probabilities(outputs: Tensor) -> bool:
    """Whether outputs are probabilities: their rows sum to 1, or they all lie in [0, 1].

    Logits may lie in [0, 1] too. A head or a stream of 0 gives the same ones for every sample:
    equal rows are no evidence. An untrained network gives almost the same, small ones, whose C
    signs are a matter of chance (in 21 % of 300 networks with two classes all were positive): of
    fewer than `FEW_CLASSES` classes those of some class have to spread over more than half of the
    interval, or to come from torch's sigmoid. Rows that sum to 1 and leave the interval, as a
    regression on one-hot targets has them, count from 8 on.

    Args:
        outputs: (..., C); `ROWS` of them are looked at for sums and spread.

    >>> are_probabilities(torch.tensor([[0.2, 0.8]])), are_probabilities(torch.zeros(8, 10))
    (True, False)
    """
    rows = to_float64(outputs.flatten(0, -2)[:ROWS])
    inside = lie_inside(outputs)
    if inside and outputs.grad_fn is not None and outputs.grad_fn.name() in _SQUASHING:
        return True
    if len(rows) > 1 and bool((rows == rows[0]).all()):
        return False
    rounding = 16 * torch.finfo(outputs.dtype).eps * rows.abs().sum(dim=1)
    # the sum of exploded outputs is rounding alone
    sums = bool((((rows.sum(dim=1) - 1).abs() <= rounding) & (rounding < 0.01)).all())
    if not inside or sums:
        return sums and (inside or len(rows) >= 8)
    spread = (rows.amax(dim=0) - rows.amin(dim=0)).max()
    return rows.shape[1] >= FEW_CLASSES or bool(spread > 0.5)


def _named(name: str, values: LossFunction, *notes: str, in_float64: bool = True) -> Loss:
    """A loss other than CE, with its note."""
    unit = f"gradients are of {name}: (b) is in its unit, and its floor is cross entropy's"
    return Loss(name, values, joined(unit, *notes), in_float64)


def _flat_note(p: Tensor, y: Tensor) -> str:
    """Note on probabilities of exactly 0 for what a target says, where BCE is flat; else ""."""
    flat = 0
    if y.dim() == 1:
        flat = int((_of_label(p.detach(), y.to(p.device)) < _LEAST).any(dim=1).sum())
    if not flat:
        return ""
    return (
        f"in {flat} of the first {len(y)} samples an output is 0 or 1 against its label, "
        "where bce has no gradient"
    )


def _own_loss(function: LossFunction, outputs: Tensor, y: Tensor) -> Loss:
    """The user's function, in the network's arithmetic, after a check with the first batch."""
    kind = type(function)
    name = getattr(function, "__qualname__", kind.__qualname__)
    name = f"{getattr(function, '__module__', kind.__module__)}:{name}"
    own = _named(name, partial(_checked, name, function), in_float64=False)
    if y.dim() == 1 and len(y) > 1:
        with torch.no_grad():
            whole = own.values(outputs.detach(), y)[:1]
            alone = own.values(outputs[:1].detach(), y[:1])
        rounding = torch.finfo(alone.dtype).eps ** 0.5
        if not torch.allclose(whole, alone, rtol=rounding, atol=rounding, equal_nan=True):
            raise MeasureError(
                f"the loss {name} gives a sample another value in its batch than alone",
                hint="a sample's loss may depend on its own outputs and label only",
            )
    return own


def _checked(name: str, function: LossFunction, outputs: Tensor, y: Tensor) -> Tensor:
    """The values of the user's function.

    Raises:
        MeasureError: it raised, or the values are not one finite number per sample.
    """
    try:
        # copies, as it may write into them
        losses: object = function(outputs.clone(), y.clone())
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise MeasureError(
            f"the loss {name} failed on {described(outputs)}: {first_line(error)}",
            hint="it is called with outputs (B, C) and labels (B,)",
        ) from error
    if not isinstance(losses, Tensor) or losses.shape != y.shape:
        raise MeasureError(
            f"the loss {name} returned {described(losses)} for {len(y)} samples",
            hint='return one number per sample: reduction="none", then the mean over classes',
        )
    _check_finite(name, losses[:, None], outputs)
    return losses


def _check_finite(name: str, values: Tensor, outputs: Tensor) -> None:
    """Refuse values, (B, ...), that are not finite where the outputs are.

    Raises:
        MeasureError: names the first sample.
    """
    wrong = outputs.detach().isfinite().all(dim=1) & ~values.detach().isfinite().all(dim=1)
    if bool(wrong.any()):
        raise MeasureError(
            f"the loss {name} or its derivative is not finite for sample {int(wrong.nonzero()[0])}",
            hint="its outputs are finite: bound the loss as in training",
        )


LogitsFunction: TypeAlias = Callable[[nn.Module, Inputs], Tensor]
"""``(network, x) -> logits (B, C)``, outside the graph."""

NEAR_TIE = 1e-5
"""Top-2 gaps below this, times max(1, |top|), are within float32's error of changing order."""


def near_ties(logits: Tensor) -> Tensor:
    """Mask of the samples whose two largest logits are too close for float32 to order.

    Args:
        logits: (..., C), C ≥ 2.

    Returns:
        (...) bool: top − second < 1e-5·max(1, |top|); False if a logit is not finite.

    Source: SCALE ("one argmax in 150,000 flipped, top-2 gap 1e-7").

    >>> near_ties(torch.tensor([[1.0, 1.0 + 1e-6, 0.0], [1.0, 2.0, 0.0]])).tolist()
    [True, False]
    """
    top, second = logits.float().topk(2, dim=-1).values.unbind(-1)
    return (top - second) < NEAR_TIE * top.abs().clamp(min=1.0)


@dataclass
class AccuracyMeter:
    """Streaming accuracy: the share of samples whose largest logit is the label's.

    A sample with a NaN among its logits is wrong: it has no prediction. Exact ties go to the lowest
    class. Near-ties of a float32 network are run again in float64, in a copy made at the first
    near-tie.

    Attributes:
        net: the network in eval mode.
        logits_of: how to run it.
        right: (B,) bool per batch.
        twin: the copy.
    """

    net: EvalNetwork
    logits_of: LogitsFunction
    right: list[Tensor] = field(default_factory=list)
    twin: nn.Module | None = None

    def update(self, x: Inputs, y: Tensor, logits: Tensor) -> None:
        """Count one batch: inputs and labels on the network's device, logits (B, C).

        Labels (B, T) with logits (B, T, C) count one by one, without ignored ones; their near-ties
        are not run again.
        """
        right = is_correct(logits, y)
        if y.dim() == 2:
            right = right[y != IGNORED]
        elif logits.dtype != torch.float64 and not (self.net.as_is and logits.dtype in HALF):
            near = near_ties(logits)
            if bool(near.any()):
                self._decide(right, near, x, y)
        self.right.append(right)

    def _decide(self, right: Tensor, near: Tensor, x: Inputs, y: Tensor) -> None:
        """Classify the samples `near`, (B,) bool, in float64; changes `right` in place."""
        x = select_samples(x, near)
        try:
            if self.twin is None:
                # Apple's MPS has no float64
                place = torch.device("cpu") if self.net.device.type == "mps" else None
                self.twin = copied(self.net.model, place, torch.float64)
            device = next(self.twin.parameters(), first_of(x)).device
            x, labels = move_batch(x, y[near], device, torch.float64)
            decided = is_correct(self.logits_of(self.twin, x), labels)
        except (RuntimeError, FaError):
            # it cannot run in float64: a cast inside
            return
        right[near] = decided.to(right.device)


def is_correct(logits: Tensor, y: Tensor) -> Tensor:
    """Whether each prediction is correct; never for a sample with NaN.

    Args:
        logits: (..., C).
        y: (...).

    Returns:
        (...) bool.
    """
    # max gives the first of equals, and NaN before all others
    largest, predicted = logits.max(dim=-1)
    return (predicted == y) & (largest == largest)
