"""Pitfall 2: `F.cosine_similarity` clamps small norms."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from fa_core.pitfalls.demonstration import Demonstration, versions

TRUE_COSINE = 0.0181
SMALL_NORM = 5e-10


def cosine_eps() -> Demonstration:
    """cos(a, b) with each norm clamped from below at eps = 1e-8 shrinks by ‖b‖/eps when ‖b‖ < eps.

    Source: PROTOCOL §12.2: with ‖b‖ = 5e-10 a true 0.0181 comes out as 0.0009, 20 times too small.
    """
    a = torch.tensor([1.0, 0.0], dtype=torch.float64)
    b = SMALL_NORM * torch.tensor([TRUE_COSINE, (1 - TRUE_COSINE**2) ** 0.5], dtype=torch.float64)
    right = float(a @ b / (a.norm() * b.norm()))
    return Demonstration(
        number=2,
        name="cosine-eps",
        title="F.cosine_similarity clamps norms at eps = 1e-8: at the numerical floor it shrinks Γ",
        wrong={"F.cosine_similarity(a, b)": float(F.cosine_similarity(a, b, dim=0))},
        right={"a·b / (‖a‖‖b‖) in float64": right},
        why=f"‖b‖ = {SMALL_NORM:g} is below eps, so the division uses eps instead of ‖b‖: "
        "the cosine comes out ‖b‖/eps times too small, and looks like noise around 0.",
        instead="divide by the norms in float64, and call the cosine undefined where a norm is 0",
        versions=versions(),
        ran_on=f"two vectors, ‖b‖ = {SMALL_NORM:g}, true cosine {TRUE_COSINE}",
    )
