"""Pitfall 1: `x.norm(-1)` is not the norm along the last axis."""

from __future__ import annotations

import torch

from fa_core.pitfalls.demonstration import Demonstration, versions


def norm_axis() -> Demonstration:
    """The first positional argument of `Tensor.norm` is the order p, not the axis.

    x.norm(-1) = (Σ_ij |x_ij|^{-1})^{-1}, one number; the norm along the last axis is ‖x_i‖₂ per row.

    Source: PROTOCOL §12.1: [[3,4],[6,8]] gives 1.142857, not [5, 10].
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
