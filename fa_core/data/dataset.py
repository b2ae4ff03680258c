"""A labelled data set in memory, its hash, and evaluation batches fixed by a seed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from fa_core.errors import UnreadableInput


@dataclass(frozen=True)
class DataSet:
    """Training and test samples.

    Attributes:
        spec: what it was loaded from, e.g. ``"synthetic:alpha=1.0,input=16"``; paths in it are absolute.
        train_x: (N, *input_shape) float32.
        train_y: (N,) int64 in [0, num_classes).
        test_x: (M, *input_shape) float32.
        test_y: (M,) int64.
        num_classes: C.

    Raises:
        UnreadableInput: samples and labels that do not fit together.
    """

    spec: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    num_classes: int

    def __post_init__(self) -> None:
        for part, x, y in (("train", self.train_x, self.train_y), ("test", self.test_x, self.test_y)):
            if y.ndim != 1 or len(x) != len(y):
                raise UnreadableInput(
                    f"{part} samples {tuple(x.shape)} and labels {tuple(y.shape)} do not fit", where=self.spec
                )
            if len(y) == 0:
                raise UnreadableInput(f"no {part} samples", where=self.spec)
            low, high = int(y.min()), int(y.max())
            if low < 0 or high >= self.num_classes:
                raise UnreadableInput(
                    f"{part} labels run from {low} to {high}, with {self.num_classes} classes", where=self.spec
                )
        if self.train_x.shape[1:] != self.test_x.shape[1:]:
            raise UnreadableInput(
                f"train samples are {tuple(self.train_x.shape[1:])}, test samples {tuple(self.test_x.shape[1:])}",
                where=self.spec,
            )

    def to(self, device: torch.device | str) -> DataSet:
        """The same data set with its tensors on another device."""
        return replace(
            self,
            train_x=self.train_x.to(device),
            train_y=self.train_y.to(device),
            test_x=self.test_x.to(device),
            test_y=self.test_y.to(device),
        )

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self.test_x.shape[1:])

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the test samples and labels: two audits with the same hash drew from the same samples."""
        digest = hashlib.sha256()
        for tensor in (self.test_x, self.test_y):
            array = tensor.detach().cpu().contiguous().numpy()
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(array.data)
        return f"sha256:{digest.hexdigest()}"


def eval_batches(data: DataSet, k: int = 10, batch_size: int = 128, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    """K disjoint batches of test samples, the same ones for the same seed.

    Args:
        data: the data set; only its test part is used.
        k: K, how many batches.
        batch_size: B, samples per batch.
        seed: picks the samples.

    Returns:
        At most K pairs (x: (B, *input_shape), y: (B,)). A test part too small for K full batches
        gives fewer full ones, or a single batch of everything if it is smaller than B.

    Source: PROTOCOL §3 (c): K ≥ 8 disjoint batches of 128, default K = 10.
    """
    order, count = eval_order(len(data.test_y), k, batch_size, seed)
    full = max(1, count // batch_size)
    return [(data.test_x[rows], data.test_y[rows]) for rows in order[:count].to(data.test_y.device).chunk(full)]


def eval_order(samples: int, k: int = 10, batch_size: int = 128, seed: int = 0) -> tuple[Tensor, int]:
    """The test samples, those of the `eval_batches` first.

    Args:
        samples: how many there are.
        k, batch_size, seed: as for `eval_batches`.

    Returns:
        Their order (samples,), and how many of the first are in a batch.
    """
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed))
    full = max(1, min(k, samples // batch_size))
    return order, min(full * batch_size, samples)
