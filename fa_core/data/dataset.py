"""A labelled data set in memory, its hash, evaluation batches fixed by a seed, and the options of a data SPEC."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fa_core.errors import UnreadableInput, UsageError
from fa_core.naming import unknown_name


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

    Source: docs/protocol.md §3 (c): K ≥ 8 disjoint batches of 128, default K = 10.
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


def from_arrays(spec: str, train_x: Any, train_y: Any, test_x: Any, test_y: Any) -> DataSet:
    """A data set from arrays or tensors; bytes (uint8) become numbers in [0, 1], labels int64.

    Raises:
        UnreadableInput: samples that are no numbers, labels that are not whole numbers, sizes that do not fit.
    """
    labels = [_labels(spec, part) for part in (train_y, test_y)]
    classes = 1 + max((int(y.max()) for y in labels if y.numel()), default=0)
    return DataSet(spec, _samples(spec, train_x), labels[0], _samples(spec, test_x), labels[1], classes)


def _samples(spec: str, values: Any) -> Tensor:
    x = _tensor(spec, values)
    return x.float() / 255.0 if x.dtype == torch.uint8 else x.float()


def _labels(spec: str, values: Any) -> Tensor:
    y = _tensor(spec, values)
    if y.is_floating_point() or y.is_complex():
        raise UnreadableInput(f"labels are {y.dtype}, not whole numbers", where=spec, hint="give class indices 0..C-1")
    return y.squeeze(-1).long() if y.ndim == 2 and y.shape[-1] == 1 else y.long()


def _tensor(spec: str, values: Any) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnreadableInput(f"not an array of numbers ({error})", where=spec) from None


@dataclass(frozen=True)
class Option:
    """One option of a data SPEC: its default, how its text is read, what it means."""

    default: float
    read: Callable[[str], float]
    meaning: str


def at_least(lowest: int) -> Callable[[str], int]:
    """A reader of whole numbers from `lowest` on."""

    def read(text: str) -> int:
        value = int(text)
        if value < lowest:
            raise ValueError(f"must be at least {lowest}")
        return value

    return read


def parse_options(name: str, text: str, options: Mapping[str, Option]) -> dict[str, float]:
    """Every option's value, given or default.

    Args:
        name: the data set, for messages.
        text: e.g. ``"alpha=0.5,input=16"``; ``""`` for all defaults.
        options: the known options.

    Raises:
        UsageError: not ``key=value``, an unknown key, a value that cannot be read.

    >>> parse_options("synthetic", "input=16", {"input": Option(128, at_least(1), "")})
    {'input': 16}
    """
    values = {key: option.default for key, option in options.items()}
    for item in filter(None, text.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise UsageError(f"{item!r} is not key=value", where=name, hint=f"options: {', '.join(options)}")
        if key not in options:
            raise unknown_name(f"option of {name}", key, options)
        try:
            values[key] = options[key].read(value)
        except ValueError as error:
            raise UsageError(f"{key}={value} cannot be used ({error})", where=name) from None
    return values
