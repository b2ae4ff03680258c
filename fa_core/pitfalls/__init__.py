"""Seven pitfalls of credit-quality pipelines, each a demonstration that computes the wrong and the right value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from fa_core.errors import UsageError
from fa_core.pitfalls.demonstrations import (
    Demonstration,
    aggregate,
    aggregations,
    cosine_eps,
    half_flush,
    layer_zero,
    missing_feedback,
    norm_axis,
    null_feedback,
)

if TYPE_CHECKING:
    from fa_core.pitfalls.subject import Subject

__all__ = [
    "PITFALLS",
    "Demonstration",
    "aggregations",
    "cosine_eps",
    "demonstrate",
    "half_flush",
    "layer_zero",
    "missing_feedback",
    "norm_axis",
    "null_feedback",
]

_ON_TENSORS = {"norm-axis": norm_axis, "cosine-eps": cosine_eps, "half-flush": half_flush}

PITFALLS: tuple[str, ...] = (
    *_ON_TENSORS,
    "null-feedback",
    "aggregations",
    "layer-zero",
    "missing-feedback",
)
"""Names in the protocol's order, 1 to 7."""

FRESH_DRAWS = 10


def demonstrate(names: Sequence[str] = PITFALLS, run: Path | None = None) -> list[Demonstration]:
    """Run demonstrations.

    Args:
        names: which, by name or number.
        run: a run folder with saved feedback for 4 to 7; None trains a small net here.

    Raises:
        UsageError: no pitfall of that name.
        MeasureError: the run saved no feedback.
    """
    chosen = [_name(name) for name in names]
    subject: Subject | None = None
    if any(name not in _ON_TENSORS for name in chosen):
        from fa_core.pitfalls.subject import of_run, trained_here

        subject = of_run(run) if run is not None else trained_here()
    return [_ON_TENSORS[name]() if name in _ON_TENSORS else _on(name, subject) for name in chosen]


def _on(name: str, subject: Subject | None) -> Demonstration:
    assert subject is not None
    credit, grads = subject.credit_and_gradients()
    if name == "aggregations":
        return aggregations(credit, grads, subject.name)
    if name == "layer-zero":
        return layer_zero(credit, grads, subject.name)
    if name == "missing-feedback":
        return missing_feedback(grads, subject.name)
    generator = torch.Generator().manual_seed(0)
    fresh = [
        aggregate(subject.credit_and_gradients(subject.method.fresh(generator))[0], grads)[DEEP]
        for _ in range(FRESH_DRAWS)
    ]
    return null_feedback(aggregate(credit, grads)[DEEP], fresh, subject.name)


DEEP = "mean over samples, hidden layers"


def _name(name: str) -> str:
    if name.isdigit() and 1 <= int(name) <= len(PITFALLS):
        return PITFALLS[int(name) - 1]
    if name in PITFALLS:
        return name
    raise UsageError(f"no pitfall {name!r}", hint=f"known: {', '.join(PITFALLS)}, or 1 to {len(PITFALLS)}")
