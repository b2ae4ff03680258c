"""The teacher-student task that ships with the project: no download, any size, hard enough to show a collapse."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from fa_core.data.dataset import DataSet, Option, at_least, parse_options
from fa_core.errors import UsageError

OPTIONS = {
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
    options = parse_options("synthetic", text, OPTIONS)
    alpha, inputs = float(options["alpha"]), int(options["input"])
    if not 0.0 <= alpha <= 1.0:
        raise UsageError(f"alpha={alpha:g} lies outside [0, 1]", where=spec)
    train, test = int(options["train"]), int(options["test"])
    rng = np.random.Generator(np.random.PCG64(int(options["seed"])))
    weights = [rng.standard_normal(shape) / np.sqrt(shape[0]) for shape in _shapes(inputs)]
    x = rng.standard_normal((train + test, inputs))
    y = np.concatenate([_labels(chunk, weights, alpha) for chunk in np.array_split(x, max(1, len(x) // 4096))])
    samples, labels = torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)
    return DataSet(spec, samples[:train], labels[:train], samples[train:], labels[train:], CLASSES)


def _shapes(inputs: int) -> list[tuple[int, int]]:
    return [(inputs, WIDTH), (WIDTH, WIDTH), (WIDTH, CLASSES)]


def _labels(x: NDArray[np.float64], weights: list[NDArray[np.float64]], alpha: float) -> NDArray[np.int64]:
    w1, w2, w3 = weights
    z1 = _phi(2.0 * (x @ w1), alpha)
    z2 = _phi(3.0 * (z1 @ w2), alpha)
    return np.asarray(np.argmax(z2 @ w3, axis=1), dtype=np.int64)


def _phi(z: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    return (1.0 - alpha) * z + alpha * np.tanh(z)
