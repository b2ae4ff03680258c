"""Is the reference right? The gradient in the arithmetic of the audit against the one in float64."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from fa_core.measure.alignment import mean_where
from fa_core.measure.batches import placed
from fa_core.measure.borrow import borrow
from fa_core.measure.fused import Pass, fused_pass
from fa_core.measure.norms import lower_median, sample_cosines, sample_norms
from fa_core.measure.per_sample import check_states, choose_flatten, vectors
from fa_core.measure.taps import Taps, resolve_taps


@dataclass(frozen=True)
class ReferencePrecision:
    """How float32 gradients compare with float64 ones, per layer l = 0..L.

    Attributes:
        cosine: mean over samples of cos(g_l in float32, g_l in float64); None where no sample has both.
        worst: the smallest of them.
        norm_ratio: median ‖g_l‖ in float32 over the one in float64; None where the latter is 0.
        lost: samples whose gradient is 0 in float32 and not in float64.
        samples: B.

    Source: PROTOCOL §8.
    """

    cosine: list[float | None]
    worst: list[float | None]
    norm_ratio: list[float | None]
    lost: list[int]
    samples: int

    def to_dict(self) -> dict[str, Any]:
        """For a report."""
        return {"cosine": self.cosine, "worst": self.worst, "norm_ratio": self.norm_ratio, "lost": self.lost}


def reference_precision(
    model: nn.Module, batch: tuple[Tensor, Tensor], taps: Taps = None, dtype: str | None = None
) -> ReferencePrecision:
    """cos(g_l, g_l in float64) at every layer, on one batch.

    Args:
        model: the network; it comes back as it was.
        batch: (x, y).
        taps: as for `diagnose`.
        dtype: the arithmetic to be judged, as for `diagnose`: None = what `diagnose` would use.

    Source: PROTOCOL §8 ("is the reference itself numerically right?").

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
    >>> found = reference_precision(net, (torch.eye(2), torch.tensor([0, 1])), taps="0,1")
    >>> all(c > 1 - 1e-12 for c in found.cosine), found.lost
    (True, [0, 0])
    """
    judged = _measured(model, batch, taps, dtype)
    reference = _measured(model, batch, taps, "float64")
    flatten = choose_flatten(reference.hidden, reference.gradients[-1])
    pairs = [
        (vectors(g, flatten), vectors(exact, flatten))
        for g, exact in zip(judged.gradients, reference.gradients, strict=True)
    ]
    cosines = [_cosines(g, exact) for g, exact in pairs]
    return ReferencePrecision(
        cosine=[mean_where(values, defined) for values, defined, _ in cosines],
        worst=[float(values[defined].min()) if bool(defined.any()) else None for values, defined, _ in cosines],
        norm_ratio=[_ratio(g, exact) for g, exact in pairs],
        lost=[lost for _, _, lost in cosines],
        samples=len(reference.logits),
    )


def _measured(model: nn.Module, batch: Sequence[Tensor], taps: Taps, dtype: str | None) -> Pass:
    with borrow(model, dtype) as net:
        x, y = placed(tuple(batch), 0, net)
        done = fused_pass(resolve_taps(net.model, taps), net.model, x, y)
        check_states(done.hidden, done.names, len(y))
        return done


def _cosines(g: Tensor, exact: Tensor) -> tuple[Tensor, Tensor, int]:
    kept, real = sample_norms(g) != 0, sample_norms(exact) != 0
    return sample_cosines(g, exact), kept & real, int((~kept & real).sum())


def _ratio(g: Tensor, exact: Tensor) -> float | None:
    reference = float(lower_median(sample_norms(exact)))
    return None if reference == 0 else float(lower_median(sample_norms(g))) / reference
