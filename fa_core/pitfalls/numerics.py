"""Pitfall 1: `x.norm(-1)` is not the norm along the last axis.

Pitfall 2: `F.cosine_similarity` clamps small norms.

Pitfall 3: fp16 flushes collapsed gradients to zero.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from fa_core.pitfalls.demonstration import Demonstration, versions


def norm_axis() -> Demonstration:
    """The first positional argument of `Tensor.norm` is the order p, not the axis.

    x.norm(-1) = (Σ_ij |x_ij|^{-1})^{-1}, one number; the norm along the last axis is ‖x_i‖₂ per row.

    Source: docs/protocol.md §12.1: [[3,4],[6,8]] gives 1.142857, not [5, 10].
    """
    x = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
    return Demonstration(
        number=1,
        name="norm-axis",
        title="x.norm(-1) is the L₋₁ norm of the whole tensor, not the norm along the last axis",
        wrong={"x.norm(-1)": float(x.norm(-1))},
        right={"x.norm(dim=-1)": x.norm(dim=-1).tolist()},
        why="The first positional argument is the order p. p = -1 gives 1/Σ(1/|x|) over all entries, "
        "silently: one number for a whole batch.",
        instead="torch.linalg.vector_norm(x, dim=-1), or x.norm(dim=-1)",
        versions=versions(),
        ran_on="x = [[3, 4], [6, 8]]",
    )


TRUE_COSINE = 0.0181
SMALL_NORM = 5e-10


def cosine_eps() -> Demonstration:
    """cos(a, b) with each norm clamped from below at eps = 1e-8 shrinks by ‖b‖/eps when ‖b‖ < eps.

    Source: docs/protocol.md §12.2: with ‖b‖ = 5e-10 a true 0.0181 comes out as 0.0009, 20 times too small.
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


SMALL = 5e-10


def half_flush() -> Demonstration:
    """fp16's smallest subnormal is 2^-24 ≈ 6e-8: 5e-10 becomes 0 and its cosine 0/0 = NaN; bf16 keeps it.

    Source: docs/protocol.md §12.3.
    """
    g = torch.full((4,), SMALL, dtype=torch.float64)

    def cosine_with_itself(dtype: torch.dtype) -> float:
        kept = g.to(dtype).double()
        return float(kept @ kept / (kept.norm() * kept.norm()))

    return Demonstration(
        number=3,
        name="half-flush",
        title="fp16 flushes a gradient of 5e-10 to 0, and its cosine to NaN; bf16 keeps it",
        wrong={
            "5e-10 in fp16": float(g.half()[0]),
            "cos(g, g) in fp16": cosine_with_itself(torch.float16),
        },
        right={
            "5e-10 in bf16": float(g.bfloat16()[0]),
            "cos(g, g) in bf16": cosine_with_itself(torch.bfloat16),
            "cos(g, g) in float32": cosine_with_itself(torch.float32),
        },
        why=f"fp16's smallest subnormal is {2.0**-24:.1e}; below half of it everything is 0. bf16 has float32's range.",
        instead="measure in float32 with norms in float64; never judge gradients taken in fp16",
        versions=versions(),
        ran_on="g = 5e-10 in every entry",
    )
