"""Checks of the eval batches: (c) needs disjoint batches of shuffled samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fa_core.errors import MeasureError
from fa_core.measure.isolate import Inputs, first_of

Prints: TypeAlias = NDArray[np.float32]
"""Fingerprints, (B, 2)."""

Labels: TypeAlias = NDArray[np.int64]
"""Labels, (B,)."""

SORTED = (
    "eval batches sorted by class: (c) is lower than on shuffled ones; draw them with shuffle=True"
)
"""Note on batches that fail `sorted_by_class`."""

_BY_CHANCE = 32
"""Fewer samples may be of one class by chance."""

_SAME = 1e-5
"""Fingerprints closer than this, times the largest, are of one sample.

Sums of 150,000 float32 terms differ by less.
"""


class BatchLog:
    """A fingerprint and the label of every sample; nothing waits for the device until `note`.

    The fingerprint is V·(x_i − x_0) in float32, with rows V = (sin k, cos k), k = 1, 2, …
    x_0 is the first sample of all: without it, a large value that all samples share would hide
    their differences.
    """

    def __init__(self) -> None:
        self._prints: list[Tensor] = []
        self._labels: list[Tensor] = []
        self._bases: dict[int, tuple[Tensor, Tensor]] = {}
        self._per_token = False

    def add(self, x: Inputs, y: Tensor) -> None:
        """Add one batch: inputs, whose first tensor is used, and labels (B,) or (B, T)."""
        samples = first_of(x).detach()
        rows = samples.reshape(len(samples), -1).float()
        length = rows.shape[1]
        self._per_token = y.dim() == 2
        if self._per_token:
            # samples of different lengths are different samples
            y = y.new_full((len(y),), length)
        if length not in self._bases:
            k = torch.arange(1, length + 1, device=rows.device, dtype=torch.float32)
            self._bases[length] = torch.stack([k.sin(), k.cos()]), rows[:1].clone()
        v, first = self._bases[length]
        with torch.autocast(rows.device.type, enabled=False):
            # ten times as fast as x·Vᵀ
            self._prints.append((v @ (rows - first).T).T)
        self._labels.append(y)

    def note(self) -> str:
        """The report's note on the batches; may be "".

        Raises:
            MeasureError: two batches hold the same samples, in any order.
        """
        all_prints = torch.cat(self._prints).cpu().numpy()
        all_labels = torch.cat(self._labels).cpu().numpy()
        ends = list(accumulate(map(len, self._labels)))
        labels = np.split(all_labels, ends[:-1])
        _check_different(np.split(all_prints, ends[:-1]), labels)
        notes = []
        if not self._per_token and sorted_by_class(labels):
            notes.append(SORTED)
        again = repeats(all_prints, all_labels)
        if again:
            notes.append(
                f"{again} eval samples occur more than once: (c) is higher than on different ones"
            )
        return "; ".join(notes)


def _check_different(prints: Sequence[Prints], labels: Sequence[Labels]) -> None:
    """Refuse two batches of the same samples.

    Raises:
        MeasureError: names the two batches.
    """

    def size_and_sum(k: int) -> tuple[int, float]:
        return len(labels[k]), float(np.nan_to_num(prints[k]).sum())

    # equal batches are neighbours in this order
    order = sorted(range(len(labels)), key=size_and_sum)
    for one, other in pairwise(order):
        same_labels = np.array_equal(np.sort(labels[one]), np.sort(labels[other]))
        if same_labels and _alike(np.sort(prints[one], axis=0), np.sort(prints[other], axis=0)):
            raise MeasureError(
                f"eval batches {min(one, other)} and {max(one, other)} hold the same samples",
                hint="(c) compares different ones: DataLoader(distinct samples, "
                "batch_size=128, shuffle=True)",
            )


def _alike(prints: Prints, others: Prints) -> bool:
    """Whether sorted fingerprints differ by rounding alone."""
    with np.errstate(invalid="ignore"):
        distance = np.abs(prints - others).max(axis=0)
        return bool((distance <= _SAME * np.abs(prints).max(axis=0)).all())


def repeats(prints: Prints, labels: Labels) -> int:
    """The number of repeated samples: equal labels, and fingerprints equal up to rounding.

    >>> repeats(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]), np.array([0, 0, 0]))
    1
    """
    order = np.lexsort((prints[:, 0], labels))
    tolerance = _SAME * np.abs(prints).max(axis=0)
    with np.errstate(invalid="ignore"):
        distances = np.abs(np.diff(prints[order], axis=0))
        close = (distances <= tolerance).all(axis=1)
    same_label = np.diff(labels[order]) == 0
    return int((close & same_label).sum())


def sorted_by_class(labels: Sequence[Labels]) -> bool:
    """Whether the label counts of the batches differ by far more than after shuffling.

    With n_kc the samples of class c in batch k, and e_kc = n_k.·n_.c/n: χ² = Σ (n_kc − e_kc)²/e_kc
    > dof + 6·√(2·dof), dof = (K − 1)(C − 1) over the classes that occur.

    Args:
        labels: (B,) of every batch.

    Source: Pearson 1900; the mean and standard deviation of χ² are dof and √(2·dof).

    >>> sorted_by_class([np.zeros(8, int), np.ones(8, int)])
    True
    >>> sorted_by_class([np.array([0, 1]), np.array([1, 1])])
    False
    """
    classes, place = np.unique(np.concatenate(labels), return_inverse=True)
    batch = np.repeat(np.arange(len(labels)), [len(y) for y in labels])
    counts = np.zeros((len(labels), len(classes)))
    np.add.at(counts, (batch, place), 1)
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    dof = (len(labels) - 1) * (len(classes) - 1)
    if not dof:
        # many samples of a single class: the start of a sorted data set
        return len(labels) > 1 and len(place) >= _BY_CHANCE
    chi_square = float((np.square(counts - expected) / expected).sum())
    return chi_square > dof + 6 * math.sqrt(2 * dof)
