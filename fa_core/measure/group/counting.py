"""Accuracy of N networks at once, with near-ties decided as for one: in float64, network by network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fa_core.measure.accuracy import classified, near_ties


class GroupCount:
    """Who classified which sample rightly. Near-ties are noted and settled at the end, so that no batch waits.

    Attributes:
        right: (N, B) bool per batch; settled once `settle` was called for every near-tie.
    """

    def __init__(self) -> None:
        self.right: list[Tensor] = []
        self._near: list[Tensor] = []

    def update(self, logits: Tensor, y: Tensor) -> None:
        """Count one batch: logits (N, B, C), y (B,)."""
        self.right.append(classified(logits, y))
        if logits.dtype != torch.float64:
            self._near.append(near_ties(logits))

    def near(self) -> dict[int, dict[int, list[int]]]:
        """member → batch → samples that float32 cannot decide; asks the device once."""
        found: dict[int, dict[int, list[int]]] = {}
        if not self._near:
            return found
        place = [(batch, sample) for batch, near in enumerate(self._near) for sample in range(near.shape[1])]
        for member, column in torch.cat(self._near, dim=1).nonzero().tolist():
            batch, sample = place[column]
            found.setdefault(member, {}).setdefault(batch, []).append(sample)
        return found

    def settle(self, member: int, batch: int, samples: list[int], again: Tensor, y: Tensor) -> None:
        """Replace what float32 said: `again` (b, C) float64 logits of the samples, `y` (b,) their labels."""
        right = self.right[batch]
        decided = classified(again, y.to(again.device)).to(right.device)
        right[member, torch.tensor(samples, device=right.device)] = decided


def accuracies(counts: Sequence[GroupCount]) -> Tensor:
    """(N,) float64 fractions of all samples that were counted."""
    right = torch.cat([batch for count in counts for batch in count.right], dim=1)
    return right.sum(dim=1).double() / right.shape[1]
