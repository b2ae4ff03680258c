"""One vector per sample or token of a state; their norms, medians, cosines and Γ; (a)'s interval.

In float64 without an eps, exact from 1e-300 to 1e300.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias, TypeVar

import torch
from torch import Tensor

from fa_core.errors import TapError
from fa_core.measure.isolate import to_float64
from fa_core.report.diagnostics import NORM_RATIO_EPS, block_growths
from fa_core.report.intervals import FEWEST, TAIL
from fa_core.report.provenance import Interval

_SMALLEST_EXACT, _LARGEST_EXACT = 1e-140, 1e140
"""Outside this range, squares in a float64 norm may have under- or overflowed."""


AS_IS = "as is"
FLATTENED = "flattened"
CLS_TOKEN = "cls token"
LAST_TOKEN = "last token"
READ_TOKEN = "read token"
PER_TOKEN = "per token"

DRAWS = 1000
"""Minimum draws of an interval."""

DRAWS_PER_BLOCK = 100
"""Draws per block, so that 2 of them lie beyond each end of an interval."""

MOST_DRAWS = 2000
"""Maximum draws of an interval; from 80 blocks on none lies beyond an end."""

_DRAWN_UP_TO = 200
"""Maximum samples that are drawn one by one."""

_Made = TypeVar("_Made")
Signal: TypeAlias = Sequence[Tensor | None]
"""a_0..a_L; None for a layer without credit."""


def each(change: Callable[[Tensor], _Made], signal: Signal) -> list[_Made | None]:
    """What a function makes of every layer's credit."""
    return [None if a is None else change(a) for a in signal]


@dataclass(frozen=True)
class Flattening:
    """How states become one vector per sample.

    Attributes:
        way: ``"as is"``, ``"flattened"``, ``"cls token"``, ``"last token"``, ``"read token"`` or
            ``"per token"``.
        tokens: (B,), the token of every sample that the head reads; for ``"per token"`` (B, T)
            bool, the labels that are not ignored; None if the whole state is the vector.
    """

    way: str
    tokens: Tensor | None = None

    @classmethod
    def of(
        cls, hidden: Sequence[Tensor], at_head: Tensor, label_mask: Tensor | None = None
    ) -> Flattening:
        """Flattening of one network's states.

        (B, d) is taken as is and (B, C, H, W) flattened. A token stream (B, T, d) is read at one
        token per sample if the head reads only that one: ∂CE/∂h_L is then exactly zero at every
        other token, or h_L is that token. ``"cls token"`` is the first of every sample, ``"last
        token"`` the last, ``"read token"`` any other (e.g. the last before padding). Otherwise,
        also if that gradient is zero everywhere, the stream is flattened.

        Args:
            hidden: h_0..h_L, each (B, ...).
            at_head: the gradient at h_L, or where h_L is a token, what marks it.
            label_mask: (B, T) bool, the labels (B, T) that count: one vector for each.

        Raises:
            TapError: one token is read, and the number of tokens changes between states.

        Source: docs/protocol.md §2.
        """
        if label_mask is not None:
            return cls(PER_TOKEN, label_mask)
        if all(h.dim() == 2 for h in hidden):
            return cls(AS_IS)
        whole = [*takewhile(lambda h: positions(h) > 1, hidden), at_head]
        read = (at_head != 0).any(dim=-1).sum(dim=-1).amax()
        if len(whole) == 1 or any(h.dim() != 3 for h in whole) or read != 1:
            return cls(FLATTENED)
        counts = [h.shape[1] for h in whole]
        if len({*counts}) > 1:
            raise TapError(
                f"the states have {counts} tokens, of which the head reads one",
                hint="tap states that hold the same tokens, or give a function that returns that "
                "token's states (B, d)",
            )
        tokens = read_tokens(at_head)
        lowest, highest = tokens.aminmax()
        if highest == 0:
            return cls(CLS_TOKEN, tokens)
        return cls(LAST_TOKEN if lowest == at_head.shape[1] - 1 else READ_TOKEN, tokens)

    @property
    def reads_token(self) -> bool:
        """Whether the vectors are those of one token per sample."""
        return self.tokens is not None and self.way != PER_TOKEN

    def of_batch(self, at_head: Tensor, label_mask: Tensor | None) -> Flattening:
        """The same way for another batch."""
        return Flattening(self.way, read_tokens(at_head) if self.reads_token else label_mask)

    def vectors(self, state: Tensor) -> Tensor:
        """`state`, (B, ...), as one vector per sample.

        Returns:
            (B, D); for ``"per token"`` (n, d), of the n labels not ignored.

        >>> Flattening(LAST_TOKEN, torch.tensor([4, 4])).vectors(torch.zeros(2, 5, 3)).shape
        torch.Size([2, 3])
        """
        if self.tokens is not None and self.way == PER_TOKEN:
            return by_position(state)[self.tokens]
        if self.tokens is None or positions(state) == 1:
            return state.flatten(1)
        return torch.take_along_dim(state, self.tokens[:, None, None], dim=1).squeeze(1)

    def moved(self, state: Tensor, steps: Tensor) -> Tensor:
        """The state plus each of M steps, which are given as vectors (see `vectors`).

        Args:
            state: (B, ...).
            steps: (M, B, D).

        Returns:
            (M, B, ...).

        >>> flattening = Flattening(READ_TOKEN, torch.tensor([0, 1]))
        >>> moved = flattening.moved(torch.zeros(2, 5, 3), torch.ones(4, 2, 3))
        >>> moved.sum(dim=(1, 3))[0].tolist()
        [3.0, 3.0, 0.0, 0.0, 0.0]
        """
        if self.tokens is None or positions(state) == 1:
            return state + steps.reshape(len(steps), *state.shape)
        moved = state.expand(len(steps), *state.shape).clone()
        samples = torch.arange(len(state), device=state.device)
        moved[:, samples, self.tokens] += steps
        return moved


def read_tokens(g_L: Tensor) -> Tensor:
    """The first token of every sample with a nonzero gradient.

    For a sample without one (a loss of exactly 0): the lower median of the other samples' tokens.

    Args:
        g_L: (B, T, d).

    Returns:
        (B,) int64.

    >>> g = torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 2.0]])
    >>> read_tokens(g[..., None]).tolist()
    [1, 1, 1]
    """
    nonzero = (g_L != 0).any(dim=-1)
    unknown = ~nonzero.any(dim=-1)
    tokens = nonzero.int().argmax(dim=-1)
    known = torch.where(unknown, torch.nan, tokens.float())
    median = known.nanmedian(dim=-1, keepdim=True).values
    return torch.where(unknown, median.nan_to_num().long(), tokens)


def check_states(hidden: Sequence[Tensor], names: Sequence[str], batch_size: int) -> None:
    """Refuse states whose first axis is not the batch.

    Raises:
        TapError: names the tap and its shape.
    """
    for name, h in zip(names, hidden, strict=True):
        if h.dim() < 2 or h.shape[0] != batch_size:
            raise wrong_axis(name, h, batch_size)


def wrong_axis(name: str, h: Tensor, batch_size: int) -> TapError:
    """The error for a state whose first axis is not the batch."""
    return TapError(
        f"tap {name} has shape {tuple(h.shape)} for a batch of {batch_size}",
        hint="a hidden state is (B, d), (B, T, d) or (B, C, H, W); where the batch is a later "
        "axis, give a function (model, x) -> (logits, states) that moves it to the front, "
        "e.g. h.transpose(0, 1); where axis 0 is samples times frames, one of h.view(B, T, -1), "
        "where it is members times samples, h.view(M, B, -1).transpose(0, 1)",
    )


def by_position(values: Tensor) -> Tensor:
    """Images as tokens: (B, d, H, W) as (B, H·W, d); any other shape as it is.

    >>> by_position(torch.zeros(2, 3, 4, 5)).shape, by_position(torch.zeros(2, 4, 3)).shape
    (torch.Size([2, 20, 3]), torch.Size([2, 4, 3]))
    """
    if values.dim() == 4:
        return values.flatten(2).transpose(1, 2)
    return values


def positions(values: Tensor) -> int:
    """Number of tokens or pixels of a sample.

    >>> positions(torch.zeros(2, 3, 4, 5)), positions(torch.zeros(2, 3))
    (20, 1)
    """
    return by_position(values).shape[1:-1].numel()


def check_tokens(hidden: Sequence[Tensor], names: Sequence[str], label_mask: Tensor) -> None:
    """Refuse states without one vector per label.

    Raises:
        TapError: names the tap and its shape.
    """
    for name, h in zip(names, hidden, strict=True):
        if h.dim() not in (3, 4) or by_position(h).shape[:2] != label_mask.shape:
            raise TapError(
                f"tap {name} has shape {tuple(h.shape)} for labels {tuple(label_mask.shape)}",
                hint="labels (B, T) need states (B, T, d), labels (B, H, W) states (B, d, H, W): "
                "tap the blocks that give one vector per token or pixel; where none does, give "
                "labels and logits of the states' size",
            )


def sample_norms(x: Tensor) -> Tensor:
    """‖x_i‖₂ of every sample, see `vector_norms`.

    Args:
        x: (B, ...), any floating dtype.

    Returns:
        (B,) float64.

    >>> sample_norms(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]])).tolist()
    [5.000000015855384e-30, 0.0]
    """
    return vector_norms(x.detach().reshape(len(x), -1))


def vector_norms(x: Tensor) -> Tensor:
    """‖x_i‖₂ of every vector: √Σ_j x_ij², in float64.

    Args:
        x: (..., D), any floating dtype, outside any graph.

    Returns:
        (...) float64. Every float32 value, from the smallest subnormal (1.4e-45) to the largest
        (3.4e38), has a float64 square; float64 inputs are scaled first if their squares would
        under- or overflow. NaN for a vector with NaN, else inf for one with ±inf.

    Source: docs/protocol.md §3 ("norms accumulated in float64, no eps clamp anywhere").
    """
    if x.device.type == "mps" or x.dtype == torch.float64:
        return _scaled_norms(to_float64(x))
    # converts value by value: a float64 copy of all values would double the time
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1, dtype=torch.float64)
    return norms


def _scaled_norms(x: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1)
    exact = (norms > _SMALLEST_EXACT) & (norms < _LARGEST_EXACT)
    # on a GPU, the wait for this answer costs more than the second norm
    if x.is_cpu and bool(exact.all()):
        return norms
    largest = x.abs().amax(dim=-1)
    ordinary = (largest > 0) & torch.isfinite(largest)
    scale = torch.where(ordinary, largest, 1.0)
    scaled = scale * torch.linalg.vector_norm(x / scale[..., None], dim=-1)
    inexact = torch.where(ordinary, scaled, largest)
    return torch.where(exact, norms, inexact)


def lower_median(x: Tensor) -> Tensor:
    """The median as PyTorch defines it: the lower middle of an even count; NaN if any value is NaN.

    Args:
        x: (..., n), n ≥ 1.

    Returns:
        (...), the median over the last axis.

    Source: docs/protocol.md §3 ("Median = PyTorch's, everywhere").

    >>> lower_median(torch.tensor([4.0, 1.0, 3.0, 2.0])).item()
    2.0
    """
    return x.median(dim=-1).values


def unit_rows(x: Tensor) -> Tensor:
    """x_i/‖x_i‖₂ of every sample in float64; NaN if the norm is 0 or not finite.

    Args:
        x: (B, ...).

    Returns:
        (B, D) float64.

    >>> unit_rows(torch.tensor([[0.0, 2e-40], [0.0, 0.0]])).tolist()
    [[0.0, 1.0], [nan, nan]]
    """
    rows = to_float64(x).reshape(len(x), -1)
    # division by the largest entry first: a subnormal norm would lose digits
    rows = rows / rows.abs().amax(dim=1, keepdim=True)
    length: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / length


def sample_cosines(a: Tensor, b: Tensor) -> Tensor:
    """cos(a_i, b_i) = ⟨a_i, b_i⟩/(‖a_i‖‖b_i‖) of every sample, float64, no clamp.

    Args:
        a: (B, ...).
        b: the same shape.

    Returns:
        (B,) float64; NaN if a norm is 0 or a value is not finite.

    Source: docs/protocol.md §4.

    >>> sample_cosines(torch.tensor([[1e-30, 0.0]]), torch.tensor([[1e-30, 1e-30]])).item()
    0.7071067811865475
    """
    return (unit_rows(a) * unit_rows(b)).sum(dim=1)


def medians_of_samples(values: Tensor, label_mask: Tensor) -> Tensor:
    """The lower median over every sample's tokens whose labels are not ignored.

    Args:
        values: (..., n), one per such token, sample by sample.
        label_mask: (B, T) bool, True for n tokens.

    Returns:
        (..., B'), for the B' samples with such tokens; NaN for a sample with a NaN.

    >>> label_mask = torch.tensor([[True, True], [False, False], [False, True]])
    >>> medians_of_samples(torch.tensor([3.0, 1.0, 2.0]), label_mask)
    tensor([1., 2.])
    """
    label_mask = label_mask[label_mask.any(dim=1)]
    table = values.new_full((*values.shape[:-1], *label_mask.shape), torch.nan)
    table[..., label_mask] = values
    broken = (table.isnan() & label_mask).any(dim=-1)
    return torch.where(broken, torch.nan, table.nanmedian(dim=-1).values)


def gamma(credit: Tensor | None, gradient: Tensor) -> float | None:
    """Γ_l = (1/n)·Σ_i cos(a_l,i, g_l,i) over the n samples with a defined cosine; no clamp.

    Args:
        credit: a_l, (B, ...); None for a layer without credit.
        gradient: g_l, the same shape, at any scale (the 1/B does not change a cosine).

    Returns:
        In [−1, 1]; None, never 0 or 1, without credit or if every sample has a norm of 0; NaN if a
        value is not finite.

    Source: docs/protocol.md §4.

    >>> import torch
    >>> gamma(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[1e-30, 1e-30], [1.0, 1.0]]))
    0.7071067811865475
    >>> gamma(None, torch.ones(1, 2)) is None
    True
    """
    if credit is None:
        return None
    defined = (sample_norms(credit) != 0) & (sample_norms(gradient) != 0)
    return mean_where(sample_cosines(credit, gradient), defined)


def share_of_zeros(x: Tensor) -> float:
    """The share of entries that are exactly 0."""
    return float((x == 0).to(torch.float64).mean())


def mean_where(values: Tensor, defined: Tensor) -> float | None:
    """Mean of the defined values; None if there are none.

    Args:
        values: (B,).
        defined: (B,) bool.

    >>> import torch
    >>> mean_where(torch.tensor([1.0, 5.0]), torch.tensor([True, False]))
    1.0
    """
    if not bool(defined.any()):
        return None
    return float(values[defined].mean())


def mean_over(
    values: Sequence[float | None], first: int = 1, without: Container[int] = ()
) -> float | None:
    """Mean over the layers l ≥ `first` with a defined value; None if there are none.

    Args:
        values: layer by layer.
        first: the first layer; 1 = the deep mean, without the embedding.
        without: layers to leave out, because their credit comes free.

    Source: docs/protocol.md §4 ("deep Γ = mean over l ≥ 1").

    >>> mean_over([0.9, 0.25, None, 0.75])
    0.5
    """
    kept = []
    for l, value in enumerate(values):
        if l >= first and l not in without and value is not None:
            kept.append(value)
    if not kept:
        return None
    return sum(kept) / len(kept)


def mean_pairwise_cosine(directions: Tensor) -> Tensor:
    """Mean cosine over the K(K−1)/2 pairs of rows.

    Args:
        directions: (K, D) unit rows, K ≥ 2.

    Returns:
        A scalar in [−1, 1], float64; NaN if any entry is. With s = Σ_k u_k the sum over pairs is
        (‖s‖² − Σ_k ‖u_k‖²)/2, so no K×K matrix is needed.

    Source: docs/protocol.md §3 (c).

    >>> mean_pairwise_cosine(torch.eye(3, dtype=torch.float64)).item()
    0.0
    """
    k = len(directions)
    square_of_sum = directions.sum(dim=0).square().sum()
    sum_of_squares = directions.square().sum()
    return (square_of_sum - sum_of_squares) / (k * (k - 1))


def mean_error_part(means: Tensor, of_mean_errors: Tensor) -> Tensor:
    """The part of (c) that the batches' mean errors make.

    The gradient is linear in the error: ḡ_k = v_k + r_k, v_k the gradient that the mean error ē_k
    of batch k would give in each of its samples. With u_k = ḡ_k/‖ḡ_k‖, over the pairs j ≠ k,

        c = mean ⟨u_j, u_k⟩ = mean ⟨v_j, u_k⟩/‖ḡ_j‖ + mean ⟨r_j, u_k⟩/‖ḡ_j‖

    and the first term is returned. Sampling noise of ē_k is independent between batches and cancels
    in the mean.

    Args:
        means: (K, D) float64, B·ḡ_k.
        of_mean_errors: (S, D) float64, B·v_j of the first S batches: the pairs are those with j
            among them.

    Returns:
        A float64 scalar, a part of a cosine; NaN where a norm is 0 or a value is not finite.

    Source: docs/protocol.md, *What (c) measures*.
    """
    first, k = len(of_mean_errors), len(means)
    largest = means.abs().amax(dim=-1, keepdim=True)
    lengths = largest * torch.linalg.vector_norm(means / largest, dim=-1, keepdim=True)
    directions = means / lengths
    parts = of_mean_errors / lengths[:first]
    of_sums = (parts.sum(dim=0) * directions.sum(dim=0)).sum()
    of_same = (parts * directions[:first]).sum()
    mean: Tensor = (of_sums - of_same) / (first * (k - 1))
    return mean


def agree(one: Tensor, other: Tensor, ulps: int = 16) -> bool:
    """Whether values agree up to rounding; what is not finite is not compared."""
    if one.shape != other.shape:
        return False
    if torch.equal(one, other):
        return True
    rounding = ulps * torch.finfo(one.dtype).eps
    one = one.detach().nan_to_num(0.0, 0.0, 0.0)
    other = other.detach().nan_to_num(0.0, 0.0, 0.0)
    largest = float(one.abs().max())
    return torch.allclose(one, other, rtol=rounding, atol=rounding * largest)


def length(tensors: Sequence[Tensor]) -> float:
    """The norm of all entries together, as `vector_norms`."""
    lengths = [vector_norms(tensor.detach().flatten()) for tensor in tensors]
    return float(vector_norms(torch.stack(lengths))) if lengths else 0.0


def same(a: Tensor, b: Tensor, tolerance: float, floor: float = 0.0) -> bool:
    """Whether ‖a − b‖ ≤ tolerance·max(‖a‖, ‖b‖) + floor, over all entries; never for NaN.

    >>> same(torch.ones(2), torch.ones(2) + 1e-6, 1e-4), same(torch.ones(2), -torch.ones(2), 1e-4)
    (True, False)
    """
    a, b = to_float64(a), to_float64(b)
    return length([a - b]) <= tolerance * max(length([a]), length([b])) + floor


def summed_gradients(gradient: Tensor) -> Tensor:
    """B·ḡ = Σ_i g_i in float64; (c) uses only the direction of ḡ.

    Args:
        gradient: per sample, (B, D).

    Returns:
        (D,).
    """
    if gradient.device.type == "mps":
        gradient = gradient.cpu()
    return gradient.sum(dim=0, dtype=torch.float64)


def growth_interval(residual_norms: Tensor) -> Interval | None:
    """(a): of growth = max_l q_l, q_l = m_{l+1}/m_l, the m_l medians over the same samples.

        [max_l low_l, max_l high_l]

    low_l and high_l are the percentiles of q_l over samples drawn with replacement, the same at
    both layers, at 95 % for all blocks together (Bonferroni). No distribution of the norms is
    assumed: medians beside a gap, or of heavy tails, are drawn as they are.

    Args:
        residual_norms: (L+1, n) ‖h_l,i‖.

    Returns:
        Ratios, which hold the growth; the high end is at most the largest float. Blocks next to a
        dead layer are left out. None for fewer than `FEWEST` samples, where a median is not
        finite, and where no block has a defined growth.

    Source: Efron & Tibshirani, An Introduction to the Bootstrap, 1993, §13.3; not of the maximum
    itself, whose bootstrap is biased where blocks grow alike. Coverage: docs/protocol/intervals.md.
    """
    medians = lower_median(residual_norms)
    growths = block_growths(medians.tolist())
    defined = [block for block, growth in enumerate(growths) if not math.isnan(growth)]
    if residual_norms.shape[1] < FEWEST or not defined or not medians.isfinite().all():
        return None
    draws = min(max(DRAWS, DRAWS_PER_BLOCK * len(defined)), MOST_DRAWS)
    medians = resampled_medians(residual_norms, draws)
    dead = medians < NORM_RATIO_EPS
    ratios = (medians[:, 1:] / medians[:, :-1])[:, defined]
    undefined = (dead[:, 1:] | dead[:, :-1])[:, defined] | ratios.isnan()
    beyond = int(draws * TAIL / len(defined))
    # a draw without a defined growth is on the far side of both ends
    lows = ratios.masked_fill(undefined, 0.0).sort(dim=0).values[beyond]
    highs = ratios.masked_fill(undefined, math.inf).sort(dim=0).values[draws - 1 - beyond]
    growth = max(map(growths.__getitem__, defined))
    high = min(highs.max().item(), sys.float_info.max)
    return min(lows.max().item(), growth), max(high, growth)


def resampled_medians(residual_norms: Tensor, draws: int) -> Tensor:
    """Medians over samples drawn with replacement, the same samples at every layer.

    Of more than `_DRAWN_UP_TO` samples, the places of the medians are drawn by their limiting law.

    Args:
        residual_norms: (L+1, n) ‖h_l,i‖, without NaN.
        draws: R.

    Returns:
        (R, L+1), so that ratios of neighbours are paired.
    """
    ordered, order = residual_norms.cpu().sort(dim=-1)
    generator = torch.Generator().manual_seed(0)
    law = _drawn_places if ordered.shape[1] <= _DRAWN_UP_TO else _normal_places
    return ordered.gather(1, law(order, draws, generator)).T


def _drawn_places(order: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    """(L+1, R) places of the medians of drawn samples among all samples in order.

    Args:
        order: (L+1, n) the samples by rising norm.
    """
    n = order.shape[1]
    drawn = torch.randint(n, (draws, n), generator=generator)
    counts = torch.zeros(draws, n).scatter_add_(1, drawn, torch.ones(1).expand(draws, n))
    counts = counts.T.contiguous()
    middle, places = (n + 1) // 2, []
    for samples in order:
        # how often a sample or one before it was drawn
        places.append((counts[samples].cumsum(0) < middle).sum(0))
    return torch.stack(places)


def _normal_places(order: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    """The same for n → ∞: how many of the samples up to the median are drawn is normal, with the
    covariance of being up to the median at two layers."""
    n = order.shape[1]
    middle = (n + 1) // 2
    lower = torch.zeros(order.shape, dtype=torch.float64).scatter_(1, order[:, :middle], 1.0)
    lower -= middle / n
    values, vectors = torch.linalg.eigh(lower @ lower.T)
    root = vectors * values.clamp(min=0).sqrt()
    shape = (len(order), draws)
    extra: Tensor = root @ torch.randn(shape, dtype=torch.float64, generator=generator)
    places: Tensor = (middle - 1 - extra).round().clamp(0, n - 1).long()
    return places
