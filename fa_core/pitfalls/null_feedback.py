"""Pitfall 4: Γ belongs to the feedback a net was trained with."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from fa_core.pitfalls.demonstration import Demonstration, versions


def null_feedback(trained: float, fresh: Sequence[float], ran_on: str) -> Demonstration:
    """Deep Γ with the training feedback against freshly drawn feedback, on the same net.

    Args:
        trained: deep Γ with the saved feedback.
        fresh: deep Γ with feedback drawn anew, one per draw.
        ran_on: the run.

    Source: PROTOCOL §12.4: +0.068 with it, +0.0043 ± 0.007 over 10 fresh draws.
    """
    mean, std = statistics.fmean(fresh), statistics.pstdev(fresh)
    return Demonstration(
        number=4,
        name="null-feedback",
        title="Γ is specific to the training feedback: with freshly drawn feedback it vanishes",
        wrong={f"deep Γ, {len(fresh)} fresh draws (mean)": mean, "std": std},
        right={"deep Γ, training feedback": trained},
        why="The net adapts to the matrices it was trained with. Drawing them again at audit time measures "
        "chance alignment, and calls an aligned net unaligned.",
        instead="save the feedback with the weights; use fresh draws only as the null to compare with",
        versions=versions(),
        ran_on=ran_on,
    )
