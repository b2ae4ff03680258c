"""Data sets by their data specs.

synthetic[:alpha=1.0,input=128,ambient=0,train=50000,test=10000,seed=0]   the teacher-student task
cifar10:DIR[,raw] or [,mean=0.4914/0.4822/0.4465,std=0.2023/0.1994/0.2010]   cifar100:DIR[…]
digits[:test=360,seed=0]
imagefolder:DIR[,size=224,mean=…,std=…]   npz:FILE   module:callable   NAME[:…] of a plugin
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fa_core.errors import UnreadableInput, UsageError, missing_package
from fa_core.files.decode import reading
from fa_core.files.inert import zip_entries
from fa_core.files.opening import (
    check_room,
    is_folder,
    open_file,
    real_path,
    size_of,
    typed_path,
)
from fa_core.option_values import (
    DATA,
    check_data_set,
    import_callable,
    is_drawn,
    load_plugin,
    plugins,
)
from fa_core.report.numbers import listed
from fa_core.report.provenance import Count
from fa_core.zoo.data.cifar import CIFAR10, CIFAR100, Cifar, read_cifar, standardised
from fa_core.zoo.data.dataset import (
    NAMES,
    DataSet,
    GivenBatches,
    Scaling,
    from_arrays,
    made_data,
    parse_folder,
)
from fa_core.zoo.data.image_folder import read_images
from fa_core.zoo.data.synthetic import load_synthetic

_SPELLINGS = (NAMES, ("x_train", "y_train", "x_test", "y_test"))


def load_npz(spec: str, text: str) -> DataSet:
    """Read train_x, train_y, test_x, test_y (or x_train, y_train, ...) without running code.

    Args:
        spec: the whole data spec.
        text: the file.

    Raises:
        UsageError: no file named.
        UnreadableInput: not an archive, two arrays of one name, a missing array, arrays of objects,
            or labels far beyond the file's size.
    """
    if not text:
        raise UsageError("npz needs a file", hint="write npz:FILE")
    path = real_path(typed_path(text))
    with reading(path, "not an .npz archive of numbers"), open_file(path) as file:
        held = zip_entries(file)
        entries = {entry.filename.removesuffix(".npy"): entry for entry in held}
        if len(entries) < len(held):
            raise ValueError("two arrays of one name")
        for names in _SPELLINGS:
            if set(names) <= entries.keys():
                arrays = _arrays(file, [entries[name] for name in names])
                data = from_arrays(f"npz:{path}", *arrays)
                # a network has outputs, with their states, for each
                check_room(data.num_classes << 10, size_of(file), "number the classes from 0")
                return data
        found = listed(entries)
    raise UnreadableInput(
        f"holds {found or 'nothing'}", where=path, hint=f"needs {', '.join(NAMES)}"
    )


_FLOATS = 8
"""Bytes per number for its conversion to a scaled float32."""


def _arrays(file: BinaryIO, entries: Sequence[zipfile.ZipInfo]) -> list[NDArray[Any]]:
    """Arrays of an archive, within the memory for such a file; a header may state any shape.

    Raises:
        ValueError: not an array of numbers, or shorter than its header states.
        UnreadableInput: see `check_room`.
    """
    needed = 0
    arrays = []
    hint = "save it with np.savez, which does not compress"
    with zipfile.ZipFile(file) as archive:
        for entry in entries:
            with archive.open(entry) as member:
                # the only version for numbers; others state the length of a header of any size
                if np.lib.format.read_magic(member) != (1, 0):
                    raise ValueError(f"{entry.filename} is no array of numbers")
                shape, by_column, dtype = np.lib.format.read_array_header_1_0(member)
                numbers = entry.file_size // max(1, dtype.itemsize)
                needed += entry.file_size + _FLOATS * numbers
                check_room(needed, size_of(file), hint)
                # of the bytes that are there, whatever the shape
                array: NDArray[Any] = np.frombuffer(bytearray(member.read()), dtype)
            arrays.append(array.reshape(shape, order="F" if by_column else "C"))
    return arrays


TESTED = 360
"""Test samples of ``digits``, of 1797."""


def load_digits(spec: str, text: str) -> DataSet:
    """1797 images of 8×8 grey levels 0..16, scaled to [0, 1]: (N, 1, 8, 8), 10 classes.

    Args:
        spec: the whole data spec.
        text: ``""``: there are no options.

    Raises:
        UsageError: scikit-learn is not installed, or an option.
    """
    if text:
        raise UsageError("digits has no options", where=spec, hint="write digits")
    try:
        from sklearn import datasets
    except ImportError:
        raise missing_package("scikit-learn", "the data set digits") from None
    images, labels = datasets.load_digits(return_X_y=True)
    order = np.random.Generator(np.random.PCG64(0)).permutation(len(labels))
    x = (images[order] / 16.0).reshape(-1, 1, 8, 8)
    y = labels[order]
    return from_arrays(spec, x[TESTED:], y[TESTED:], x[:TESTED], y[:TESTED])


def load_cifar(kind: Cifar, spec: str, text: str) -> DataSet:
    """CIFAR-10, or CIFAR-100 with its 100 fine labels: (N, 3, 32, 32), standardised per channel.

    Args:
        kind: which of the two.
        spec: the whole data spec.
        text: the folder, or the folder with the unpacked archive; then `Scaling`, or ``raw``.

    Raises:
        UsageError: no folder named, or an unknown option.
        UnreadableInput, UnsafeCheckpoint: as `read_cifar`.
    """
    folder, scaling, full = parse_folder(spec, text, kind.scaling)
    train_x, train_y, test_x, test_y = read_cifar(kind, folder, scaling)
    return DataSet(full, train_x, train_y, test_x, test_y, kind.classes, str(scaling))


class ImageOptions(Scaling, frozen=True):
    """Options of ``imagefolder``: resize the shorter side to `size`, then cut out the square
    centre; None = neither."""

    size: Count | None = None


def load_images(spec: str, text: str, train: bool = False, typed: bool = True) -> DataSet:
    """Images in a folder per class: DIR/train/CLASS; DIR/test/CLASS, DIR/val/CLASS or DIR/CLASS.

    Args:
        spec: the whole data spec.
        text: the folder and options, e.g. ``DIR,size=32,mean=0.5,std=0.25``.
        train: whether to read the training part, which is empty otherwise.
        typed: whether the user typed the spec.

    Returns:
        (N, 3, H, W) in [0, 1], or standardised; classes are numbered in the order of their names.

    Raises:
        UsageError: no folder named, or an unknown option.
        UnreadableInput: as `read_images`, or the classes of the two parts differ.
    """
    root, options, full = parse_folder(spec, text, ImageOptions())
    place = next(filter(is_folder, (root / "test", root / "val")), root)
    x, y, classes = read_images(place, options.size, typed)
    train_x = x[:0]
    train_y = y[:0]
    if train:
        train_x, train_y, train_classes = read_images(root / "train", options.size, typed)
        if train_classes != classes:
            raise UnreadableInput("holds other classes than the training part", where=place)
    return DataSet(
        full,
        train_x=standardised(train_x, options),
        train_y=train_y,
        test_x=standardised(x, options),
        test_y=y,
        num_classes=len(classes),
        scaling=str(options),
    )


DATA_LOADERS: Mapping[str, Callable[[str, str], DataSet]] = {
    "synthetic": load_synthetic,
    "cifar10": partial(load_cifar, CIFAR10),
    "cifar100": partial(load_cifar, CIFAR100),
    "imagefolder": load_images,
    "digits": load_digits,
    "npz": load_npz,
}


def load_data(spec: str, *, allow_code: bool = False) -> DataSet:
    """The data set of a data spec, with its training part.

    Args:
        spec: see the module.
        allow_code: whether ``module:callable`` or a plugin may be imported; only for a spec that
            the user typed, never for one from a file.

    Raises:
        UsageError: unknown name or option, code that is not allowed, or test batches alone.
        UnreadableInput: missing or incomplete files, or a wrong layout.
    """
    data = load_test_data(spec, allow_code=allow_code, train=True)
    if isinstance(data, GivenBatches):
        raise UsageError(
            f"{spec} gives test batches alone", hint=f"to train, return ({', '.join(NAMES)})"
        )
    return data


def load_test_data(
    spec: str, *, allow_code: bool = False, train: bool = False
) -> DataSet | GivenBatches:
    """As `load_data`, for measuring: test batches are accepted, and `train` may be left out."""
    name, _, rest = spec.partition(":")
    if name == "imagefolder":
        return load_images(spec, rest, train, allow_code)
    if is_drawn(spec):
        return load_synthetic(spec, rest, allow_code)
    if name in DATA_LOADERS:
        return DATA_LOADERS[name](spec, rest)
    check_data_set(spec)
    if not allow_code:
        raise UsageError(
            f"the data set {spec!r} is the user's code, and code named by a file is never run",
            hint=f"type it yourself if you trust it: --data {spec}",
        )
    installed = plugins(DATA)
    if name in installed:
        made = load_plugin(installed[name])(rest)
    else:
        made = import_callable(spec)()
    return made_data(spec, made)
