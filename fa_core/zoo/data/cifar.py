"""CIFAR-10 and CIFAR-100 files, binary or python layout; pickles are read without running code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fa_core.errors import UnreadableInput, UnsafeCheckpoint
from fa_core.files.decode import reading
from fa_core.files.inert import Archive, Placeholder
from fa_core.files.opening import is_file, is_folder, read_file
from fa_core.zoo.data.dataset import Scaling

PIXELS = 3 * 32 * 32
Batch = tuple[NDArray[np.uint8], NDArray[np.int64]]
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
        content = Archive(bytearray(read_file(path))).pickled()
        if not isinstance(content, dict):
            raise UnreadableInput(f"holds a {type(content).__name__}, not a dict")
        data = _array(content, "data")
        labels = _array(content, label_key)
        shape = list(data.shape)
        if data.dtype != np.uint8 or shape != [len(data), PIXELS]:
            raise UnreadableInput(f"data is {data.dtype}{shape}, not uint8[N, {PIXELS}]")
        if labels.shape != data.shape[:1] or labels.dtype.kind not in "iu":
            raise UnreadableInput(f"{len(data)} samples with labels of shape {list(labels.shape)}")
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
        raise UnsafeCheckpoint(
            f"wants to load {value.name}, which CIFAR files never do", hint="do not trust it"
        )
    _, shape, dtype, by_columns, raw = value.state
    if isinstance(raw, str):  # written by Python 2
        raw = raw.encode("latin1")
    _, order, *_ = dtype.state
    values = np.frombuffer(raw, np.dtype(dtype.args[0]).newbyteorder(order))
    array: NDArray[Any] = values.reshape(shape, order="F" if by_columns else "C")
    return array


def read_binary_batch(path: Path, label_bytes: int) -> Batch:
    """Read one batch file of the binary layout: records of labels and `PIXELS` bytes.

    Args:
        path: the file.
        label_bytes: labels per record; the last one is the fine label.

    Raises:
        UnreadableInput: not a whole number of records.
    """
    record = label_bytes + PIXELS
    raw = np.frombuffer(read_file(path), dtype=np.uint8)
    if raw.size == 0 or raw.size % record:
        raise UnreadableInput(
            f"{raw.size} bytes, not a whole number of records of {record}",
            where=path,
            hint="the download is incomplete, or this is another data set",
        )
    records = raw.reshape(-1, record)
    return records[:, label_bytes:], records[:, label_bytes - 1].astype(np.int64)


class Cifar(NamedTuple):
    """One of the two data sets.

    Attributes:
        classes: C.
        folders: folder names of the official archives, in the binary and the python layout.
        train: training files; those of the binary layout end in ``.bin``.
        test: test file.
        label_bytes: labels per record of the binary layout.
        label_key: name of the labels in the python layout.
        scaling: mean and standard deviation of the training pixels per channel.
    """

    classes: int
    folders: tuple[str, str]
    train: Sequence[str]
    test: str
    label_bytes: int
    label_key: str
    scaling: Scaling


CIFAR10 = Cifar(
    10,
    ("cifar-10-batches-bin", "cifar-10-batches-py"),
    [f"data_batch_{i}" for i in range(1, 6)],
    "test_batch",
    1,
    "labels",
    Scaling((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
)
CIFAR100 = Cifar(
    100,
    ("cifar-100-binary", "cifar-100-python"),
    ["train"],
    "test",
    2,
    "fine_labels",
    Scaling((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
)


def read_cifar(kind: Cifar, given: Path, scaling: Scaling) -> list[Tensor]:
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
    batches = []
    for path in _find(given, kind):
        if path.suffix:
            batches.append(read_binary_batch(path, kind.label_bytes))
        else:
            batches.append(read_pickle_batch(path, kind.label_key))
    parts = []
    for part in (batches[:-1], batches[-1:]):
        pixels, labels = map(np.concatenate, zip(*part, strict=True))
        images = torch.from_numpy(pixels.reshape(-1, 3, 32, 32))
        parts += [standardised(images, scaling), torch.from_numpy(labels)]
    return parts


def _find(folder: Path, kind: Cifar) -> list[Path]:
    """The files of the first complete layout, the test file last.

    Raises:
        UnreadableInput: names the files missing from the most complete one.
    """
    if not is_folder(folder):
        raise UnreadableInput("no such folder", where=folder)
    tried: list[tuple[Path, list[str]]] = []
    for name, suffix in zip(kind.folders, (".bin", ""), strict=True):
        for place in (folder, folder / name):
            paths = [place / f"{file}{suffix}" for file in (*kind.train, kind.test)]
            missing = [path.name for path in paths if not is_file(path)]
            if not missing:
                return paths
            tried.append((place, missing))
    place, missing = min(tried, key=lambda one: len(one[1]))
    raise UnreadableInput(
        f"missing {', '.join(missing)}", where=place, hint="unpack the whole archive there"
    )


def standardised(pixels: Tensor, scaling: Scaling) -> Tensor:
    """(x/255 − mean)/std of bytes (N, 3, H, W), per channel, in float32."""
    mean = torch.tensor(scaling.mean)[:, None, None]
    std = torch.tensor(scaling.std)[:, None, None]
    return pixels.float().div_(255.0).sub_(mean).div_(std)
