"""Data sets by data spec.

synthetic[:alpha=1.0,input=128,ambient=0,train=50000,test=10000,seed=0]   the teacher-student task
cifar10:DIR[,raw] or [,mean=0.4914/0.4822/0.4465,std=0.2023/0.1994/0.2010]   cifar100:DIR[…]
digits[:test=360,seed=0]
imagefolder:DIR[,size=224,mean=…,std=…]   npz:FILE   module:callable   NAME[:…] of a plugin
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np
import torch

from fa_core.data.cifar import CIFAR10, CIFAR100, Cifar, read_cifar, standardised
from fa_core.data.data_spec import (
    SCALING,
    Option,
    at_least,
    folder_of,
    parse_options,
    scaled_by,
)
from fa_core.data.dataset import NAMES, DataSet, GivenBatches, from_arrays, made_data
from fa_core.data.image_folder import read_images
from fa_core.data.synthetic import load_synthetic
from fa_core.decode import reading
from fa_core.errors import UnreadableInput, UsageError, missing_package
from fa_core.files import check_room, open_file, real_path, size_of, typed_path
from fa_core.option_values import check_data_set, import_callable
from fa_core.plugins import DATA, load_plugin, plugins

_SPELLINGS = (NAMES, ("x_train", "y_train", "x_test", "y_test"))


def load_npz(spec: str, text: str) -> DataSet:
    """Read train_x, train_y, test_x, test_y (or x_train, y_train, ...) from an archive; nothing in
    it can run code.

    Args:
        spec: the whole data spec; the data set keeps it with an absolute path.
        text: the file.

    Raises:
        UsageError: no file named.
        UnreadableInput: not an archive, an array missing, or arrays of objects.
    """
    if not text:
        raise UsageError("npz needs a file", hint="write npz:FILE")
    path = real_path(typed_path(text))
    with reading(path, "not an .npz archive of numbers"), open_file(path) as file:
        archive = np.load(file, allow_pickle=False)
        for names in _SPELLINGS:
            if set(names) <= set(archive.files):
                _check_arrays(archive.zip, names, size_of(file))
                return from_arrays(f"npz:{path}", *(archive[name] for name in names))
        found = ", ".join(archive.files[:MOST_NAMED]) or "nothing"
    raise UnreadableInput(f"holds {found}", where=path, hint=f"needs {', '.join(NAMES)}")


MOST_NAMED = 20
"""Arrays that a message names."""

_FLOATS = 8
"""Bytes that a number takes on its way into a tensor of float32, scaled."""


def _check_arrays(archive: zipfile.ZipFile, names: Iterable[str], size: int) -> None:
    """Refuse arrays before they take memory: by their headers, which may state any shape.

    Args:
        archive: an opened ``.npz`` file.
        names: the arrays.
        size: the file's, in bytes.

    Raises:
        ValueError: an array that is shorter than its header states.
        UnreadableInput: more than such a file may hold; see `check_room`.
    """
    needed = 0
    for name in names:
        entry = archive.getinfo(f"{name}.npy")
        with archive.open(entry) as member:
            read = np.lib.format.read_array_header_1_0
            if np.lib.format.read_magic(member) != (1, 0):
                read = np.lib.format.read_array_header_2_0
            shape, _, dtype = read(member)
        count = math.prod(shape)
        if count * dtype.itemsize > entry.file_size:
            raise ValueError(f"{name} is shorter than its shape {shape}")
        needed += count * (dtype.itemsize + _FLOATS)
    check_room(needed, size, "save it with np.savez, which does not compress")


_DIGITS = {
    # of 1797
    "test": Option(360, at_least(1)),
    # draws the split
    "seed": Option(0, at_least(0)),
}


def load_digits(spec: str, text: str) -> DataSet:
    """1797 images of 8×8 grey levels 0..16, scaled to [0, 1]: (N, 1, 8, 8), 10 classes.

    Args:
        spec: the whole data spec, kept in the data set.
        text: its options, e.g. ``"test=500"``.

    Raises:
        UsageError: scikit-learn is not installed, unknown option, or no training samples left.
    """
    options = parse_options("digits", text, _DIGITS)
    try:
        from sklearn import datasets
    except ImportError:
        raise missing_package("scikit-learn", "the data set digits") from None
    images, labels = datasets.load_digits(return_X_y=True)
    test = int(options["test"])
    if test >= len(labels):
        raise UsageError(f"test={test} leaves no training samples of {len(labels)}", where=spec)
    order = np.random.Generator(np.random.PCG64(int(options["seed"]))).permutation(len(labels))
    x = torch.from_numpy((images[order] / 16.0).astype(np.float32)).reshape(-1, 1, 8, 8)
    y = torch.from_numpy(labels[order].astype(np.int64))
    return DataSet(spec, x[test:], y[test:], x[:test], y[:test], 10)


def load_cifar(kind: Cifar, spec: str, text: str) -> DataSet:
    """CIFAR-10, or CIFAR-100 with its 100 fine labels: (N, 3, 32, 32) standardised per channel.

    Args:
        kind: which of the two.
        spec: the whole data spec; the data set keeps it with an absolute path, valid from anywhere.
        text: the folder, or the folder that holds the unpacked archive; then `SCALING`, or ``raw``.

    Raises:
        UsageError: no folder named, or an unknown option.
        UnreadableInput, UnsafeCheckpoint: as `read_cifar`.
    """
    own = {
        "mean": SCALING["mean"]._replace(default=kind.mean),
        "std": SCALING["std"]._replace(default=kind.std),
    }
    folder, options, full = folder_of(spec, text, own)
    arrays = read_cifar(kind, folder, options["mean"], options["std"])
    return DataSet(full, *arrays, kind.classes, scaled_by(options))


_SIZE = Option(None, at_least(1))
"""What the shorter side is resized to; then the centre is cut out."""


def load_images(spec: str, text: str, train: bool = False) -> DataSet:
    """Images in a folder per class, DIR/test/CLASS (or ``val``; else DIR/CLASS) and
    DIR/train/CLASS.

    Args:
        spec: the whole data spec.
        text: the folder and options, e.g. ``DIR,size=32,mean=0.5,std=0.25``.
        train: whether to read the training part; without it that part is empty.

    Returns:
        (N, 3, H, W) in [0, 1], or standardised; classes are numbered by their names in order.

    Raises:
        UsageError: no folder named, or an unknown option.
        UnreadableInput: as `read_images`, or other classes in the two parts.
    """
    root, options, full = folder_of(spec, text, {"size": _SIZE, **SCALING})
    place = root
    for part in ("val", "test"):
        if (root / part).is_dir():
            place = root / part
    size, mean, std = options["size"], options["mean"], options["std"]
    x, y, classes = read_images(place, size)
    train_x, train_y = x[:0], y[:0]
    if train:
        train_x, train_y, same = read_images(root / "train", size)
        if same != classes:
            raise UnreadableInput("holds other classes than the training part", where=place)
    return DataSet(
        full,
        standardised(train_x, mean, std),
        train_y,
        standardised(x, mean, std),
        y,
        len(classes),
        scaled_by(options),
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
    """The data set that a data spec names, with its training part.

    Args:
        spec: as above.
        allow_code: whether ``module:callable`` or a plugin may be imported: only for a spec that
            the user typed, never for one read from a file.

    Raises:
        UsageError: unknown name or option, user code where none is allowed, or test batches alone.
        UnreadableInput: the files are missing, incomplete or of the wrong layout.
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
    """The data that a spec names, for measuring; the training part may be empty unless asked for.
    As `load_data`."""
    name, _, rest = spec.partition(":")
    if name == "imagefolder":
        return load_images(spec, rest, train)
    if name in DATA_LOADERS:
        return DATA_LOADERS[name](spec, rest)
    check_data_set(spec)
    if not allow_code:
        hint = f"type it yourself if you trust it: --data {spec}"
        raise UsageError(
            f"the data set {spec!r} is the user's code, and code named by a file is never run",
            hint=hint,
        )
    brought = plugins(DATA)
    if name in brought:
        return made_data(spec, load_plugin(brought[name])(rest))
    return made_data(spec, import_callable(spec, "--data")())
