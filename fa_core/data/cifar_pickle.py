"""One file of the python layout of CIFAR, unpickled without the power to run anything."""

from __future__ import annotations

import codecs
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fa_core.errors import UnreadableInput, UnsafeCheckpoint

# What a pickled dict of NumPy arrays needs, under the names of NumPy 1 and 2.
_RECONSTRUCT = np.empty(0).__reduce__()[0]
_ALLOWED = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("_codecs", "encode"): codecs.encode,
}


class _ArraysOnly(pickle.Unpickler):
    """Builds dicts, lists, numbers, bytes and NumPy arrays; refuses everything else by name."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise UnsafeCheckpoint(f"wants to load {module}.{name}") from None


def read_pickle_batch(path: Path, label_key: bytes, pixels: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels (N, `pixels`) and labels (N,) of one batch file.

    Args:
        path: the file.
        label_key: ``b"labels"`` (CIFAR-10) or ``b"fine_labels"`` (CIFAR-100).
        pixels: values per sample.

    Raises:
        UnsafeCheckpoint: the pickle wants something other than arrays; nothing of it was run.
        UnreadableInput: not a pickle, a key missing, or arrays of the wrong shape.
    """
    try:
        with path.open("rb") as file:
            # The originals were written by Python 2: their text is bytes here.
            content = _ArraysOnly(file, encoding="bytes").load()
    except UnsafeCheckpoint as error:
        raise UnsafeCheckpoint(
            f"{error.what}, which CIFAR files never do", where=path, hint="do not trust it"
        ) from None
    except OSError as error:
        raise UnreadableInput(f"cannot read it ({error.strerror})", where=path) from error
    except Exception as error:
        raise UnreadableInput(f"not a CIFAR batch ({type(error).__name__}: {error})", where=path) from error
    if not isinstance(content, dict):
        raise UnreadableInput(f"holds a {type(content).__name__}, not a dict", where=path)
    found = {key.encode() if isinstance(key, str) else key: value for key, value in content.items()}
    for key in (b"data", label_key):
        if key not in found:
            raise UnreadableInput(f"has no {key.decode()!r}", where=path, hint="this is another data set")
    data, labels = found[b"data"], np.asarray(found[label_key])
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != pixels:
        shape = f"{data.dtype}{list(data.shape)}" if isinstance(data, np.ndarray) else type(data).__name__
        raise UnreadableInput(f"data is {shape}, not uint8[N, {pixels}]", where=path)
    if labels.ndim != 1 or len(labels) != len(data) or labels.dtype.kind not in "iu":
        raise UnreadableInput(f"{len(data)} samples with labels of shape {list(labels.shape)}", where=path)
    return data, labels.astype(np.int64)
