"""The synthetic task: Gaussian inputs labelled by a random teacher, the same on every machine."""

from __future__ import annotations

import math
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fa_core.errors import UsageError
from fa_core.files.opening import check_room
from fa_core.report.provenance import Count
from fa_core.zoo.data.dataset import DataSet, Natural, parse_options

Floats = NDArray[np.float64]

WIDEST = 1 << 20
"""Most values of a sample; an image of 591×591 in three channels has fewer."""


_Width: TypeAlias = Annotated[int, msgspec.Meta(le=WIDEST)]


class SyntheticOptions(msgspec.Struct, frozen=True):
    """Options of ``synthetic``.

    Attributes:
        alpha: nonlinearity of the teacher, in [0, 1].
        input: dimension of the teacher's input.
        ambient: dimension of the network's input; 0 = the teacher's.
        channels: of square images of the ambient values; 0 = vectors.
        train: training samples.
        test: test samples.
        seed: of the teacher and the samples.
    """

    alpha: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    input: Annotated[_Width, msgspec.Meta(ge=1)] = 128
    ambient: Annotated[_Width, msgspec.Meta(ge=0)] = 0
    channels: Natural = 0
    train: Count = 50_000
    test: Count = 10_000
    seed: Natural = 0


WIDTH = 256
CLASSES = 10
NOISE = 0.1
"""Standard deviation of the noise on ambient values."""


def load_synthetic(spec: str, text: str, typed: bool = True) -> DataSet:
    """Gaussian inputs labelled by a random three-layer teacher.

    x ~ N(0, I);  z1 = φ(2·x W1);  z2 = φ(3·z1 W2);  label = argmax z2 W3,
    φ(z) = (1−α)·z + α·tanh(z),  W_i with N(0, 1/fan_in) entries, widths 256, 256, 10.

    With ``ambient=D`` the network sees x·M + 0.1·ε instead (see `seen_through_map`), with the same
    labels. ``channels=c`` makes those D = c·s² values an image without spatial structure, for
    networks that take images only.

    Args:
        spec: the whole data spec.
        text: its options, e.g. ``"alpha=0.5,input=16"``.
        typed: whether the user typed the spec.

    Returns:
        train_x (50000, input or D) or (50000, c, s, s), test_x likewise with 10000, labels in 0..9.
        Drawn with NumPy in float64 and labelled before rounding to float32, so that machines agree.

    Raises:
        UsageError: unknown option, a value out of range, or D is not c·s².
        UnreadableInput: too little memory, or more samples than a file may ask for.

    Source: docs/protocol.md §7.
    """
    options = parse_options("synthetic", text, SyntheticOptions())
    train = options.train
    samples = train + options.test
    # checked in advance: memory fills up gradually, and the system would kill the process
    needed = _needed_bytes(samples, options.input, options.ambient)
    hint = "ask for fewer or smaller samples"
    if not typed:
        hint = f"type it yourself if you want it: --data {spec}"
    check_room(needed, None if typed else 0, hint, spec)
    rng = np.random.Generator(np.random.PCG64(options.seed))
    weights = [
        _scaled_normal(rng, options.input, WIDTH),
        _scaled_normal(rng, WIDTH, WIDTH),
        _scaled_normal(rng, WIDTH, CLASSES),
    ]
    latents = rng.standard_normal((samples, options.input))
    chunks = np.array_split(latents, max(1, samples // 4096))
    labels = [_teacher_labels(chunk, weights, options.alpha) for chunk in chunks]
    if options.ambient:
        seen = seen_through_map(latents, options.ambient, options.seed)
    else:
        seen = latents.astype(np.float32)
    x = _as_images(spec, torch.from_numpy(seen), options.ambient, options.channels)
    y = torch.from_numpy(np.concatenate(labels))
    return DataSet(
        spec,
        train_x=x[:train],
        train_y=y[:train],
        test_x=x[train:],
        test_y=y[train:],
        num_classes=CLASSES,
    )


def _as_images(spec: str, samples: Tensor, ambient: int, channels: int) -> Tensor:
    """The samples as square images; unchanged without channels.

    Raises:
        UsageError: the values do not make squares.
    """
    if not channels:
        return samples
    side = math.isqrt(ambient // channels)
    if not ambient or channels * side**2 != ambient:
        raise UsageError(
            f"ambient={ambient} values are no square images of {channels} channels", where=spec
        )
    return samples.reshape(-1, channels, side, side)


def _needed_bytes(samples: int, inputs: int, ambient: int) -> int:
    """Peak memory of `load_synthetic`."""
    # latents and map in float64, each with two copies for its rounding
    per_input = 3 * samples + 3 * ambient + 2 * WIDTH
    drawn = 8 * inputs * per_input
    # samples in float32, and the teacher's values, which take time
    seen = 4 * samples * (ambient + WIDTH)
    # one step of `seen_through_map` in float64: mapped, noise, their sum
    step = 24 * min(samples, ROWS) * ambient
    return drawn + seen + step


ROWS = 4096
"""Samples per step of `seen_through_map`."""


def seen_through_map(z: Floats, ambient: int, seed: int) -> NDArray[np.float32]:
    """x = z·M + 0.1·ε: wide samples of few latents.

    M (input, ambient) has N(0, 1/input) entries, and ε ~ N(0, I). z and M are rounded to multiples
    of 2⁻²⁰. Every product is then exact in float64, in any order of summation, so that machines
    agree.

    Args:
        z: latents (N, input).
        ambient: values per sample of the network's input.
        seed: of M, then ε; independent of the latents and the teacher under the same seed.

    Returns:
        (N, ambient).

    Source: docs/protocol.md §7.
    """
    rng = np.random.Generator(np.random.PCG64([seed, ambient]))
    latents = _rounded(z)
    M = _rounded(_scaled_normal(rng, z.shape[1], ambient))
    seen = rng.standard_normal((len(z), ambient), dtype=np.float32)
    for first in range(0, len(z), ROWS):
        rows = slice(first, first + ROWS)
        noise = NOISE * seen[rows].astype(np.float64)
        seen[rows] = latents[rows] @ M + noise
    return seen


def _scaled_normal(rng: np.random.Generator, rows: int, columns: int) -> Floats:
    """N(0, 1/rows) entries."""
    return rng.standard_normal((rows, columns)) / math.sqrt(rows)


def _rounded(values: Floats) -> Floats:
    """Multiples of 2⁻²⁰."""
    return np.asarray(np.rint(values * 2.0**20) / 2.0**20)


def _teacher_labels(x: Floats, weights: list[Floats], alpha: float) -> NDArray[np.int64]:
    w1, w2, w3 = weights
    z1 = _phi(2.0 * (x @ w1), alpha)
    z2 = _phi(3.0 * (z1 @ w2), alpha)
    logits = z2 @ w3
    return np.asarray(logits.argmax(axis=1), dtype=np.int64)


def _phi(z: Floats, alpha: float) -> Floats:
    linear = (1.0 - alpha) * z
    return linear + alpha * np.tanh(z)
