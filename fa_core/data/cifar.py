"""CIFAR-10 and CIFAR-100 files, binary or python layout; their pickles are read as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fa_core.decode import reading
from fa_core.errors import UnreadableInput, UnsafeCheckpoint
from fa_core.files import is_file, is_folder, read_file
from fa_core.measure.safe_unpickle import Archive, Placeholder


def read_pickle_batch(path: Path, label_key: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels (N, `PIXELS`) and labels (N,) of one batch file.

    Args:
        path: the file.
        label_key: ``"labels"`` (CIFAR-10) or ``"fine_labels"`` (CIFAR-100).

    Raises:
        UnsafeCheckpoint: the pickle wants something other than arrays; nothing of it was run.
        UnreadableInput: not a pickle, a key missing, or arrays of the wrong shape.
    """
    with reading(path, "not a CIFAR batch"):
        content = Archive(bytearray(read_file(path))).pickled()
        if not isinstance(content, dict):
            raise UnreadableInput(f"holds a {type(content).__name__}, not a dict")
        data = _array(_value(content, "data"))
        labels = _array(_value(content, label_key))
        if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != PIXELS:
            raise UnreadableInput(f"data is {data.dtype}{list(data.shape)}, not uint8[N, {PIXELS}]")
        if labels.shape != data.shape[:1] or labels.dtype.kind not in "iu":
            raise UnreadableInput(f"{len(data)} samples with labels of shape {list(labels.shape)}")
        return data, labels.astype(np.int64)


def _value(content: dict[Any, Any], key: str) -> object:
    """The value of a key, which Python 2 wrote as bytes."""
    for name in (key, key.encode()):
        if name in content:
            return content[name]
    raise UnreadableInput(f"has no {key!r}", hint="this is another data set")


def _array(value: object) -> NDArray[Any]:
    """The array of a list of integers, or of a pickled NumPy array; text of Python 2 is latin-1.

    Raises:
        UnsafeCheckpoint: an object of another kind.
    """
    if isinstance(value, list) and all(type(one) is int for one in value):
        return np.asarray(value)
    if not isinstance(value, Placeholder):
        raise UnreadableInput(
            f"has a {type(value).__name__} in place of an array or a list of labels"
        )
    if not value.name.endswith("multiarray._reconstruct"):
        raise UnsafeCheckpoint(
            f"wants to load {value.name}, which CIFAR files never do", hint="do not trust it"
        )
    _, shape, kind, _, raw = value.state
    if isinstance(raw, str):
        raw = raw.encode("latin1")
    array: NDArray[Any] = np.frombuffer(bytearray(raw), kind.args[0]).reshape(shape)
    return array


PIXELS = 3 * 32 * 32
Triple = tuple[float, ...]
"""A value per channel, or one for all."""
Bytes = NDArray[np.uint8]
Batch = tuple[Bytes, NDArray[np.int64]]


@dataclass(frozen=True)
class Layout:
    """One way in which a CIFAR data set lies in a folder.

    Attributes:
        folder: the name the official archive unpacks to.
        train: its training files.
        test: its test file.
        read: file → (pixels (N, 3072), labels (N,)).
    """

    folder: str
    train: tuple[str, ...]
    test: str
    read: Callable[[Path], Batch]


def _read_binary(label_bytes: int) -> Callable[[Path], Batch]:
    """Records of `label_bytes` labels (the last one is the fine label) and 3072 pixels."""
    record = label_bytes + PIXELS

    def read(path: Path) -> Batch:
        raw = np.frombuffer(bytearray(read_file(path)), dtype=np.uint8)
        if raw.size == 0 or raw.size % record:
            hint = "the download is incomplete, or this is another data set"
            raise UnreadableInput(
                f"{raw.size} bytes, not a whole number of records of {record}",
                where=path,
                hint=hint,
            )
        records = raw.reshape(-1, record)
        return records[:, label_bytes:], records[:, label_bytes - 1].astype(np.int64)

    return read


@dataclass(frozen=True)
class Cifar:
    """One of the two data sets.

    Attributes:
        classes: C.
        layouts: in which its files may lie.
        mean: of the training pixels per channel, in [0, 1].
        std: their standard deviation.
    """

    classes: int
    layouts: Sequence[Layout]
    mean: Triple
    std: Triple


_FIVE = tuple(f"data_batch_{i}" for i in range(1, 6))
CIFAR10 = Cifar(
    10,
    (
        Layout(
            "cifar-10-batches-bin",
            tuple(f"{name}.bin" for name in _FIVE),
            "test_batch.bin",
            _read_binary(1),
        ),
        Layout(
            "cifar-10-batches-py",
            _FIVE,
            "test_batch",
            partial(read_pickle_batch, label_key="labels"),
        ),
    ),
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
)
CIFAR100 = Cifar(
    100,
    (
        Layout("cifar-100-binary", ("train.bin",), "test.bin", _read_binary(2)),
        Layout(
            "cifar-100-python",
            ("train",),
            "test",
            partial(read_pickle_batch, label_key="fine_labels"),
        ),
    ),
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
)


def read_cifar(
    kind: Cifar, given: Path, mean: Triple, std: Triple
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Read a CIFAR folder in whichever layout it holds.

    Args:
        kind: which of the two.
        given: the folder, or the folder that holds the unpacked archive.
        mean, std: of pixels in [0, 1], per channel, for standardising.

    Returns:
        Training images (N, 3, 32, 32), standardised per channel, and (fine) labels (N,); the same
        of the test part.

    Raises:
        UnreadableInput: no such folder, a file missing (it is named), a file of the wrong size.
        UnsafeCheckpoint: a pickle that would load something other than arrays.

    Source: the layouts as described on the CIFAR page of A. Krizhevsky.
    """
    folder, layout = _find(given, kind.layouts)
    train = [layout.read(folder / name) for name in layout.train]
    pixels = np.concatenate([x for x, _ in train])
    labels = np.concatenate([y for _, y in train])
    test_pixels, test_labels = layout.read(folder / layout.test)
    return (
        _images(pixels, mean, std),
        torch.from_numpy(labels),
        _images(test_pixels, mean, std),
        torch.from_numpy(test_labels),
    )


def _images(pixels: Bytes, mean: Triple, std: Triple) -> Tensor:
    return standardised(torch.from_numpy(pixels.reshape(-1, 3, 32, 32)), mean, std)


def _find(folder: Path, layouts: Sequence[Layout]) -> tuple[Path, Layout]:
    """The folder and layout that are complete, or an error that names what is missing from the
    likeliest one."""
    if not is_folder(folder):
        raise UnreadableInput("no such folder", where=folder)
    fewest: list[str] | None = None
    for layout in layouts:
        for place in (folder, folder / layout.folder):
            files = [*layout.train, layout.test]
            missing = [name for name in files if not is_file(place / name)]
            if not missing:
                return place, layout
            if len(missing) < len(files) and (fewest is None or len(missing) < len(fewest)):
                fewest, likeliest = missing, place
    if fewest is not None:
        raise UnreadableInput(
            f"missing {', '.join(fewest)}", where=likeliest, hint="unpack the whole archive there"
        )
    known = []
    for layout in layouts:
        known.append(f"{layout.folder} ({layout.train[0]}, …, {layout.test})")
    raise UnreadableInput(
        f"none of the data set's files is here; missing {' or '.join(known)}", where=folder
    )


def standardised(pixels: Tensor, mean: Triple, std: Triple) -> Tensor:
    """(x/255 − mean)/std of bytes (N, 3, H, W), per channel, in float32."""
    shift = torch.tensor(mean).view(1, -1, 1, 1)
    scale = torch.tensor(std).view(1, -1, 1, 1)
    return pixels.float().div_(255.0).sub_(shift).div_(scale)
