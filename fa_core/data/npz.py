"""A data set in a NumPy ``.npz`` archive."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from fa_core.data.arrays import from_arrays
from fa_core.data.dataset import DataSet
from fa_core.errors import UnreadableInput, UsageError

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
