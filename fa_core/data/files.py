"""A data set in a NumPy ``.npz`` archive.

scikit-learn's 8×8 handwritten digits: real images that need no download.

A data set from the user's own callable.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fa_core.data.dataset import DataSet, Option, at_least, from_arrays, parse_options
from fa_core.errors import UnreadableInput, UsageError, missing_package
from fa_core.user_code import import_callable

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


OPTIONS = {
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
    options = parse_options("digits", text, OPTIONS)
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


NAMES = ("train_x", "train_y", "test_x", "test_y")


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
