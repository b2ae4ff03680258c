"""Credit quality of one batch: Γ, ρ and nudge at every layer, in float64, and the null of Γ."""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from fa_core.errors import MeasureError, TapError, UsageError
from fa_core.judgement.gamma import aggregation
from fa_core.judgement.intervals import t_quantile
from fa_core.measure.batch_input import to_device
from fa_core.measure.flattening import Flattening
from fa_core.measure.hooks import READS, tapped_outputs
from fa_core.measure.isolate import Inputs, answer, borrow, each, first_of, wide
from fa_core.measure.microbatches import true_pass
from fa_core.measure.norms import (
    gamma,
    mean_over,
    mean_where,
    sample_norms,
    share_of_zeros,
    unit_rows,
    vector_norms,
)
from fa_core.measure.patterns import match_modules, split_patterns
from fa_core.measure.taps import Taps, read_logits
from fa_core.measure.tracing import agreeing
from fa_core.methods.base import Method
from fa_core.methods.feedback import RandomFeedback


def ce_change(logits: Tensor, moved: Tensor, y: Tensor) -> Tensor:
    """CE(z + d) − CE(z) per sample, without subtracting two cross entropies.

        Δ = log Σ_c p_c·exp(δ_c),  p = softmax(z),  δ_c = d_c − d_y,
            as log1p Σ_{c≠y} p_c·expm1(δ_c) while |δ| ≤ 1

    so that a change of 1e-25 in a converged network keeps its digits.

    Args:
        logits: z, (B, C) float64.
        moved: z + d, (M, B, C) float64.
        y: (B,) class indices.

    Returns:
        (M, B) in nats.

    >>> z = torch.tensor([[80.0, 0.0]], dtype=torch.float64)
    >>> d = torch.tensor([[[0.0, 0.5]]], dtype=torch.float64)
    >>> f"{ce_change(z, z + d, torch.tensor([0])).item():.4e}"
    '1.1708e-35'
    """
    labels = y[:, None]
    log_p = logits.log_softmax(dim=1)
    d = moved - logits
    delta = d - d.gather(2, labels.expand(len(moved), -1, -1))
    others = torch.ones_like(log_p).scatter_(1, labels, 0.0) * log_p.exp()
    small = torch.log1p((others * delta.expm1()).sum(dim=2))
    large = torch.logsumexp(log_p + delta, dim=2)
    return torch.where(delta.abs().amax(dim=2) <= 1.0, small, large)


def pearson(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Pearson correlation over the first axis, float64.

    Args:
        x: (M, B).
        y: (M, B).

    Returns:
        (r, defined), both (B,): r = Σ x̃ỹ/√(Σx̃²·Σỹ²) with x̃, ỹ centred; not defined where M < 2
        or a variance is 0. A variance of rounding noise counts as 0: centred values below 4 ulp of
        the largest.

    >>> r, defined = pearson(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[2.0], [4.0],
    ...     [6.0]]))
    >>> round(r.item(), 12), defined.item()
    (1.0, True)
    """
    (x, x_varies), (y, y_varies) = _centred(x), _centred(y)
    return (x * y).sum(dim=0), x_varies & y_varies


def _centred(values: Tensor) -> tuple[Tensor, Tensor]:
    """Centred rows scaled to unit length, and where they vary at all."""
    values = values.to(torch.float64)
    largest = values.abs().amax(dim=0)
    centred = values - values.mean(dim=0)
    spread = centred.abs().amax(dim=0)
    varies = ~(spread <= 4 * torch.finfo(torch.float64).eps * largest)
    # scaled before squaring: changes of 1e-200 have a correlation too
    centred = centred / torch.where(varies, spread, 1.0)
    return centred / torch.linalg.vector_norm(centred, dim=0), varies


def rho(predicted: Tensor, change: Tensor) -> float | None:
    """ρ_l: Pearson correlation over M directions per sample, then the mean over samples.

        ρ_l = mean_i corr_m(⟨a_l,i, ε·v_m,i⟩, CE_i(h_l,i + ε·v_m,i) − CE_i(h_l,i))

    Pooling over samples would be another number. With directions v drawn from the whole sphere and
    small steps this is Γ_l again: E⟨a, v⟩⟨g, v⟩ = ⟨a, g⟩/D, so the correlation is cos(a, g), but
    for a sampling error of about (1 − Γ²)/√(M·B). It checks the gradient and is no second piece of
    evidence. At finite steps the loss's curvature adds to the change what no linear credit
    predicts, and ρ of g itself falls below 1.

    Args:
        predicted: ⟨a_l, ε·v⟩, (M, B).
        change: of CE per sample, (M, B).

    Returns:
        In [−1, 1]; None where no sample's variances are both above 0; NaN where a value is not
        finite.

    Source: docs/protocol.md §4.
    """
    return mean_where(*pearson(predicted, change))


def random_units(m: int, batch: int, width: int, generator: torch.Generator) -> Tensor:
    """Random unit vectors, uniform on the sphere: (m, batch, width) float64, drawn on the CPU.

    >>> v = random_units(2, 3, 4, torch.Generator().manual_seed(0))
    >>> v.shape, bool(torch.allclose(v.norm(dim=2), torch.ones(2, 3, dtype=torch.float64)))
    (torch.Size([2, 3, 4]), True)
    """
    drawn = torch.randn(m, batch, width, generator=generator, dtype=torch.float64)
    length: Tensor = torch.linalg.vector_norm(drawn, dim=2, keepdim=True)
    return drawn / length


Tail: TypeAlias = Callable[[int, Tensor], Tensor]
"""``(l, states (M·B, ...)) -> logits (M·B, C)``, the rows in M rounds of the same B samples."""


def tail_of(model: nn.Module, x: Inputs, taps: Taps = None) -> Tail:
    """How to run `model` from h_l on.

    A network with a ``tail(l, h)`` of its own runs only that. With module-name taps the whole
    network runs and the tapped output is replaced on its way, which costs the part before l as
    well.

    Args:
        model: the network.
        x: the batch (B, ...) whose states will be moved.
        taps: as for `diagnose`.

    Raises:
        TapError: the stream is returned by a function, so that nothing can be run from its middle.
    """
    own: Any = getattr(model, "tail", None)
    if taps is None and callable(own):
        tail: Tail = own
        return tail
    read = not callable(taps) and any(p.endswith(READS) for p in split_patterns(taps or ""))
    if taps is None or callable(taps) or read:
        hint = "give it tail(l, h) -> logits, or name its blocks with taps"
        raise TapError(f"{type(model).__name__} cannot be run from a hidden state on", hint=hint)
    names = match_modules(model, taps)

    def replaced(l: int, states: Tensor) -> Tensor:
        layers = count()
        rounds = len(states) // len(first_of(x))
        with tapped_outputs(
            model, names, lambda _, state, beside: states if next(layers) == l else state
        ):
            again = each(x, lambda t: t.repeat(rounds, *(1 for _ in t.shape[1:])))
            logits: Tensor = read_logits(answer(model, again))
        return logits

    return replaced


EPSILON = 1e-3
"""Length of ρ's steps; also times ‖h_l‖."""

FINITE = 0.1
"""The same, times ‖h_l‖, where the loss's curvature shows."""

ETA = 0.01
"""Length of nudge's step; also times ‖h_l‖."""

DIRECTIONS = 32
LARGEST = 2**22
"""Numbers of input per call of the tail: 32 MB in float64, before what the tail makes of them."""

Series = list[float | None]
Signal: TypeAlias = Sequence[Tensor | None]
"""a_0..a_L; None where the method gives no credit."""


@dataclass(frozen=True)
class CreditQuality:
    """How good a credit signal is, per layer l = 0..L; None = undefined there.

    Attributes:
        gamma: Γ_l, cosine to the gradient, in [−1, 1].
        rho: ρ_l with steps of ε = 1e-3.
        rho_relative: ρ_l with steps of 1e-3·‖h_l‖.
        rho_finite: ρ_l with steps of 0.1·‖h_l‖, along the same directions. The two before estimate
            Γ_l (see `rho`).
        nudge: mean change of CE (nats) when h_l moves by −η·a_l/‖a_l‖, η = 0.01; negative is good.
        nudge_relative: the same with η·‖h_l‖, comparable across scales.
        zeros: share of the entries of a_l, over samples, that are exactly 0, in [0, 1]: what the
            credit's own arithmetic lost, or a unit that takes no part.
        samples: B.
        directions: M per sample.
        missing: what is None for a reason other than a norm or variance of 0.
        free: layers whose credit comes free.

    Source: docs/protocol.md §4.
    """

    gamma: Series
    rho: Series
    rho_relative: Series
    nudge: Series
    nudge_relative: Series
    zeros: Series
    samples: int
    directions: int
    missing: dict[str, str] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    pooled: dict[str, float | None] = field(default_factory=dict)
    rho_finite: Series = field(default_factory=list)

    def deep(self, metric: str = "gamma") -> float | None:
        """Mean over l ≥ 1, without the layers whose credit comes free, of a metric where it is
        defined."""
        return mean_over(getattr(self, metric), without=self.free)

    def to_dict(self) -> dict[str, Any]:
        """What goes into a report's ``credit``: the series, with any single number named by its
        aggregation."""
        named = {name: series for name in _SERIES if (series := getattr(self, name))}
        summary = {
            "deep_gamma": self.deep(),
            "deep_rho": self.deep("rho"),
            "gamma_L": self.gamma[-1],
        }
        if self.free:
            summary["deep_gamma_with_free"] = mean_over(self.gamma)
        if self.rho_finite:
            summary["deep_rho_finite"] = self.deep("rho_finite")
        facts = {"samples": self.samples, "directions": self.directions, "free_layers": self.free}
        facts["aggregation"] = aggregation(self.free)
        return {
            **named,
            **summary,
            **self.pooled,
            **facts,
            **({"missing": self.missing} if self.missing else {}),
        }


NEEDS_DIRECTIONS = (
    "rho",
    "rho_relative",
    "rho_finite",
    "deep_rho",
    "deep_rho_finite",
    "directions",
)
"""What cannot be measured without random directions."""

_SERIES = ("gamma", "rho", "rho_relative", "rho_finite", "nudge", "nudge_relative", "zeros")


def credit_quality(
    net: nn.Module,
    credit: Signal,
    x: Inputs,
    y: Tensor,
    directions: int = DIRECTIONS,
    seed: int = 0,
    taps: Taps = None,
) -> CreditQuality:
    """Measure a credit signal against the true gradient and against what the loss really does.

    Per layer, batched runs of the tail from h_l on carry the 3·M random steps of ρ and the two
    steps of nudge for every sample. Everything is float64: in a collapsed network the loss changes
    by less than float32 can hold.

    Args:
        net: the network; it comes back as it was.
        credit: a_0..a_L, each (B, ...) like h_l, any scale; None where the method gives none.
        x: inputs (B, ...).
        y: (B,) class indices.
        directions: M random directions per sample; 0 leaves ρ out.
        seed: of the directions.
        taps: as for `diagnose`.

    Raises:
        MeasureError: a credit of another length or shape than the stream.
        TapError: the stream cannot be tapped.

    Source: docs/protocol.md §4.
    """
    if y.dim() > 1:
        raise MeasureError(
            "ρ and nudge need one label per sample", hint="Γ of labels (B, T) comes with `diagnose`"
        )
    with borrow(net, "float64") as borrowed:
        x, y = to_device((x, y), 0, borrowed)
        done = true_pass(borrowed, taps, x, y)
        check_credit(credit, done.hidden)
        flattening = Flattening.of(done.hidden, done.gradients[-1])
        signal = [None if a is None else flattening.vectors(wide(a).to(x.device)) for a in credit]
        aligned = [
            gamma(a, flattening.vectors(g)) for a, g in zip(signal, done.gradients, strict=True)
        ]
        movable, missing = signal, {}
        try:
            tail = tail_of(borrowed.model, x, taps)
        except TapError as error:
            movable, missing = [None] * len(signal), {"rho, nudge": str(error)}
        draws = torch.Generator().manual_seed(seed)

        def changed(l: int, steps: Tensor) -> Tensor:
            """CE's change per sample for every step of h_l: (M, B, D) → (M, B)."""
            moved = flattening.moved(done.hidden[l], steps).flatten(0, 1)
            with torch.no_grad():
                logits = tail(l, moved).reshape(len(steps), len(y), -1)
            return ce_change(done.logits, logits, y)

        rows: list[tuple[float | None, ...]] = []
        for l, a in enumerate(movable):
            found = a is not None and _moves(
                partial(changed, l), done.hidden[l], flattening, a, directions, draws
            )
            rows.append(found or (None,) * 5)
    rhos, relative_rhos, finite_rhos, nudges, relative_nudges = map(list, zip(*rows, strict=True))
    if all(a is None for a in credit):
        missing = {"gamma, rho, nudge": Method.no_credit}
    zeros = [None if a is None else share_of_zeros(a) for a in signal]
    pooled = pooled_gamma(signal, [flattening.vectors(g) for g in done.gradients])
    measured = (aligned, rhos, relative_rhos, nudges, relative_nudges, zeros)
    return CreditQuality(
        *measured, len(y), directions, missing, pooled=pooled, rho_finite=finite_rhos
    )


def pooled_gamma(credit: Signal, gradients: Sequence[Tensor]) -> dict[str, float | None]:
    """Γ of the hidden layers l ≥ 1 by the two aggregations that per-layer values do not give.

    ``gamma_of_batch_means``: per layer cos(Σ_i a_l,i, Σ_i g_l,i), mean over layers;
    ``gamma_concatenated``: per sample the cosine of its layers' vectors one behind another, mean
    over samples.

    Args:
        credit: a_0..a_L, each (B, D_l); None where there is none.
        gradients: g_0..g_L, likewise.

    Returns:
        Both in [−1, 1], None where undefined (see `gamma`); nothing where no hidden layer has
        credit.

    Source: docs/protocol.md §12.5.

    >>> a, b = torch.tensor([[3.0, 0.0]]), torch.tensor([[4.0, 0.0]])
    >>> pooled_gamma([None, a, b], [a, a, b.flip(1)])
    {'gamma_of_batch_means': 0.5, 'gamma_concatenated': 0.36}
    """
    pairs = [
        (wide(a), wide(g))
        for a, g in list(zip(credit, gradients, strict=True))[1:]
        if a is not None
    ]
    if not pairs:
        return {}
    means = [gamma(a.mean(0, keepdim=True), g.mean(0, keepdim=True)) for a, g in pairs]
    joined = gamma(*(torch.cat(parts, dim=1) for parts in zip(*pairs, strict=True)))
    return {"gamma_of_batch_means": mean_over(means, first=0), "gamma_concatenated": joined}


def own_credit_quality(
    net: nn.Module,
    batch: Any,
    directions: int = DIRECTIONS,
    taps: Taps = None,
    dtype: str | None = None,
) -> CreditQuality:
    """`credit_quality` of what a network's own backward pass gives, in the arithmetic that
    `diagnose` would use.

    Args:
        net: a network with custom Functions or backward hooks; it comes back as it was.
        batch: inputs and labels (B,), as for `diagnose`.
        directions: as for `credit_quality`.
        taps: as for `diagnose`.
        dtype: as for `diagnose`.

    Raises:
        MeasureError: the network's backward pass is not its own, or its gradient is not known.
    """
    with borrow(net, dtype) as own:
        x, y = to_device(batch, 0, own)
        done = true_pass(own, taps, x, y)
    return replace(
        credit_quality(net, done.credit, x, y, directions, taps=taps),
        free=agreeing(done.credit, done.gradients),
    )


def _moves(
    changed: Callable[[Tensor], Tensor],
    hidden: Tensor,
    flattening: Flattening,
    a: Tensor,
    m: int,
    draws: torch.Generator,
) -> tuple[float | None, ...]:
    """(ρ, with relative ε, with finite ε, nudge, nudge with relative η) of one layer: what the loss
    does as h_l moves.

    Args:
        changed: steps (M, B, D) → CE's change (M, B); a run of the tail.
        hidden: h_l.
        flattening: how it becomes vectors.
        a: (B, D).
        m: directions of ρ; they take as few runs as memory allows.
        draws: the directions.
    """
    sizes = sample_norms(flattening.vectors(hidden))[:, None]
    length = sample_norms(a)
    pointed = length != 0
    # a step along nothing is no step: the sample is left out of the mean below
    downhill = -ETA * torch.where(pointed[:, None], a / length[:, None], 0.0)
    nudges = [
        mean_where(change, pointed) for change in changed(torch.stack([downhill, downhill * sizes]))
    ]
    if not m:
        return None, None, None, *nudges
    predicted: list[Tensor] = []
    changes: list[Tensor] = []
    most = max(1, LARGEST // (2 * hidden.numel()))
    for at in range(0, m, most):
        v = random_units(min(most, m - at), len(a), a.shape[1], draws).to(a.device)
        steps = [torch.stack([EPSILON * v, EPSILON * sizes * v]), (FINITE * sizes * v)[None]]
        predicted.append(torch.cat([(some * a).sum(dim=3) for some in steps]))
        changes.append(
            torch.cat(
                [changed(some.flatten(0, 1)).reshape(len(some), len(v), -1) for some in steps]
            )
        )
    return *map(rho, torch.cat(predicted, 1), torch.cat(changes, 1)), *nudges


def check_credit(credit: Signal, hidden: Sequence[Tensor]) -> None:
    """Refuse a credit signal that is not one tensor, or None, per state, of the state's shape.

    Raises:
        MeasureError: says both shapes.
    """
    if len(credit) != len(hidden):
        hint = "give a_0..a_L, None where there is none"
        raise MeasureError(f"{len(credit)} credits for {len(hidden)} states", hint=hint)
    for l, (a, h) in enumerate(zip(credit, hidden, strict=True)):
        if a is not None and a.shape != h.shape:
            hint = "a credit signal has its state's shape, batch included"
            raise MeasureError(
                f"a_{l} has shape {tuple(a.shape)}, h_{l} has {tuple(h.shape)}", hint=hint
            )


NULL_DRAWS = 200
"""Fresh feedbacks of a rule whose credit is linear in each: their spread is known to 5 %."""

SLOW_DRAWS = 20
"""Of any other rule, where a draw costs a backward pass of its own: the spread is known to 16 %."""


@dataclass(frozen=True)
class NullGamma:
    """Γ of one network under freshly drawn feedback.

    Attributes:
        deep: deep Γ (see `CreditQuality.deep`) of every draw where it is defined.
        observed: deep Γ under the training feedback, or None.
        layers: Γ_l averaged over the draws, l = 0..L. Where feedback does not reach (FA's a_L comes
            from the head alone), Γ_l is no null but the rule's own, and the layer is none of the
            deep ones.

    With 5 draws the spread errs by a factor of two; `fa_core.judgement.gamma.within_null` judges by
    their number.

    Source: docs/protocol.md §4 (published: +0.002 ± 0.022 fresh against +0.151 ± 0.025 with the
    training feedback).
    """

    deep: list[float]
    observed: float | None
    layers: list[float | None] = field(default_factory=list)

    @property
    def mean(self) -> float | None:
        """Mean over draws."""
        if self.deep:
            return statistics.fmean(self.deep)
        return None

    @property
    def std(self) -> float | None:
        """Sample standard deviation over draws (n − 1); NaN where a draw is not finite, None for
        fewer than two."""
        if not all(map(math.isfinite, self.deep)):
            return math.nan
        if len(self.deep) > 1:
            return statistics.stdev(self.deep)
        return None

    @property
    def rank(self) -> float | None:
        """The one-sided p-value of the observed deep Γ: (1 + k)/(1 + n), k of n draws reach it.

        The 1 is the observed one itself, so that p is never 0 and is right for every n. None where
        there is nothing to compare, or a value that is not finite compares with nothing.

        Source: Phipson & Smyth, Statistical Applications in Genetics and Molecular Biology 9, 2010.

        >>> NullGamma([0.0, 0.1, -0.1], observed=0.5).rank
        0.25
        """
        if (
            self.observed is None
            or not self.deep
            or not all(map(math.isfinite, [self.observed, *self.deep]))
        ):
            return None
        return (1 + sum(value >= self.observed for value in self.deep)) / (1 + len(self.deep))

    def to_dict(self) -> dict[str, Any]:
        """For a report's ``credit``."""
        summary = {"deep_gamma_mean": self.mean, "deep_gamma_std": self.std, "rank": self.rank}
        return {"draws": len(self.deep), **summary, "gamma": self.layers}


def method_credit_quality(
    net: nn.Module,
    method: Method,
    x: Inputs,
    y: Tensor,
    directions: int = DIRECTIONS,
    seed: int = 0,
) -> CreditQuality:
    """`credit_quality` of the signal that a method trains with: in the network's own arithmetic
    (see `borrow`).

    Args:
        net: a network with its own stream.
        method: as trained, its feedback loaded; left as it is.
        x: inputs (B, ...).
        y: (B,) class indices.
        directions: as for `credit_quality`.
        seed: as for `credit_quality`.
    """
    with _training_batch(net, x, y) as batch:
        credit = copy.deepcopy(method).to(dtype=batch[2].dtype).credit(*batch)
    found = replace(credit_quality(net, credit, x, y, directions, seed), free=_free(method, credit))
    if all(a is None for a in credit):
        found.missing["gamma, rho, nudge"] = getattr(method, "no_credit", Method.no_credit)
    return found


def _free(method: Method, layers: Sequence[object]) -> list[int]:
    """The layers whose credit comes free; a rule that does not say has none."""
    if getattr(method, "free_at_L", False):
        return [len(layers) - 1]
    return []


def method_gamma(net: nn.Module, method: Method, x: Inputs, y: Tensor) -> list[float | None]:
    """Γ_l of a method's own signal on one batch, l = 0..L (see `gamma`): `method_credit_quality`
    without the rest.

    Args:
        net: a network with its own stream.
        method: as it is now.
        x: inputs (B, ...).
        y: (B,) class indices.

    Raises:
        MeasureError: a credit of another length or shape than the stream.

    Source: docs/protocol.md §4.
    """
    with _reference(net, x, y) as gammas:
        return gammas(copy.deepcopy(method))


def null_gamma(
    net: nn.Module, method: Method, x: Inputs, y: Tensor, draws: int | None = None, seed: int = 0
) -> NullGamma:
    """Deep Γ under fresh feedbacks, and the one with the training feedback.

    Args:
        net: a network with its own stream.
        method: as trained.
        x: inputs (B, ...).
        y: (B,) class indices.
        draws: how many feedbacks to draw; None = as many as the rule is quick enough for
            (`usual_draws`). The first of many draws are those of few.
        seed: of the draws.

    Raises:
        UsageError: the method draws no feedback, so that it has no null.

    Source: docs/protocol.md §4.
    """
    if not method.draws_feedback:
        raise UsageError(
            f"{type(method).__name__} draws no feedback", hint="it has no null to compare with"
        )
    with _reference(net, x, y) as gammas:
        own = gammas(copy.deepcopy(method))
        drawn = list(
            gammas.drawn(method, draws or usual_draws(method), torch.Generator().manual_seed(seed))
        )
    observed, *found = (
        mean_over(layers, without=_free(method, layers)) for layers in [own, *drawn]
    )
    deep = [value for value in found if value is not None]
    return NullGamma(
        deep, observed, [mean_over(list(layer), first=0) for layer in zip(*drawn, strict=True)]
    )


FAR = 2.0
"""Feedback works in one orientation where deep Γ is so many times as far from its null as one more
draw would be."""


def oriented(
    net: nn.Module,
    method: Method,
    x: Inputs,
    y: Tensor,
    null: NullGamma,
    foreign: bool = True,
) -> tuple[Method, NullGamma, str]:
    """A rule with its square feedback matrices in the orientation that training used, where the two
    differ enough.

    Saved as `nn.Linear` holds them, they are transposed, and no shape shows it. Transposed feedback
    is a fresh
    draw: its deep Γ lies within the null. The one that lies far outside is taken where the other
        lies within.

    Args:
        net: a network with its own stream.
        method: as saved.
        x: inputs (B, ...).
        y: (B,) class indices.
        null: of the method as saved.
        foreign: whether another program may have saved it; else only a clear case is spoken of.

    Returns:
        (the rule, its null, what a report has to say): "" where the matrices as saved are the right
        ones, or none is square.

    Source: docs/protocol.md §4.
    """
    if _is_linear(method) and isinstance(method, RandomFeedback):
        twin = method.turned()
    else:
        twin = None
    mean, std, observed = null.mean, null.std, null.observed
    if twin is None or mean is None or observed is None or not std:
        return method, null, ""
    gammas = method_gamma(net, twin, x, y)
    transposed = mean_over(gammas, without=_free(twin, gammas))
    if transposed is None or not all(map(math.isfinite, (observed, transposed, mean, std))):
        return method, null, ""
    draws = len(null.deep)
    reach = t_quantile(draws - 1) * math.sqrt(1 + 1 / draws) * std
    saved_at, turned_at = abs(observed - mean) / reach, abs(transposed - mean) / reach
    both = f"deep Γ {observed:+.3f} as saved, {transposed:+.3f} transposed"
    if turned_at > FAR and saved_at <= 1:
        said = f"square feedback matrices are taken transposed: {both}"
        return twin, replace(null, observed=transposed), said
    if not foreign or (saved_at > FAR and turned_at <= 1):
        return method, null, ""
    said = f"square feedback matrices may have been saved transposed: {both}"
    return method, null, said


DRAWN_AT_ONCE = 2**20
"""Numbers of feedback and credit per batched product: 8 MB in float64, which is quickest."""

DRAWN_AT_MOST = 2**28
"""Numbers drawn for one null: a few seconds. FA's 200 draws take them at d = 580 and L = 4."""


def usual_draws(method: Method) -> int:
    """How many fresh feedbacks the null of a rule is of: from `SLOW_DRAWS` to `NULL_DRAWS`."""
    if not _is_linear(method):
        return SLOW_DRAWS
    numbers = sum(B.numel() for B in method.buffers())
    return max(SLOW_DRAWS, min(NULL_DRAWS, DRAWN_AT_MOST // max(numbers, 1)))


def _is_linear(method: Method) -> bool:
    # a user's rule need not be a `Method`
    return getattr(method, "linear_feedback", False)


class _Credit(nn.Module):
    """A rule as a module that answers with its credit, as vectors: many feedbacks can be put into
    it at once."""

    def __init__(self, rule: Method, flattening: Flattening) -> None:
        super().__init__()
        self.rule, self._flattening = rule, flattening

    def forward(self, *batch: Any) -> list[Tensor | None]:
        return [
            None if a is None else self._flattening.vectors(a) for a in self.rule.credit(*batch)
        ]


@dataclass(frozen=True)
class _Gammas:
    """Γ_l of what rules train with, against one batch's float64 gradients.

    Attributes:
        batch: what a rule is asked with, in the network's arithmetic: network, stream, logits,
            labels.
        hidden: h_0..h_L.
        gradients: g_0..g_L as float64 vectors.
        flattening: how states become those.
    """

    batch: tuple[Any, list[Tensor], Tensor, Tensor]
    hidden: list[Tensor]
    gradients: list[Tensor]
    flattening: Flattening

    def __call__(self, rule: Method) -> Series:
        """Of one rule, which is brought to the network's arithmetic in place."""
        credit = rule.to(dtype=self.batch[2].dtype).credit(*self.batch)
        check_credit(credit, self.hidden)
        vectors = (None if a is None else self.flattening.vectors(wide(a)) for a in credit)
        return [gamma(a, g) for a, g in zip(vectors, self.gradients, strict=True)]

    def drawn(self, method: Method, draws: int, generator: torch.Generator) -> Iterator[Series]:
        """Of a rule with fresh feedback, `draws` times."""
        if not _is_linear(method):
            yield from (self(method.fresh(generator)) for _ in range(draws))
            return
        twin = _Credit(copy.deepcopy(method).to(dtype=self.batch[2].dtype), self.flattening)
        numbers = sum(map(torch.numel, (*self.gradients, *twin.buffers())))
        most = max(1, DRAWN_AT_ONCE // numbers)
        for at in range(0, draws, most):
            yield from self._together(twin, min(most, draws - at), generator)

    def _together(self, twin: _Credit, draws: int, generator: torch.Generator) -> Iterator[Series]:
        """Of some draws of a rule with credit at every layer, by one batched product per layer."""
        fresh: list[dict[str, Tensor]] = []
        for _ in range(draws):
            twin.rule.redraw(generator)
            fresh.append({name: B.clone() for name, B in twin.named_buffers()})
        feedbacks = {name: torch.stack([one[name] for one in fresh]) for name in fresh[0]}
        credit = torch.vmap(lambda one: torch.func.functional_call(twin, one, self.batch))(
            feedbacks
        )
        yield from (
            list(row) for row in zip(*map(gammas_of_draws, credit, self.gradients), strict=True)
        )


def gammas_of_draws(credit: Tensor, gradient: Tensor) -> Series:
    """Γ_l (see `gamma`) of R credits on the same samples.

    Args:
        credit: (R, B, D).
        gradient: (B, D), at any scale.

    Returns:
        R of them: None where no sample has two norms above 0, NaN where a value is not finite.

    Source: docs/protocol.md §4.

    >>> gammas_of_draws(torch.tensor([[[3.0, 4.0]], [[0.0, 0.0]]]), torch.tensor([[0.0, 2.0]]))
    [0.8, None]
    """
    credit = wide(credit)
    lengths = vector_norms(credit)
    defined = (lengths != 0) & (sample_norms(gradient) != 0)
    cosines = (credit * unit_rows(gradient)).sum(dim=2) / lengths
    means = torch.where(defined, cosines, 0.0).sum(dim=1) / defined.sum(dim=1)
    return [
        mean if any_defined else None
        for mean, any_defined in zip(means.tolist(), defined.any(1).tolist(), strict=True)
    ]


@contextmanager
def _reference(net: nn.Module, x: Inputs, y: Tensor) -> Iterator[_Gammas]:
    """Γ_l of what rules train with, against one batch's float64 gradients."""
    with borrow(net, "float64") as borrowed, _training_batch(net, x, y) as batch:
        done = true_pass(borrowed, None, *to_device((x, y), 0, borrowed))
        flattening = Flattening.of(done.hidden, done.gradients[-1])
        yield _Gammas(
            batch, done.hidden, [flattening.vectors(g) for g in done.gradients], flattening
        )


@contextmanager
def _training_batch(
    net: nn.Module, x: Inputs, y: Tensor
) -> Iterator[tuple[Any, list[Tensor], Tensor, Tensor]]:
    """What rules are asked with in training: network, stream, logits and labels, in the network's
    arithmetic."""
    with borrow(net) as own:
        x, y = to_device((x, y), 0, own)
        network: Any = own.model
        with torch.no_grad():
            logits, stream = network(x, return_hidden=True)
        yield network, list(stream), logits, y
