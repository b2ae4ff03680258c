"""Pitfall 7: feedback that was not saved must read N/A, never cos(g, g) = 1."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fa_core.pitfalls.aggregations import cosines
from fa_core.pitfalls.demonstration import Demonstration, versions


def missing_feedback(grads: Sequence[Tensor] | None = None, ran_on: str = "") -> Demonstration:
    """A script that falls back to the gradient itself when the feedback is missing reports Γ = 1.

    Args:
        grads: g_l of a real run; None takes a drawn one.
        ran_on: its name.

    Source: PROTOCOL §12.7.
    """
    if grads is None:
        generator = torch.Generator().manual_seed(0)
        grads = [torch.randn(8, 16, generator=generator) for _ in range(5)]
        ran_on = "drawn gradients, 5 layers"

    def careless(credit: Sequence[Tensor] | None) -> float:
        return float(torch.cat(cosines(grads if credit is None else credit, grads)).mean())

    return Demonstration(
        number=7,
        name="missing-feedback",
        title="Feedback not saved: a fallback to cos(g, g) = 1 was reported as Γ",
        wrong={"Γ with `credit = saved.get('Bs', grads)`": careless(None)},
        right={"Γ without saved feedback": None},
        why="The gradient compared with itself is 1 by construction, and nothing in the number says so.",
        instead="save the feedback with the weights; without it Γ is N/A, with the reason beside it",
        versions=versions(),
        ran_on=ran_on,
    )
