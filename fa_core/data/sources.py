"""Which data set a SPEC names: the teacher-student task, digits, archives, the user's own callable, and CIFAR.

synthetic[:alpha=1.0,input=128,train=50000,test=10000,seed=0]
cifar10:DIR   cifar100:DIR   digits[:test=360,seed=0]   npz:FILE   module:callable
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fa_core.data.cifar import load_cifar10, load_cifar100
from fa_core.data.dataset import DataSet, Option, at_least, from_arrays, parse_options
from fa_core.errors import UnreadableInput, UsageError, missing_package
from fa_core.naming import import_callable, is_callable_name, unknown_name

_SYNTHETIC = {
    "alpha": Option(1.0, float, "nonlinearity of the teacher, in [0, 1]"),
    "input": Option(128, at_least(1), "input dimension"),
    "train": Option(50_000, at_least(1), "training samples"),
    "test": Option(10_000, at_least(1), "test samples"),
    "seed": Option(0, at_least(0), "draws teacher and samples"),
}
WIDTH = 256
CLASSES = 10


def load_synthetic(spec: str, text: str) -> DataSet:
    """Gaussian inputs labelled by a random three-layer teacher.

    x ~ N(0, I);  z1 = φ(2·x W1);  z2 = φ(3·z1 W2);  label = argmax z2 W3,
    φ(z) = (1−α)·z + α·tanh(z),  W_i with N(0, 1/fan_in) entries, widths 256, 256, 10.

    Args:
        spec: the whole SPEC, kept in the data set.
        text: its options, e.g. ``"alpha=0.5,input=16"``.

    Returns:
        train_x (50000, input), test_x (10000, input), labels in 0..9. Drawn with NumPy in float64
        and labelled before rounding to float32, so that machines agree.

    Raises:
        UsageError: unknown option, or a value out of range.

    Source: docs/protocol.md §7.
    """
    options = parse_options("synthetic", text, _SYNTHETIC)
    alpha, inputs = float(options["alpha"]), int(options["input"])
    if not 0.0 <= alpha <= 1.0:
        raise UsageError(f"alpha={alpha:g} lies outside [0, 1]", where=spec)
    train, test = int(options["train"]), int(options["test"])
    rng = np.random.Generator(np.random.PCG64(int(options["seed"])))
    shapes = ((inputs, WIDTH), (WIDTH, WIDTH), (WIDTH, CLASSES))
    weights = [rng.standard_normal(shape) / np.sqrt(shape[0]) for shape in shapes]
    x = rng.standard_normal((train + test, inputs))
    y = np.concatenate([_teacher_labels(chunk, weights, alpha) for chunk in np.array_split(x, max(1, len(x) // 4096))])
    samples, labels = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)
    return DataSet(spec, samples[:train], labels[:train], samples[train:], labels[train:], CLASSES)


def _teacher_labels(x: NDArray[np.float64], weights: list[NDArray[np.float64]], alpha: float) -> NDArray[np.int64]:
    w1, w2, w3 = weights
    z1 = _phi(2.0 * (x @ w1), alpha)
    z2 = _phi(3.0 * (z1 @ w2), alpha)
    return np.asarray(np.argmax(z2 @ w3, axis=1), dtype=np.int64)


def _phi(z: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    return (1.0 - alpha) * z + alpha * np.tanh(z)


_SPELLINGS = (("train_x", "train_y", "test_x", "test_y"), ("x_train", "y_train", "x_test", "y_test"))


def load_npz(spec: str, text: str) -> DataSet:
    """Read train_x, train_y, test_x, test_y (or x_train, y_train, ...) from an archive; nothing in it can run code.

    Args:
        spec: the whole SPEC; the data set keeps it with an absolute path.
        text: the file.

    Raises:
        UsageError: no file named.
        UnreadableInput: not an archive, an array missing, or arrays of objects.
    """
    if not text:
        raise UsageError("npz needs a file", hint="write npz:FILE")
    path = Path(text).expanduser().resolve()
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise UnreadableInput("a single array, not an .npz archive", where=path)
            for names in _SPELLINGS:
                if set(names) <= set(archive.files):
                    return from_arrays(f"npz:{path}", *(archive[name] for name in names))
            found = ", ".join(archive.files) or "nothing"
    except OSError as error:
        raise UnreadableInput(f"cannot read it ({error.strerror or error})", where=path) from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UnreadableInput(f"not an .npz archive of numbers ({error})", where=path) from error
    raise UnreadableInput(f"holds {found}", where=path, hint=f"needs {', '.join(_SPELLINGS[0])}")


_DIGITS = {
    "test": Option(360, at_least(1), "test samples, of 1797"),
    "seed": Option(0, at_least(0), "draws the split"),
}


def load_digits(spec: str, text: str) -> DataSet:
    """1797 images of 8×8 grey levels 0..16, scaled to [0, 1]: (N, 1, 8, 8), 10 classes.

    Args:
        spec: the whole SPEC, kept in the data set.
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


NAMES = _SPELLINGS[0]


def load_user_data(spec: str) -> DataSet:
    """Call ``module:callable`` without arguments and take what it returns for a data set.

    Args:
        spec: ``module:callable``, as typed.

    Returns:
        The `DataSet` it returned, or one made of (train_x, train_y, test_x, test_y) arrays or
        tensors, as a tuple or as a mapping with these keys.

    Raises:
        UsageError: it cannot be imported.
        UnreadableInput: it returned something else.
    """
    made: Any = import_callable(spec, "--data")()
    if isinstance(made, DataSet):
        return made
    if isinstance(made, dict) and set(NAMES) <= set(made):
        made = tuple(made[name] for name in NAMES)
    if not isinstance(made, tuple | list) or len(made) != len(NAMES):
        raise UnreadableInput(
            f"returned {type(made).__name__}, not a data set", where=spec, hint=f"return ({', '.join(NAMES)})"
        )
    return from_arrays(spec, *made)


SPECS: Mapping[str, Callable[[str, str], DataSet]] = {
    "synthetic": load_synthetic,
    "cifar10": load_cifar10,
    "cifar100": load_cifar100,
    "digits": load_digits,
    "npz": load_npz,
}


def load_data(spec: str, *, allow_code: bool = False) -> DataSet:
    """The data set a SPEC names.

    Args:
        spec: as above.
        allow_code: whether ``module:callable`` may be imported: only for a SPEC that the user typed,
            never for one read from a file.

    Raises:
        UsageError: unknown name or option, or user code where none is allowed.
        UnreadableInput: the files are missing, incomplete or of the wrong layout.
    """
    name, _, rest = spec.partition(":")
    if name in SPECS:
        return SPECS[name](spec, rest)
    if not is_callable_name(spec):
        raise unknown_name("data set", name, [*SPECS, "module:callable"])
    if not allow_code:
        raise UsageError(
            f"the data set {spec!r} is the user's code, and code named by a file is never run",
            hint=f"type it yourself if you trust it: --data {spec}",
        )
    return load_user_data(spec)
