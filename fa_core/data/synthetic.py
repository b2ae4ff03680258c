"""The synthetic task: Gaussian inputs labelled by a random teacher, the same on every machine."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fa_core.data.data_spec import Option, at_least, parse_options
from fa_core.data.dataset import DataSet
from fa_core.errors import UsageError
from fa_core.files import free_ram
from fa_core.numbers import brief

WIDEST = 1 << 20
"""Values of one synthetic sample: an image of 591×591 in three channels has fewer."""

_SYNTHETIC = {
    # nonlinearity of the teacher, in [0, 1]
    "alpha": Option(1.0, float),
    # dimension of the teacher's input
    "input": Option(128, at_least(1, WIDEST)),
    # dimension of the space that the network sees it in; 0 = the teacher's own
    "ambient": Option(0, at_least(0, WIDEST)),
    # the ambient values as square images of so many channels; 0 = as a vector
    "channels": Option(0, at_least(0)),
    "train": Option(50_000, at_least(1)),
    "test": Option(10_000, at_least(1)),
    # draws teacher and samples
    "seed": Option(0, at_least(0)),
}
WIDTH = 256
CLASSES = 10
NOISE = 0.1
"""Deviation of the noise on every value of a sample that is seen in an ambient space."""


def load_synthetic(spec: str, text: str) -> DataSet:
    """Gaussian inputs labelled by a random three-layer teacher.

    x ~ N(0, I);  z1 = φ(2·x W1);  z2 = φ(3·z1 W2);  label = argmax z2 W3,
    φ(z) = (1−α)·z + α·tanh(z),  W_i with N(0, 1/fan_in) entries, widths 256, 256, 10.

    With ``ambient=D`` the same x and labels are seen as x·M + 0.1·ε: see `seen_through_map`. With
    ``channels=c`` too, those D = c·s² values are an image, of no spatial structure, for networks
    that take nothing else.

    Args:
        spec: the whole data spec, kept in the data set.
        text: its options, e.g. ``"alpha=0.5,input=16"``.

    Returns:
        train_x (50000, input or D) or (50000, c, s, s), test_x alike with 10000, labels in 0..9.
        Drawn with NumPy in float64 and labelled before rounding to float32, so that machines agree.

    Raises:
        UsageError: unknown option, a value out of range, or D is no c·s².

    Source: docs/protocol.md §7.
    """
    options = parse_options("synthetic", text, _SYNTHETIC)
    alpha, inputs = float(options["alpha"]), int(options["input"])
    if not 0.0 <= alpha <= 1.0:
        raise UsageError(f"alpha={alpha:g} lies outside [0, 1]", where=spec)
    train, test, ambient = int(options["train"]), int(options["test"]), int(options["ambient"])
    # before it takes memory: numbers are drawn bit by bit, and the system would end the process
    needed = _synthetic_bytes(train + test, inputs, ambient)
    if needed > free_ram():
        what = f"needs {brief(needed / 1e9, 3)} GB of memory"
        raise UsageError(what, where=spec, hint="ask for fewer or smaller samples")
    seed = int(options["seed"])
    rng = np.random.Generator(np.random.PCG64(seed))
    shapes = ((inputs, WIDTH), (WIDTH, WIDTH), (WIDTH, CLASSES))
    weights = [rng.standard_normal(shape) / np.sqrt(shape[0]) for shape in shapes]
    x = rng.standard_normal((train + test, inputs))
    chunks = np.array_split(x, max(1, len(x) // 4096))
    y = np.concatenate([_teacher_labels(chunk, weights, alpha) for chunk in chunks])
    if ambient:
        seen = seen_through_map(x, ambient, seed)
    else:
        seen = x.astype(np.float32)
    samples = _as_images(spec, torch.from_numpy(seen), ambient, int(options["channels"]))
    labels = torch.from_numpy(y)
    return DataSet(spec, samples[:train], labels[:train], samples[train:], labels[train:], CLASSES)


def _as_images(spec: str, samples: Tensor, ambient: int, channels: int) -> Tensor:
    """The samples as square images; without channels they stay vectors.

    Raises:
        UsageError: they make no square.
    """
    if not channels:
        return samples
    side = math.isqrt(ambient // channels)
    if not ambient or channels * side**2 != ambient:
        raise UsageError(
            f"ambient={ambient} values are no square images of {channels} channels", where=spec
        )
    return samples.reshape(-1, channels, side, side)


def _synthetic_bytes(samples: int, inputs: int, ambient: int) -> int:
    """Bytes that the teacher's data take while they are made."""
    # latents and map in float64, each with two copies while it is rounded
    drawn = 8 * inputs * (3 * samples + 3 * ambient + 2 * WIDTH)
    # samples in float32, and those of one step in float64: mapped, noise, their sum
    seen = 4 * samples * ambient + 3 * 8 * min(samples, ROWS) * ambient
    return drawn + seen


ROWS = 4096
"""Samples that are mapped at a time."""


def seen_through_map(z: NDArray[np.float64], ambient: int, seed: int) -> NDArray[np.float32]:
    """x = z·M + 0.1·ε, M (input, ambient) with N(0, 1/input) entries, ε ~ N(0, I): wide samples of
    few latents.

    Args:
        z: latents (N, input).
        ambient: values per sample that the network sees.
        seed: draws M, then ε, apart from what it draws for the latents and the teacher.

    Returns:
        (N, ambient). z and M are rounded to multiples of 2⁻²⁰: every product is then exact in
        float64, in whichever order it is summed, so that machines agree.

    Source: docs/protocol.md §7.
    """
    rng = np.random.Generator(np.random.PCG64([seed, ambient]))
    drawn = rng.standard_normal((z.shape[1], ambient)) / np.sqrt(z.shape[1])
    latents, mapped = _rounded(z), _rounded(drawn)
    seen = rng.standard_normal((len(z), ambient), dtype=np.float32)
    for first in range(0, len(z), ROWS):
        rows = slice(first, first + ROWS)
        seen[rows] = latents[rows] @ mapped + NOISE * seen[rows].astype(np.float64)
    return seen


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.rint(values * 2.0**20) / 2.0**20)


def _teacher_labels(
    x: NDArray[np.float64], weights: list[NDArray[np.float64]], alpha: float
) -> NDArray[np.int64]:
    w1, w2, w3 = weights
    z1 = _phi(2.0 * (x @ w1), alpha)
    z2 = _phi(3.0 * (z1 @ w2), alpha)
    return np.asarray(np.argmax(z2 @ w3, axis=1), dtype=np.int64)


def _phi(z: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    return (1.0 - alpha) * z + alpha * np.tanh(z)
