"""Is the reference right? The gradient in the arithmetic of the audit against the one in float64."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor, nn

from fa_core.measure.fused import Pass, fused_pass, in_parts, placed
from fa_core.measure.isolate import borrow
from fa_core.measure.norms import (
    check_states,
    choose_flatten,
    lower_median,
    mean_where,
    sample_cosines,
    sample_norms,
    vectors,
)
from fa_core.measure.taps import Taps, resolve_taps
from fa_core.report import ReferencePrecision


def reference_precision(
    model: nn.Module,
    batch: tuple[Tensor, Tensor],
    taps: Taps = None,
    dtype: str | None = None,
    largest_pass: int | None = None,
) -> ReferencePrecision:
    """cos(g_l, g_l in float64) at every layer, on one batch.

    Args:
        model: the network; it comes back as it was.
        batch: (x, y).
        taps: as for `diagnose`.
        dtype: the arithmetic to be judged, as for `diagnose`: None = what `diagnose` would use.
        largest_pass: samples per pass, as for `diagnose`.

    Raises:
        MeasureError: the network cannot run in float64 (a cast inside), or data that do not fit it.

    Source: docs/protocol.md §8 ("is the reference itself numerically right?").

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
    >>> found = reference_precision(net, (torch.eye(2), torch.tensor([0, 1])), taps="0,1")
    >>> all(c > 1 - 1e-12 for c in found.cosine), found.lost
    (True, [0, 0])
    """
    judged = _measured(model, batch, taps, dtype, largest_pass)
    reference = _measured(model, batch, taps, "float64", largest_pass)
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
        dtype=str(judged.logits.dtype).removeprefix("torch."),
    )


def _measured(
    model: nn.Module, batch: Sequence[Tensor], taps: Taps, dtype: str | None, largest_pass: int | None
) -> Pass:
    with borrow(model, dtype) as net:
        x, y = placed(tuple(batch), 0, net)
        with net.draws.passing():
            done = in_parts(partial(fused_pass, resolve_taps(net.model, taps), net.model), x, y, largest_pass)
        check_states(done.hidden, done.names, len(y))
        return done


def _cosines(g: Tensor, exact: Tensor) -> tuple[Tensor, Tensor, int]:
    kept, real = sample_norms(g) != 0, sample_norms(exact) != 0
    return sample_cosines(g, exact), kept & real, int((~kept & real).sum())


def _ratio(g: Tensor, exact: Tensor) -> float | None:
    reference = float(lower_median(sample_norms(exact)))
    return None if reference == 0 else float(lower_median(sample_norms(g))) / reference
