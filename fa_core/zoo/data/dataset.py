"""Data sets with the options that a user types after their names, and evaluation batches by a
seed, the same for every audit of a run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

import msgspec
import numpy as np
import torch
from torch import Tensor

from fa_core.errors import UnreadableInput, UsageError
from fa_core.files.decode import Json, reading
from fa_core.files.opening import real_path, typed_path
from fa_core.option_values import check_known, split_place

Options = TypeVar("Options", bound=msgspec.Struct)

Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


def parse_options(name: str, text: str, defaults: Options) -> Options:
    """The options of a data spec.

    Args:
        name: the data set, for messages.
        text: e.g. ``"alpha=0.5,input=16"``; ``""`` for all defaults.
        defaults: the values of what is not given.

    Raises:
        UsageError: not ``key=value``, an unknown key, or an invalid value.

    >>> parse_options("npz", "std=0.5", Scaling())
    Scaling(mean=(0.0,), std=(0.5,))
    """
    known = defaults.__struct_fields__
    values: Json = msgspec.to_builtins(defaults)
    for item in filter(None, text.split(",")):
        key, equals, value = map(str.strip, item.partition("="))
        if not equals:
            raise UsageError(
                f"{item!r} is not key=value", where=name, hint=f"options: {', '.join(known)}"
            )
        check_known(f"option of {name}", key, known)
        values[key] = value.split("/") if key in _PER_CHANNEL else value
    try:
        return msgspec.convert(values, type(defaults), strict=False)
    except ValueError as error:
        given = text.strip(",")
        raise UsageError(f"{given} cannot be used ({error})", where=name) from None


_PER_CHANNEL = ("mean", "std")


class Scaling(msgspec.Struct, frozen=True):
    """Scaling of pixels x in [0, 1]: (x − mean)/std, per channel or for all channels."""

    mean: tuple[float, ...] = (0.0,)
    std: tuple[Annotated[float, msgspec.Meta(gt=0)], ...] = (1.0,)

    def __post_init__(self) -> None:
        for values in (self.mean, self.std):
            if len(values) not in (1, 3) or not all(map(math.isfinite, values)):
                raise ValueError("give 1 or 3 numbers: 0.49/0.48/0.45")

    def __str__(self) -> str:
        return f"mean {_slashed(self.mean)}, std {_slashed(self.std)}"


def _slashed(values: Iterable[float]) -> str:
    return "/".join(map("{:g}".format, values))


def parse_folder(spec: str, text: str, defaults: Options) -> tuple[Path, Options, str]:
    """Parse ``DIR,key=value,raw``; ``raw`` means mean 0, std 1.

    Args:
        spec: the whole data spec.
        text: the spec after its first colon.
        defaults: as for `parse_options`.

    Returns:
        The folder, the options, and the spec with an absolute path.

    Raises:
        UsageError: no folder named, or as `parse_options`.
    """
    name = spec.partition(":")[0]
    place, given = split_place(text)
    if not place:
        raise UsageError(f"{name} needs a folder", hint=f"write {name}:DIR")
    folder = real_path(typed_path(place))
    written_out = given.replace(",raw", ",mean=0,std=1")
    return folder, parse_options(name, written_out, defaults), f"{name}:{folder}{given}"


NAMES = ("train_x", "train_y", "test_x", "test_y")
"""The arrays of a data set."""


@dataclass(frozen=True)
class DataSet:
    """Training and test samples.

    Attributes:
        spec: its data spec with absolute paths, e.g. ``"synthetic:alpha=1.0,input=16"``.
        train_x: (N, *input_shape) float32.
        train_y: (N,) int64 in [0, num_classes).
        test_x: (M, *input_shape) float32.
        test_y: (M,) int64.
        num_classes: C.
        scaling: of the pixels, e.g. ``"mean 0.5, std 0.25"``, if optional.

    Raises:
        UnreadableInput: samples and labels do not fit together.
    """

    spec: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    num_classes: int
    scaling: str = ""

    def __post_init__(self) -> None:
        shape = tuple(self.train_x.shape[1:])
        problem = "" if len(self.test_y) else "no test samples"
        if shape != self.input_shape:
            problem = f"train samples are {shape}, test samples {self.input_shape}"
        parts = {"train": (self.train_x, self.train_y), "test": (self.test_x, self.test_y)}
        for part, (x, y) in parts.items():
            if y.ndim != 1 or len(x) != len(y):
                problem = f"{part} samples {tuple(x.shape)} and labels {tuple(y.shape)} do not fit"
            elif len(y):
                least, most = map(int, y.aminmax())
                if least < 0 or most >= self.num_classes:
                    problem = (
                        f"{part} labels run from {least} to {most}, with {self.num_classes} classes"
                    )
        if problem:
            raise UnreadableInput(problem, where=self.spec)

    def to(self, device: torch.device | str) -> DataSet:
        """A copy with its tensors on another device."""
        return replace(self, **{name: getattr(self, name).to(device) for name in NAMES})

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self.test_x.shape[1:])

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the test samples and labels, which audits draw from."""
        return content_hash((self.test_x, self.test_y))


def content_hash(tensors: Iterable[Tensor]) -> str:
    """SHA-256 of tensors, including types and shapes."""
    digest = hashlib.sha256()
    for tensor in tensors:
        array = tensor.detach().cpu().contiguous().numpy()
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.data)
    return f"sha256:{digest.hexdigest()}"


@dataclass(frozen=True)
class GivenBatches:
    """Test batches of the user's code, measured in this order: the first K give (a) to (c).

    Attributes:
        spec: the data spec.
        batches: (x, y) pairs or mappings, as for `diagnose`.
    """

    spec: str
    batches: list[Iterable[object]]

    @cached_property
    def hash(self) -> str:
        """SHA-256 of all tensors in the batches."""
        values: list[object] = []
        for batch in self.batches:
            if isinstance(batch, Mapping):
                values += batch.values()
            else:
                values += batch
        return content_hash(map(torch.as_tensor, values))


def eval_batches(
    data: DataSet, k: int = 10, batch_size: int = 128, seed: int = 0
) -> list[tuple[Tensor, Tensor]]:
    """K disjoint batches of test samples, fixed by a seed.

    Args:
        data: the data set; only its test part is used.
        k: K, number of batches.
        batch_size: B, samples per batch.
        seed: picks the samples.

    Returns:
        K pairs (x: (B, *input_shape), y: (B,)); fewer if the test part is too small for K full
        batches; a single batch of all samples if it is smaller than B.

    Source: docs/protocol.md §3 (c): K ≥ 8 disjoint batches of 128, default K = 10.
    """
    order, count = eval_order(len(data.test_y), k, batch_size, seed)
    drawn = order[:count].to(data.test_y.device)
    number = max(1, count // batch_size)
    return [(data.test_x[rows], data.test_y[rows]) for rows in drawn.chunk(number)]


def eval_order(samples: int, k: int, batch_size: int, seed: int) -> tuple[Tensor, int]:
    """The order of the test samples, with those of `eval_batches` first.

    Args:
        samples: their number.
        k, batch_size, seed: as for `eval_batches`.

    Returns:
        Their order (samples,), and the number of samples in the batches.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(samples, generator=generator)
    full = max(1, min(k, samples // batch_size))
    return order, min(full * batch_size, samples)


def from_arrays(
    spec: str,
    train_x: object,
    train_y: object,
    test_x: object,
    test_y: object,
) -> DataSet:
    """A data set from arrays or tensors; bytes (uint8) become numbers in [0, 1], labels int64.

    Raises:
        UnreadableInput: samples are not numeric, labels are not integers, or sizes do not fit.
    """
    with reading(spec, "not an array of numbers"):
        labels = [_labels(torch.as_tensor(y)) for y in (train_y, test_y)]
        samples = [_samples(torch.as_tensor(x)) for x in (train_x, test_x)]
    largest = [int(y.max()) for y in labels if y.numel()]
    return DataSet(
        spec,
        train_x=samples[0],
        train_y=labels[0],
        test_x=samples[1],
        test_y=labels[1],
        num_classes=1 + max(largest, default=0),
    )


def _samples(x: Tensor) -> Tensor:
    if x.dtype == torch.uint8:
        return x.float() / 255.0
    return x.float()


def _labels(y: Tensor) -> Tensor:
    if y.ndim == 2 and y.shape[-1] == 1:
        y = y.squeeze(-1)
    if y.ndim == 2:
        raise UnreadableInput(
            f"labels have shape {tuple(y.shape)}",
            hint="give class indices: y.argmax(1) where y is one-hot",
        )
    if y.is_floating_point() or y.is_complex():
        raise UnreadableInput(
            f"labels are {y.dtype}, not whole numbers", hint="give class indices 0..C-1"
        )
    return y.long()


def made_data(spec: str, made: object) -> DataSet | GivenBatches:
    """The data that the user's code or a plugin returned.

    Args:
        spec: its data spec.
        made: a `DataSet`; (train_x, train_y, test_x, test_y) arrays or tensors, as a tuple or as a
            mapping with these keys; or test batches: a sequence, a DataLoader or another iterable
            of (x, y) pairs or mappings.

    Raises:
        UnreadableInput: any other value, and a tuple of two pairs, which may be train and test.
    """
    if isinstance(made, DataSet):
        return made
    if isinstance(made, Mapping) and made.keys() >= set(NAMES):
        made = tuple(made[name] for name in NAMES)
    if isinstance(made, Iterable) and not isinstance(made, _NO_BATCHES):
        items = list(made)
        may_be_train_and_test = isinstance(made, tuple) and len(items) == 2
        if items and all(map(_is_batch, items)) and not may_be_train_and_test:
            return GivenBatches(spec, items)
        if isinstance(made, tuple | list) and len(items) == len(NAMES):
            return from_arrays(spec, *items)
    raise UnreadableInput(
        f"returned {type(made).__name__}, neither four arrays nor batches",
        where=spec,
        hint=f"return ({', '.join(NAMES)}), or test batches: a DataLoader, a list of (x, y)",
    )


def _is_batch(value: object) -> bool:
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    return is_pair or isinstance(value, Mapping)


_NO_BATCHES = (str, bytes, Mapping, Tensor, np.ndarray)
