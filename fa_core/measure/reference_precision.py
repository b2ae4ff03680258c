"""Reference precision: the gradient in the audit's arithmetic against the one in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from fa_core.measure.norms import (
    lower_median,
    mean_where,
    sample_cosines,
    sample_norms,
)
from fa_core.measure.passes import DEFAULTS, PassOptions, Reference, reference
from fa_core.report.provenance import ReferencePrecision


def reference_precision(
    model: nn.Module, batch: object, how: PassOptions = DEFAULTS
) -> ReferencePrecision:
    """cos(g_l, g_l in float64) at every layer, on one batch.

    Args:
        model: the network, which is left as `diagnose` leaves it.
        batch: as for `diagnose`.
        how: the options of `diagnose`; the arithmetic to check is its ``dtype``.

    Raises:
        MeasureError: the network cannot run in float64 (a cast inside), or the data do not fit it.

    Source: docs/protocol.md, *Is the reference valid?*

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
    >>> batch = torch.eye(2), torch.tensor([0, 1])
    >>> found = reference_precision(net, batch, PassOptions(taps="0,1"))
    >>> all(c > 1 - 1e-12 for c in found.cosine), found.lost
    (True, [0, 0])
    """

    def run(dtype: str | None) -> Reference:
        with reference(model, batch, replace(how, dtype=dtype)) as found:
            return found

    measured = run(how.dtype).done
    exact = run("float64")
    series: dict[str, Any] = {}
    for g, exact_g in zip(measured.gradients, exact.gradients, strict=True):
        for name, value in _compared(exact.flattening.vectors(g), exact_g).items():
            series.setdefault(name, []).append(value)
    return ReferencePrecision(**series, samples=len(exact.gradients[0]), dtype=measured.dtype)


def _compared(g: Tensor, exact_g: Tensor) -> dict[str, float | None]:
    """One layer's entries of `ReferencePrecision`."""
    norms = sample_norms(g)
    exact_norms = sample_norms(exact_g)
    nonzero = exact_norms != 0
    both = (norms != 0) & nonzero
    cosines = sample_cosines(g, exact_g)
    median = float(lower_median(exact_norms))
    return {
        "cosine": mean_where(cosines, both),
        "worst": float(cosines[both].min()) if bool(both.any()) else None,
        "norm_ratio": float(lower_median(norms)) / median if median else None,
        "lost": int((nonzero & ~both).sum()),
    }
