"""Pitfall 3: fp16 flushes collapsed gradients to zero."""

from __future__ import annotations

import torch

from fa_core.pitfalls.demonstration import Demonstration, versions

SMALL = 5e-10


def half_flush() -> Demonstration:
    """fp16's smallest subnormal is 2^-24 ≈ 6e-8: 5e-10 becomes 0 and its cosine 0/0 = NaN; bf16 keeps it.

    Source: PROTOCOL §12.3.
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
