"""Pitfalls 5 and 6: one Γ, many aggregations; and layer 0 carries the mean.

Pitfall 7: feedback that was not saved must read N/A, never cos(g, g) = 1.

Pitfall 4: Γ belongs to the feedback a net was trained with.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch
from torch import Tensor

from fa_core.pitfalls.demonstration import Demonstration, versions

Stream = Sequence[Tensor | None]


def cosines(credit: Stream, grads: Sequence[Tensor]) -> list[Tensor]:
    """Per layer, the cosine per sample, in float64 without a clamp.

    Args:
        credit: a_l, each (B, …); None where the method gives none.
        grads: g_l, same shapes.

    Returns:
        One (B',) tensor per layer, B' ≤ B: samples with a zero norm on either side are left out, and a
        layer without credit gives an empty one.
    """
    found = []
    for a_l, g_l in zip(credit, grads, strict=True):
        if a_l is None:
            found.append(torch.empty(0, dtype=torch.float64))
            continue
        a, g = a_l.flatten(1).double(), g_l.flatten(1).double()
        norms = a.norm(dim=1) * g.norm(dim=1)
        found.append(((a * g).sum(1) / norms)[norms > 0])
    return found


def aggregate(credit: Stream, grads: Sequence[Tensor]) -> dict[str, float]:
    """Four aggregations of one Γ, all of them in use.

    - mean over samples and layers 0..L of the per-sample cosine;
    - the same over the hidden layers 1..L ("deep Γ");
    - per layer the cosine of the batch-mean vectors, mean over layers 1..L;
    - per sample the cosine of the layers 1..L concatenated, mean over samples.

    Raises:
        ValueError: no hidden layer has credit.

    Source: docs/protocol.md §12.5; the published four range from −0.028 to +0.074.
    """
    per_layer = cosines(credit, grads)
    pairs = [
        (a.flatten(1).double(), g.flatten(1).double())
        for a, g in list(zip(credit, grads, strict=True))[1:]
        if a is not None
    ]
    if not pairs:
        raise ValueError("no hidden layer has credit to compare with the gradient")
    batch_means = torch.stack([_cosine(a.mean(0), g.mean(0)) for a, g in pairs])
    a_all, g_all = (torch.cat(parts, dim=1) for parts in zip(*pairs, strict=True))
    concatenated = (a_all * g_all).sum(1) / (a_all.norm(dim=1) * g_all.norm(dim=1))
    return {
        "mean over samples, all layers": _mean([c.mean() for c in per_layer if len(c)]),
        "mean over samples, hidden layers": _mean([c.mean() for c in per_layer[1:] if len(c)]),
        "cosine of batch means, hidden layers": float(batch_means.mean()),
        "cosine of concatenated hidden layers": float(concatenated.nanmean()),
    }


def aggregations(credit: Stream, grads: Sequence[Tensor], ran_on: str = "given credit") -> Demonstration:
    """Pitfall 5: four valid aggregations of the same Γ, side by side.

    Raises:
        ValueError: no hidden layer has credit.
    """
    values = aggregate(credit, grads)
    spread = max(values.values()) - min(values.values())
    return Demonstration(
        number=5,
        name="aggregations",
        title="Four valid aggregations of the same Γ give four numbers, sometimes of both signs",
        wrong={"“Γ” unnamed, lowest": min(values.values()), "“Γ” unnamed, highest": max(values.values())},
        right=values,
        why=f"The four differ by {spread:.4f}: means of cosines, cosines of means and cosines of concatenations "
        "weight samples and layers differently.",
        instead="report Γ per layer, and name the aggregation of every single number",
        versions=versions(),
        ran_on=ran_on,
    )


def layer_zero(credit: Stream, grads: Sequence[Tensor], ran_on: str = "given credit") -> Demonstration:
    """Pitfall 6: the mean over all layers against the mean over hidden layers.

    Source: docs/protocol.md §12.6: Γ_0 = +0.429 makes +0.068; hidden layers alone −0.022.

    Raises:
        ValueError: no hidden layer has credit.
    """
    per_layer = [float(c.mean()) if len(c) else None for c in cosines(credit, grads)]
    values = aggregate(credit, grads)
    return Demonstration(
        number=6,
        name="layer-zero",
        title="Layer 0 can carry the mean: the embedding's Γ hides what the hidden layers do",
        wrong={"mean Γ over layers 0..L": values["mean over samples, all layers"]},
        right={
            "Γ_0": per_layer[0],
            "mean Γ over layers 1..L": values["mean over samples, hidden layers"],
            "Γ_l": per_layer,
        },
        why="h_0 is the embedding's output: its credit is shaped by the input, not by the blocks "
        "that the claim is about.",
        instead="report Γ_0 apart; “deep Γ” is the mean over l ≥ 1",
        versions=versions(),
        ran_on=ran_on,
    )


def _cosine(a: Tensor, g: Tensor) -> Tensor:
    cosine: Tensor = (a @ g) / (a.norm() * g.norm())
    return cosine


def _mean(values: Sequence[Tensor]) -> float:
    return float(torch.stack(list(values)).mean())


def missing_feedback(grads: Sequence[Tensor] | None = None, ran_on: str = "") -> Demonstration:
    """A script that falls back to the gradient itself when the feedback is missing reports Γ = 1.

    Args:
        grads: g_l of a real run; None takes a drawn one.
        ran_on: its name.

    Source: docs/protocol.md §12.7.
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


def null_feedback(trained: float, fresh: Sequence[float], ran_on: str) -> Demonstration:
    """Deep Γ with the training feedback against freshly drawn feedback, on the same net.

    Args:
        trained: deep Γ with the saved feedback.
        fresh: deep Γ with feedback drawn anew, one per draw.
        ran_on: the run.

    Source: docs/protocol.md §12.4: +0.068 with it, +0.0043 ± 0.007 over 10 fresh draws.
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
