"""Norms, medians, cosines and Γ that lose nothing (float64, no eps, from 1e-300 to 1e300), of one vector per sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fa_core.errors import TapError
from fa_core.measure.isolate import wide

_SQUARABLE = (1e-140, 1e140)
"""float64 norms outside this range may have lost a square to under- or overflow."""


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
        (...) float64. A float32 value from its smallest subnormal (1.4e-45) to its largest (3.4e38) has a
        float64 square, so nothing is lost; float64 inputs whose squares would be are scaled first.
        NaN where a vector holds NaN, else inf where it holds ±inf.

    Source: docs/protocol.md §3 ("norms accumulated in float64, no eps clamp anywhere").
    """
    if x.device.type == "mps" or x.dtype == torch.float64:
        return _scaled_norms(wide(x))
    # converted value by value: a copy of all of them in float64 takes as long again
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1, dtype=torch.float64)
    return norms


def _scaled_norms(x: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1)
    exact = (norms > _SQUARABLE[0]) & (norms < _SQUARABLE[1])
    # asking a GPU would wait for it, which costs more than the second norm
    if x.is_cpu and bool(exact.all()):
        return norms
    largest = x.abs().amax(dim=-1) if x.shape[-1] else norms
    ordinary = (largest > 0) & torch.isfinite(largest)
    scale = torch.where(ordinary, largest, 1.0)
    scaled = scale * torch.linalg.vector_norm(x / scale[..., None], dim=-1)
    return torch.where(exact, norms, torch.where(ordinary, scaled, largest))


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
    """x_i/‖x_i‖₂ of every sample in float64; NaN where the norm is 0 or not finite.

    Args:
        x: (B, ...).

    Returns:
        (B, D) float64.

    >>> unit_rows(torch.tensor([[0.0, 2e-40], [0.0, 0.0]])).tolist()
    [[0.0, 1.0], [nan, nan]]
    """
    rows = wide(x).reshape(len(x), -1)
    # dividing by the largest entry first keeps a subnormal norm from costing digits
    largest = rows.abs().amax(dim=1, keepdim=True)
    rows = rows / largest
    length: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / length


def sample_cosines(a: Tensor, b: Tensor) -> Tensor:
    """cos(a_i, b_i) = ⟨a_i, b_i⟩/(‖a_i‖‖b_i‖) of every sample, float64, no clamp.

    Args:
        a: (B, ...).
        b: the same shape.

    Returns:
        (B,) float64; NaN where a norm is 0 or a value is not finite.

    Source: docs/protocol.md §4.

    >>> sample_cosines(torch.tensor([[1e-30, 0.0]]), torch.tensor([[1e-30, 1e-30]])).item()
    0.7071067811865475
    """
    return (unit_rows(a) * unit_rows(b)).sum(dim=1)


AS_IS = "as is"
FLATTENED = "flattened"
CLS_TOKEN = "cls token"
LAST_TOKEN = "last token"
READ_TOKEN = "read token"
PER_TOKEN = "per token"


@dataclass(frozen=True)
class Reading:
    """How states become one vector per sample.

    Attributes:
        way: ``"as is"``, ``"flattened"``, ``"cls token"``, ``"last token"``, ``"read token"`` or ``"per token"``.
        tokens: (..., B), which token the head reads of every sample; None where the whole state is the vector;
            (B, T) bool, which labels count, where every token is a vector.
    """

    way: str
    tokens: Tensor | None = None

    @classmethod
    def of(cls, hidden: Sequence[Tensor], g_L: Tensor) -> Reading:
        """How this network's states become vectors.

        (B, d) is taken as is and (B, C, H, W) flattened. A token stream (B, T, d) is read at one token per
        sample where the head reads only that one, which shows in ∂CE/∂h_L: it is exactly zero at every other
        token. ``"cls token"`` is the first of every sample, ``"last token"`` the last, ``"read token"`` any other
        (the last before padding, say). Else it is flattened; also where that gradient is zero everywhere, as
        nothing shows then.

        Args:
            hidden: h_0..h_L, each (B, ...).
            g_L: the gradient at h_L, shaped like it.

        Raises:
            TapError: one token is read, and a state has another number of tokens than h_L.

        Source: docs/protocol.md §2.
        """
        way = choose_ways([h[None] for h in hidden], g_L[None])[0]
        return cls(way, None if way in (AS_IS, FLATTENED) else read_tokens(g_L))

    def vectors(self, state: Tensor, samples_axis: int = 0) -> Tensor:
        """`state` as one vector per sample.

        Args:
            state: (B, ...), or (N, B, ...) of N networks, whose tokens are (N, B).
            samples_axis: where the samples are.

        Returns:
            (B, D) or (N, B, D); (n, d) of the n tokens whose labels count.

        >>> Reading(LAST_TOKEN, torch.tensor([4, 4])).vectors(torch.zeros(2, 5, 3)).shape
        torch.Size([2, 3])
        """
        if self.tokens is None:
            return state.flatten(samples_axis + 1)
        if self.way == PER_TOKEN:
            return state[self.tokens]
        return torch.take_along_dim(state, self.tokens[..., None, None], dim=-2).squeeze(-2)

    def moved(self, state: Tensor, steps: Tensor) -> Tensor:
        """The state moved by steps given as vectors: the inverse of `vectors`, for M steps at once.

        Args:
            state: (B, ...).
            steps: (M, B, D).

        Returns:
            (M, B, ...).

        >>> reading = Reading(READ_TOKEN, torch.tensor([0, 1]))
        >>> reading.moved(torch.zeros(2, 5, 3), torch.ones(4, 2, 3)).sum(dim=(1, 3))[0].tolist()
        [3.0, 3.0, 0.0, 0.0, 0.0]
        """
        if self.tokens is None:
            return state + steps.reshape(len(steps), *state.shape)
        moved = state.expand(len(steps), *state.shape).clone()
        moved[:, torch.arange(len(state), device=state.device), self.tokens] += steps
        return moved


def choose_ways(hidden: Sequence[Tensor], g_L: Tensor) -> list[str]:
    """The ways of N networks of one shape, see `Reading.of`.

    Args:
        hidden: h_0..h_L, each (N, B, ...).
        g_L: the gradients at h_L, (N, B, ...).

    Returns:
        N of them.
    """
    if all(h.dim() == 3 for h in hidden):
        return [AS_IS] * len(g_L)
    if not all(h.dim() == 4 and h.shape[2] > 1 for h in hidden):
        return [FLATTENED] * len(g_L)
    shown = (g_L != 0).any(dim=-1).sum(dim=-1)
    tokens, last = read_tokens(g_L), g_L.shape[2] - 1
    columns = (shown.amax(dim=1) == 1, (tokens == 0).all(dim=1), (tokens == last).all(dim=1))
    ways = [
        FLATTENED if not single else CLS_TOKEN if first else LAST_TOKEN if final else READ_TOKEN
        for single, first, final in torch.stack(columns, dim=1).tolist()
    ]
    for l, h in enumerate(hidden):
        if h.shape[2] != last + 1 and set(ways) != {FLATTENED}:
            what = f"h_{l} has {h.shape[2]} tokens, h_{len(hidden) - 1} has {last + 1}, of which the head reads one"
            hint = "tap states that hold the same tokens, or give a function that returns that token's states (B, d)"
            raise TapError(what, hint=hint)
    return ways


def read_tokens(g_L: Tensor) -> Tensor:
    """The token at which a sample's gradient is not zero, the first of several.

    Where it is zero at all of them (a loss of exactly 0): the lower median of the other samples' tokens.

    Args:
        g_L: (..., B, T, d).

    Returns:
        (..., B) int64.

    >>> g = torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 2.0]])
    >>> read_tokens(g[..., None]).tolist()
    [1, 1, 1]
    """
    shown = (g_L != 0).any(dim=-1)
    dark = ~shown.any(dim=-1)
    tokens = shown.int().argmax(dim=-1)
    usual = torch.where(dark, torch.nan, tokens.float()).nanmedian(dim=-1, keepdim=True).values
    return torch.where(dark, usual.nan_to_num().long(), tokens)


def medians_of_samples(values: Tensor, counting: Tensor) -> Tensor:
    """The lower median over every sample's tokens that count.

    Args:
        values: (..., n), one per counting token, sample by sample.
        counting: (B, T) bool, n of them True.

    Returns:
        (..., B'), of the B' samples that have any; NaN where a sample's values hold NaN.

    >>> medians_of_samples(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([[True, True], [False, False], [False, True]]))
    tensor([1., 2.])
    """
    counting = counting[counting.any(dim=1)]
    table = values.new_full((*values.shape[:-1], *counting.shape), torch.inf)
    table[..., counting] = values
    middle = ((counting.sum(dim=1) - 1) // 2).expand(table.shape[:-1])[..., None]
    return torch.where(
        table.isnan().any(-1), torch.nan, table.sort(dim=-1).values.gather(-1, middle)[..., 0]
    )


def check_states(hidden: Sequence[Tensor], names: Sequence[str], batch_size: int) -> None:
    """Refuse states whose first axis is not the batch.

    Raises:
        TapError: names the tap and its shape.
    """
    for name, h in zip(names, hidden, strict=True):
        if h.dim() < 2 or h.shape[0] != batch_size:
            raise TapError(
                f"tap {name} has shape {tuple(h.shape)} for a batch of {batch_size}",
                hint="a hidden state is (B, d), (B, T, d) or (B, C, H, W); where the batch is a later axis, give a "
                "function (model, x) -> (logits, states) that moves it to the front, e.g. h.transpose(0, 1)",
            )


def check_tokens(hidden: Sequence[Tensor], names: Sequence[str], counting: Tensor) -> None:
    """Refuse states that do not have one vector per label.

    Raises:
        TapError: names the tap and its shape.
    """
    for name, h in zip(names, hidden, strict=True):
        if h.dim() != 3 or h.shape[:2] != counting.shape:
            hint = (
                "labels (B, T) need states (B, T, d): tap the blocks that give one vector per token"
            )
            raise TapError(
                f"tap {name} has shape {tuple(h.shape)} for labels {tuple(counting.shape)}",
                hint=hint,
            )


def gamma(credit: Tensor | None, gradient: Tensor) -> float | None:
    """Γ_l = (1/n)·Σ_i cos(a_l,i, g_l,i) over the n samples where it is defined; float64, no clamp.

    Args:
        credit: a_l, (B, ...); None where the method gives none.
        gradient: g_l, the same shape, at any scale (a cosine does not see the 1/B).

    Returns:
        In [−1, 1]; None, never 0 or 1, where no credit is given or every sample has a norm of 0;
        NaN where a value is not finite.

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
    """The mean of the values that are defined; None where none is.

    Args:
        values: (B,).
        defined: (B,) bool.

    >>> import torch
    >>> mean_where(torch.tensor([1.0, 5.0]), torch.tensor([True, False]))
    1.0
    """
    return float(values[defined].mean()) if bool(defined.any()) else None


def mean_over(
    values: list[float | None], first: int = 1, without: Sequence[int] = ()
) -> float | None:
    """The mean over layers l ≥ `first` of what is defined there: 1 = the deep mean, without the embedding.

    Args:
        values: layer by layer.
        first: layer.
        without: layers that are left out: those whose credit comes free.

    Source: docs/protocol.md §4 ("deep Γ = mean over l ≥ 1").

    >>> mean_over([0.9, 0.25, None, 0.75])
    0.5
    """
    kept = [
        value
        for l, value in enumerate(values)
        if l >= first and l not in without and value is not None
    ]
    return sum(kept) / len(kept) if kept else None
