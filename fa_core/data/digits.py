"""scikit-learn's 8×8 handwritten digits: real images that need no download."""

from __future__ import annotations

import numpy as np
import torch

from fa_core.data.dataset import DataSet
from fa_core.data.options import Option, at_least, parse_options
from fa_core.errors import UsageError

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
        raise UsageError("digits needs scikit-learn", hint="pip install 'fa-tui[digits]'") from None
    images, labels = datasets.load_digits(return_X_y=True)
    test = int(options["test"])
    if test >= len(labels):
        raise UsageError(f"test={test} leaves no training samples of {len(labels)}", where=spec)
    order = np.random.Generator(np.random.PCG64(int(options["seed"]))).permutation(len(labels))
    x = torch.from_numpy((images[order] / 16.0).astype(np.float32)).reshape(-1, 1, 8, 8)
    y = torch.from_numpy(labels[order].astype(np.int64))
    return DataSet(spec, x[test:], y[test:], x[:test], y[:test], 10)
