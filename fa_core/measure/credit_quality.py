"""Credit quality of one batch: Γ, ρ and nudge at every layer, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from fa_core.errors import MeasureError, TapError
from fa_core.measure.alignment import gamma, mean_over, mean_where
from fa_core.measure.batches import placed
from fa_core.measure.borrow import Borrowed, borrow, wide
from fa_core.measure.fused import Pass, fused_pass
from fa_core.measure.norms import sample_norms
from fa_core.measure.per_sample import check_states, choose_flatten, into_state, vectors
from fa_core.measure.perturbation import ce_change, random_units, rho
from fa_core.measure.tails import Tail, tail_of
from fa_core.measure.taps import Taps, resolve_taps

EPSILON = 1e-3
"""Length of ρ's steps; also times ‖h_l‖."""

ETA = 0.01
"""Length of nudge's step; also times ‖h_l‖."""

DIRECTIONS = 32
LARGEST = 2**22
"""Numbers of input per call of the tail: 32 MB in float64, before what the tail makes of them."""

Series = list[float | None]


@dataclass(frozen=True)
class CreditQuality:
    """How good a credit signal is, per layer l = 0..L; None = undefined there.

    Attributes:
        gamma: Γ_l, cosine to the gradient, in [−1, 1].
        rho: ρ_l with steps of ε = 1e-3.
        rho_relative: ρ_l with steps of 1e-3·‖h_l‖.
        nudge: mean change of CE (nats) when h_l moves by −η·a_l/‖a_l‖, η = 0.01; negative is good.
        nudge_relative: the same with η·‖h_l‖, comparable across scales.
        samples: B.
        directions: M per sample.
        missing: what is None for a reason other than a norm or variance of 0.

    Source: PROTOCOL §4.
    """

    gamma: Series
    rho: Series
    rho_relative: Series
    nudge: Series
    nudge_relative: Series
    samples: int
    directions: int
    missing: dict[str, str] = field(default_factory=dict)

    def deep(self, metric: str = "gamma") -> float | None:
        """Mean over l ≥ 1 of a metric, where defined."""
        return mean_over(getattr(self, metric))

    @property
    def gamma_L(self) -> float | None:
        """Γ at the last layer, which BP, State Bridge and Credit Bridge get almost for free."""
        return self.gamma[-1]

    @property
    def nudge_helps(self) -> list[bool | None]:
        """Whether a small step against the credit lowers the loss."""
        return [None if change is None else change < 0 for change in self.nudge_relative]

    def to_dict(self) -> dict[str, Any]:
        """What goes into a report's ``credit``: the series, with any single number named by its aggregation."""
        named = {name: getattr(self, name) for name in _SERIES}
        summary = {"deep_gamma": self.deep(), "deep_rho": self.deep("rho"), "gamma_L": self.gamma_L}
        facts = {
            "samples": self.samples,
            "directions": self.directions,
            "aggregation": "mean over samples; deep = l >= 1",
        }
        return {**named, **summary, **facts, **({"missing": self.missing} if self.missing else {})}


_SERIES = ("gamma", "rho", "rho_relative", "nudge", "nudge_relative")


def credit_quality(
    net: nn.Module,
    credit: Sequence[Tensor | None],
    x: Tensor,
    y: Tensor,
    directions: int = DIRECTIONS,
    seed: int = 0,
    taps: Taps = None,
    largest: int = LARGEST,
) -> CreditQuality:
    """Measure a credit signal against the true gradient and against what the loss really does.

    Per layer, one batched run of the tail from h_l on carries the 2·M random steps of ρ and the two steps
    of nudge for every sample. Everything is float64: in a collapsed network the loss changes by less than
    float32 can hold.

    Args:
        net: the network; it comes back as it was.
        credit: a_0..a_L, each (B, ...) like h_l, any scale; None where the method gives none.
        x: inputs (B, ...).
        y: (B,) class indices.
        directions: M random directions per sample; 0 leaves ρ out.
        seed: of the directions.
        taps: as for `diagnose`.
        largest: numbers of input per call of the tail; lower it where memory is short.

    Raises:
        MeasureError: a credit of another length or shape than the stream.
        TapError: the stream cannot be tapped.

    Source: PROTOCOL §4.
    """
    with borrow(net, "float64") as borrowed:
        x, y = placed((x, y), 0, borrowed)
        done = fused_pass(resolve_taps(borrowed.model, taps), borrowed.model, x, y)
        check_states(done.hidden, done.names, len(y))
        check_credit(credit, done.hidden)
        flatten = choose_flatten(done.hidden, done.gradients[-1])
        signal = [None if a is None else vectors(wide(a).to(x.device), flatten) for a in credit]
        aligned = [gamma(a, vectors(g, flatten)) for a, g in zip(signal, done.gradients, strict=True)]
        tail, why = _tail(borrowed, x, taps)
        moves = _Moves(done, y, flatten, directions, torch.Generator().manual_seed(seed), tail, largest)
        rows = [moves.layer(l, a) for l, a in enumerate(signal)]
    rhos, relative_rhos, nudges, relative_nudges = (list(series) for series in zip(*rows, strict=True))
    missing = {} if why is None else {"rho, nudge": why}
    if all(a is None for a in credit):
        missing = {"gamma, rho, nudge": "the method gives no credit signal"}
    return CreditQuality(aligned, rhos, relative_rhos, nudges, relative_nudges, len(y), directions, missing)


def _tail(net: Borrowed, x: Tensor, taps: Taps) -> tuple[Tail | None, str | None]:
    try:
        return tail_of(net.model, x, taps), None
    except TapError as error:
        return None, str(error)


@dataclass(frozen=True)
class _Moves:
    """A batch whose hidden states are moved to see what the loss does."""

    done: Pass
    y: Tensor
    flatten: str
    directions: int
    generator: torch.Generator
    tail: Tail | None
    largest: int

    def layer(self, l: int, a: Tensor | None) -> tuple[float | None, float | None, float | None, float | None]:
        """(ρ, ρ with relative ε, nudge, nudge with relative η) at layer l; a is (B, D) or None."""
        if a is None or self.tail is None:
            return None, None, None, None
        sizes = sample_norms(vectors(self.done.hidden[l], self.flatten))[:, None]
        length = sample_norms(a)
        pointed = length != 0
        # a step along nothing is no step: the sample is left out of the mean below
        downhill = -ETA * torch.where(pointed[:, None], a / length[:, None], 0.0)
        nudged = self._change(self.tail, l, torch.stack([downhill, downhill * sizes]))
        nudges = [mean_where(change, pointed) for change in nudged]
        rhos = self._rhos(self.tail, l, a, sizes) if self.directions else (None, None)
        return rhos[0], rhos[1], nudges[0], nudges[1]

    def _rhos(self, tail: Tail, l: int, a: Tensor, sizes: Tensor) -> tuple[float | None, float | None]:
        """ρ with both lengths of step, the directions in as few runs of the tail as memory allows."""
        predicted: list[Tensor] = []
        changes: list[Tensor] = []
        left = self.directions
        while left:
            m = min(left, max(1, self.largest // (2 * self.done.hidden[l].numel())))
            v = random_units(m, len(a), a.shape[1], self.generator).to(a.device)
            steps = torch.stack([EPSILON * v, EPSILON * sizes * v])
            predicted.append((steps * a).sum(dim=3))
            changes.append(self._change(tail, l, steps.flatten(0, 1)).reshape(2, m, -1))
            left -= m
        absolute, relative = (
            rho(along, change) for along, change in zip(torch.cat(predicted, 1), torch.cat(changes, 1), strict=True)
        )
        return absolute, relative

    def _change(self, tail: Tail, l: int, steps: Tensor) -> Tensor:
        """CE's change per sample for every step: (M, B, D) → (M, B)."""
        moved = into_state(steps, self.done.hidden[l], self.flatten)
        with torch.no_grad():
            logits = tail(l, moved.flatten(0, 1)).reshape(len(steps), len(self.y), -1)
        return ce_change(self.done.logits, logits, self.y)


def check_credit(credit: Sequence[Tensor | None], hidden: Sequence[Tensor]) -> None:
    """Refuse a credit signal that is not one tensor, or None, per state, of the state's shape.

    Raises:
        MeasureError: says both shapes.
    """
    if len(credit) != len(hidden):
        raise MeasureError(
            f"{len(credit)} credits for {len(hidden)} states", hint="give a_0..a_L, None where there is none"
        )
    for l, (a, h) in enumerate(zip(credit, hidden, strict=True)):
        if a is not None and a.shape != h.shape:
            raise MeasureError(
                f"a_{l} has shape {tuple(a.shape)}, h_{l} has {tuple(h.shape)}",
                hint="a credit signal has its state's shape, batch included",
            )
