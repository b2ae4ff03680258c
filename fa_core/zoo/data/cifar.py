"""CIFAR-10 and CIFAR-100 files, binary or python layout; pickles are read without running code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fa_core.errors import UnreadableInput, UnsafeCheckpoint
from fa_core.files.decode import reading
from fa_core.files.inert import Archive, Placeholder
from fa_core.files.opening import is_file, is_folder, read_file
from fa_core.zoo.data.data_spec import Scaling

PIXELS = 3 * 32 * 32
Bytes = NDArray[np.uint8]
Batch = tuple[Bytes, NDArray[np.int64]]
"""Pixels (N, `PIXELS`) and labels (N,)."""


def read_pickle_batch(path: Path, label_key: str) -> Batch:
    """Read one batch file of the python layout.

    Args:
        path: the file.
        label_key: ``"labels"`` (CIFAR-10) or ``"fine_labels"`` (CIFAR-100).

    Raises:
        UnsafeCheckpoint: the pickle names objects other than arrays; nothing was run.
        UnreadableInput: not a pickle, a missing key, or arrays of the wrong shape.
    """
    with reading(path, "not a CIFAR batch"):
        raw = bytearray(read_file(path))
        content = Archive(raw).pickled()
        if not isinstance(content, dict):
            raise UnreadableInput(f"holds a {type(content).__name__}, not a dict")
        data = _array(content, "data")
        labels = _array(content, label_key)
        shape = list(data.shape)
        if data.dtype != np.uint8 or shape != [len(data), PIXELS]:
            raise UnreadableInput(f"data is {data.dtype}{shape}, not uint8[N, {PIXELS}]")
        if labels.shape != data.shape[:1] or labels.dtype.kind not in "iu":
            shape = list(labels.shape)
            raise UnreadableInput(f"{len(data)} samples with labels of shape {shape}")
        return data, labels.astype(np.int64)


def _array(content: Mapping[object, object], key: str) -> NDArray[Any]:
    """The NumPy array, or list of integers, of a key; Python 2 writes keys as bytes.

    Raises:
        UnreadableInput: no such key, or a plain value of another type.
        UnsafeCheckpoint: an object of another type.
    """
    name = key if key in content else key.encode()
    if name not in content:
        raise UnreadableInput(f"has no {key!r}", hint="this is another data set")
    value = content[name]
    if isinstance(value, list) and all(type(one) is int for one in value):
        return np.asarray(value)
    if not isinstance(value, Placeholder):
        kind = type(value).__name__
        raise UnreadableInput(f"has a {kind} in place of an array or a list of labels")
    if not value.name.endswith("multiarray._reconstruct"):
        what = f"wants to load {value.name}, which CIFAR files never do"
        raise UnsafeCheckpoint(what, hint="do not trust it")
    _, shape, dtype, _, raw = value.state
    if isinstance(raw, str):  # written by Python 2
        raw = raw.encode("latin1")
    array: NDArray[Any] = np.frombuffer(bytearray(raw), dtype.args[0]).reshape(shape)
    return array


@dataclass(frozen=True)
class Layout:
    """The files of a CIFAR data set in one of its layouts.

    Attributes:
        folder: folder name of the official archive.
        train: training files.
        test: test file.
        read: file → batch.
    """

    folder: str
    train: tuple[str, ...]
    test: str
    read: Callable[[Path], Batch]


def read_binary_batch(path: Path, label_bytes: int) -> Batch:
    """Read one batch file of the binary layout: records of labels and `PIXELS` bytes.

    Args:
        path: the file.
        label_bytes: labels per record; the last one is the fine label.

    Raises:
        UnreadableInput: not a whole number of records.
    """
    record = label_bytes + PIXELS
    raw = np.frombuffer(bytearray(read_file(path)), dtype=np.uint8)
    if raw.size == 0 or raw.size % record:
        what = f"{raw.size} bytes, not a whole number of records of {record}"
        hint = "the download is incomplete, or this is another data set"
        raise UnreadableInput(what, where=path, hint=hint)
    records = raw.reshape(-1, record)
    pixels = records[:, label_bytes:]
    labels = records[:, label_bytes - 1]
    return pixels, labels.astype(np.int64)


@dataclass(frozen=True)
class Cifar:
    """One of the two data sets.

    Attributes:
        classes: C.
        layouts: known layouts of its files.
        scaling: mean and standard deviation of the training pixels per channel.
    """

    classes: int
    layouts: Sequence[Layout]
    scaling: Scaling


_FIVE = tuple(f"data_batch_{i}" for i in range(1, 6))
CIFAR10 = Cifar(
    10,
    (
        Layout(
            "cifar-10-batches-bin",
            tuple(f"{name}.bin" for name in _FIVE),
            "test_batch.bin",
            partial(read_binary_batch, label_bytes=1),
        ),
        Layout(
            "cifar-10-batches-py",
            _FIVE,
            "test_batch",
            partial(read_pickle_batch, label_key="labels"),
        ),
    ),
    Scaling(
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
    ),
)
CIFAR100 = Cifar(
    100,
    (
        Layout(
            "cifar-100-binary",
            ("train.bin",),
            "test.bin",
            partial(read_binary_batch, label_bytes=2),
        ),
        Layout(
            "cifar-100-python",
            ("train",),
            "test",
            partial(read_pickle_batch, label_key="fine_labels"),
        ),
    ),
    Scaling(
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
    ),
)


def read_cifar(kind: Cifar, given: Path, scaling: Scaling) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Read a CIFAR folder in any of its layouts.

    Args:
        kind: which of the two.
        given: the folder, or the folder with the unpacked archive.
        scaling: of the pixels.

    Returns:
        Training images (N, 3, 32, 32) and (fine) labels (N,), test images and labels.

    Raises:
        UnreadableInput: no such folder, a missing file, or a file of the wrong size.
        UnsafeCheckpoint: a pickle that names objects other than arrays.

    Source: A. Krizhevsky's CIFAR page (layouts).
    """
    folder, layout = _find(given, kind.layouts)
    parts = []
    for names in (layout.train, [layout.test]):
        batches = [layout.read(folder / name) for name in names]
        pixels, labels = map(np.concatenate, zip(*batches, strict=True))
        images = torch.from_numpy(pixels.reshape(-1, 3, 32, 32))
        parts.append(standardised(images, scaling))
        parts.append(torch.from_numpy(labels))
    train_x, train_y, test_x, test_y = parts
    return train_x, train_y, test_x, test_y


def _find(folder: Path, layouts: Sequence[Layout]) -> tuple[Path, Layout]:
    """The first complete folder and layout.

    Raises:
        UnreadableInput: names the files missing from the most complete one.
    """
    if not is_folder(folder):
        raise UnreadableInput("no such folder", where=folder)
    fewest: list[str] = []
    for layout in layouts:
        for place in (folder, folder / layout.folder):
            files = [*layout.train, layout.test]
            missing = [name for name in files if not is_file(place / name)]
            if not missing:
                return place, layout
            if len(missing) == len(files):
                continue
            if not fewest or len(missing) < len(fewest):
                fewest = missing
                likeliest = place
    if fewest:
        what = f"missing {', '.join(fewest)}"
        raise UnreadableInput(what, where=likeliest, hint="unpack the whole archive there")
    known = []
    for layout in layouts:
        known.append(f"{layout.folder} ({layout.train[0]}, …, {layout.test})")
    what = f"none of the data set's files is here; missing {' or '.join(known)}"
    raise UnreadableInput(what, where=folder)


def standardised(pixels: Tensor, scaling: Scaling) -> Tensor:
    """(x/255 − mean)/std of bytes (N, 3, H, W), per channel, in float32."""
    mean = torch.tensor(scaling.mean)[:, None, None]
    std = torch.tensor(scaling.std)[:, None, None]
    x = pixels.float().div_(255.0)
    return x.sub_(mean).div_(std)
