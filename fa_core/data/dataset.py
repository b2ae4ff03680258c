"""Data sets by SPEC, and the evaluation batches, fixed by a seed, that every audit of a run shares.

synthetic[:alpha=1.0,input=128,ambient=0,train=50000,test=10000,seed=0]   the teacher-student task
cifar10:DIR[,raw] or [,mean=0.4914/0.4822/0.4465,std=0.2023/0.1994/0.2010]   cifar100:DIR[…]
digits[:test=360,seed=0]
imagefolder:DIR[,size=224,mean=…,std=…]   npz:FILE   module:callable   NAME[:…] of a plugin
"""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fa_core.data.cifar import CIFAR10, CIFAR100, Cifar, read_cifar, standardised
from fa_core.data.image_folder import read_images
from fa_core.decode import reading
from fa_core.errors import UnreadableInput, UsageError, missing_package
from fa_core.files import check_room, free_ram, open_file, real_path, size_of, typed_path
from fa_core.numbers import brief
from fa_core.option_values import check_data_set, import_callable, split_place, unknown_name
from fa_core.plugins import DATA, load_plugin, plugins


@dataclass(frozen=True)
class DataSet:
    """Training and test samples.

    Attributes:
        spec: what it was loaded from, e.g. ``"synthetic:alpha=1.0,input=16"``; paths in it are
            absolute.
        train_x: (N, *input_shape) float32.
        train_y: (N,) int64 in [0, num_classes).
        test_x: (M, *input_shape) float32.
        test_y: (M,) int64.
        num_classes: C.
        scaling: how pixels became numbers, e.g. ``"mean 0.5, std 0.25"``, where that was a choice.

    Raises:
        UnreadableInput: samples and labels that do not fit together.
    """

    spec: str
    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor
    num_classes: int
    scaling: str = ""

    def __post_init__(self) -> None:
        for part, x, y in (
            ("train", self.train_x, self.train_y),
            ("test", self.test_x, self.test_y),
        ):
            if y.ndim != 1 or len(x) != len(y):
                what = f"{part} samples {tuple(x.shape)} and labels {tuple(y.shape)} do not fit"
                raise UnreadableInput(what, where=self.spec)
            if len(y) == 0 and part == "test":
                raise UnreadableInput("no test samples", where=self.spec)
            # without training samples there are those to measure on
            low, high = (int(y.min()), int(y.max())) if len(y) else (0, 0)
            if low < 0 or high >= self.num_classes:
                what = f"{part} labels run from {low} to {high}, with {self.num_classes} classes"
                raise UnreadableInput(what, where=self.spec)
        if self.train_x.shape[1:] != self.test_x.shape[1:]:
            what = (
                f"train samples are {tuple(self.train_x.shape[1:])}, test samples "
                f"{tuple(self.test_x.shape[1:])}"
            )
            raise UnreadableInput(what, where=self.spec)

    def to(self, device: torch.device | str) -> DataSet:
        """The same data set with its tensors on another device."""
        return replace(self, **{name: getattr(self, name).to(device) for name in NAMES})

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self.test_x.shape[1:])

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the test samples and labels: two audits with the same hash drew from the same
        samples."""
        return content_hash((self.test_x, self.test_y))


def content_hash(tensors: Iterable[Tensor]) -> str:
    """SHA-256 of tensors, their types and shapes."""
    digest = hashlib.sha256()
    for tensor in tensors:
        array = tensor.detach().cpu().contiguous().numpy()
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.data)
    return f"sha256:{digest.hexdigest()}"


@dataclass(frozen=True)
class GivenBatches:
    """Test batches as the user's code made them, to be measured in this order: the first K of them
    give (a) to (c).

    Attributes:
        spec: the SPEC.
        batches: (x, y) pairs, or mappings, as for `diagnose`.
    """

    spec: str
    batches: list[Any]

    @cached_property
    def hash(self) -> str:
        """SHA-256 of all tensors in the batches."""
        parts = [
            part
            for batch in self.batches
            for part in (batch.values() if isinstance(batch, Mapping) else batch)
        ]
        return content_hash(torch.as_tensor(part) for part in parts)


def eval_batches(
    data: DataSet, k: int = 10, batch_size: int = 128, seed: int = 0
) -> list[tuple[Tensor, Tensor]]:
    """K disjoint batches of test samples, the same ones for the same seed.

    Args:
        data: the data set; only its test part is used.
        k: K, how many batches.
        batch_size: B, samples per batch.
        seed: picks the samples.

    Returns:
        At most K pairs (x: (B, *input_shape), y: (B,)). A test part too small for K full batches
        gives fewer full ones, or a single batch of everything if it is smaller than B.

    Source: docs/protocol.md §3 (c): K ≥ 8 disjoint batches of 128, default K = 10.
    """
    order, count = eval_order(len(data.test_y), k, batch_size, seed)
    full = max(1, count // batch_size)
    return [
        (data.test_x[rows], data.test_y[rows])
        for rows in order[:count].to(data.test_y.device).chunk(full)
    ]


def eval_order(
    samples: int, k: int = 10, batch_size: int = 128, seed: int = 0
) -> tuple[Tensor, int]:
    """The test samples, those of the `eval_batches` first.

    Args:
        samples: how many there are.
        k, batch_size, seed: as for `eval_batches`.

    Returns:
        Their order (samples,), and how many of the first are in a batch.
    """
    order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed))
    full = max(1, min(k, samples // batch_size))
    return order, min(full * batch_size, samples)


def from_arrays(spec: str, train_x: Any, train_y: Any, test_x: Any, test_y: Any) -> DataSet:
    """A data set from arrays or tensors; bytes (uint8) become numbers in [0, 1], labels int64.

    Raises:
        UnreadableInput: samples that are no numbers, labels that are not whole numbers, sizes that
            do not fit.
    """
    labels = [_labels(spec, part) for part in (train_y, test_y)]
    classes = 1 + max((int(y.max()) for y in labels if y.numel()), default=0)
    return DataSet(
        spec, _samples(spec, train_x), labels[0], _samples(spec, test_x), labels[1], classes
    )


def _samples(spec: str, values: Any) -> Tensor:
    x = _tensor(spec, values)
    if x.dtype == torch.uint8:
        return x.float() / 255.0
    return x.float()


def _labels(spec: str, values: Any) -> Tensor:
    y = _tensor(spec, values)
    if y.ndim == 2 and y.shape[-1] == 1:
        y = y.squeeze(-1)
    if y.ndim == 2:
        hint = "give class indices: y.argmax(1) where y is one-hot"
        raise UnreadableInput(f"labels have shape {tuple(y.shape)}", where=spec, hint=hint)
    if y.is_floating_point() or y.is_complex():
        raise UnreadableInput(
            f"labels are {y.dtype}, not whole numbers", where=spec, hint="give class indices 0..C-1"
        )
    return y.long()


def _tensor(spec: str, values: Any) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnreadableInput(f"not an array of numbers ({error})", where=spec) from None


class Option(NamedTuple):
    """One option of a data SPEC: its default, and how its text is read."""

    default: Any
    read: Callable[[str], Any]


def at_least(lowest: int, highest: float = math.inf) -> Callable[[str], int]:
    """A reader of whole numbers from `lowest` to `highest`."""

    def read(text: str) -> int:
        value = int(text)
        if value < lowest:
            raise ValueError(f"must be at least {lowest}")
        if value > highest:
            raise ValueError(f"may be {highest:,} at most")
        return value

    return read


def parse_options(name: str, text: str, options: Mapping[str, Option]) -> dict[str, Any]:
    """Every option's value, given or default.

    Args:
        name: the data set, for messages.
        text: e.g. ``"alpha=0.5,input=16"``; ``""`` for all defaults.
        options: the known options.

    Raises:
        UsageError: not ``key=value``, an unknown key, a value that cannot be read.

    >>> parse_options("synthetic", "input=16", {"input": Option(128, at_least(1))})
    {'input': 16}
    """
    values = {key: option.default for key, option in options.items()}
    for item in filter(None, text.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise UsageError(
                f"{item!r} is not key=value", where=name, hint=f"options: {', '.join(options)}"
            )
        if key not in options:
            raise unknown_name(f"option of {name}", key, options)
        try:
            values[key] = options[key].read(value)
        except ValueError as error:
            raise UsageError(f"{key}={value} cannot be used ({error})", where=name) from None
    return values


def per_channel(lowest: float) -> Callable[[str], tuple[float, ...]]:
    """A reader of ``"0.5/0.4/0.3"``, or of one number for all channels, each above `lowest`."""

    def read(text: str) -> tuple[float, ...]:
        values = tuple(float(part) for part in text.split("/"))
        if len(values) not in (1, 3) or not min(values) > lowest:
            raise ValueError(f"give 1 or 3 numbers above {lowest:g}: 0.49/0.48/0.45")
        return values

    return read


SCALING = {
    # is subtracted from pixels in [0, 1], per channel
    "mean": Option((0.0,), per_channel(-math.inf)),
    # divides them then
    "std": Option((1.0,), per_channel(0)),
}


def scaled_by(options: Mapping[str, Any]) -> str:
    """The `SCALING` among a data set's options as text."""
    return ", ".join(
        f"{name} {'/'.join(f'{value:g}' for value in options[name])}" for name in SCALING
    )


def folder_of(
    spec: str, text: str, options: Mapping[str, Option]
) -> tuple[Path, dict[str, Any], str]:
    """The folder and options in ``DIR,key=value,raw``, and the SPEC with an absolute path; ``raw``
    is mean 0, std 1.

    Raises:
        UsageError: no folder named, or as `parse_options`.
    """
    name = spec.partition(":")[0]
    place, given = split_place(text)
    if not place:
        raise UsageError(f"{name} needs a folder", hint=f"write {name}:DIR")
    folder = real_path(typed_path(place))
    return (
        folder,
        parse_options(name, given.replace(",raw", ",mean=0,std=1"), options),
        f"{name}:{folder}{given}",
    )


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
        spec: the whole SPEC, kept in the data set.
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
    rng = np.random.Generator(np.random.PCG64(int(options["seed"])))
    shapes = ((inputs, WIDTH), (WIDTH, WIDTH), (WIDTH, CLASSES))
    weights = [rng.standard_normal(shape) / np.sqrt(shape[0]) for shape in shapes]
    x = rng.standard_normal((train + test, inputs))
    y = np.concatenate(
        [
            _teacher_labels(chunk, weights, alpha)
            for chunk in np.array_split(x, max(1, len(x) // 4096))
        ]
    )
    if ambient:
        seen = seen_through_map(x, ambient, int(options["seed"]))
    else:
        seen = x.astype(np.float32)
    samples, labels = torch.from_numpy(seen), torch.from_numpy(y)
    if channels := int(options["channels"]):
        side = math.isqrt(ambient // channels)
        if not ambient or channels * side**2 != ambient:
            raise UsageError(
                f"ambient={ambient} values are no square images of {channels} channels", where=spec
            )
        samples = samples.reshape(-1, channels, side, side)
    return DataSet(spec, samples[:train], labels[:train], samples[train:], labels[train:], CLASSES)


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
    latents, mapped = (np.rint(values * 2.0**20) / 2.0**20 for values in (z, drawn))
    seen = rng.standard_normal((len(z), ambient), dtype=np.float32)
    for first in range(0, len(z), ROWS):
        rows = slice(first, first + ROWS)
        seen[rows] = latents[rows] @ mapped + NOISE * seen[rows].astype(np.float64)
    return seen


def _teacher_labels(
    x: NDArray[np.float64], weights: list[NDArray[np.float64]], alpha: float
) -> NDArray[np.int64]:
    w1, w2, w3 = weights
    z1 = _phi(2.0 * (x @ w1), alpha)
    z2 = _phi(3.0 * (z1 @ w2), alpha)
    return np.asarray(np.argmax(z2 @ w3, axis=1), dtype=np.int64)


def _phi(z: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    return (1.0 - alpha) * z + alpha * np.tanh(z)


NAMES = ("train_x", "train_y", "test_x", "test_y")
_SPELLINGS = (NAMES, ("x_train", "y_train", "x_test", "y_test"))


def load_npz(spec: str, text: str) -> DataSet:
    """Read train_x, train_y, test_x, test_y (or x_train, y_train, ...) from an archive; nothing in
    it can run code.

    Args:
        spec: the whole SPEC; the data set keeps it with an absolute path.
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
            version = np.lib.format.read_magic(member)
            read = np.lib.format.read_array_header_1_0
            if version != (1, 0):
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


def made_data(spec: str, made: Any) -> DataSet | GivenBatches:
    """What code of the user's or of a plugin returned, as data.

    Args:
        spec: its SPEC.
        made: a `DataSet`; (train_x, train_y, test_x, test_y) arrays or tensors, as a tuple or as a
            mapping with these keys; or test batches: a sequence, a DataLoader or another iterable
            of (x, y) pairs or mappings.

    Raises:
        UnreadableInput: it is something else.
    """
    if isinstance(made, DataSet):
        return made
    if isinstance(made, Mapping) and set(NAMES) <= set(made):
        made = tuple(made[name] for name in NAMES)
    if isinstance(made, Iterable) and not isinstance(
        made, str | bytes | Mapping | Tensor | np.ndarray
    ):
        items = list(made)
        if items and all(
            isinstance(item, Mapping) or (isinstance(item, tuple | list) and len(item) == 2)
            for item in items
        ):
            return GivenBatches(spec, items)
        if isinstance(made, tuple | list) and len(items) == len(NAMES):
            return from_arrays(spec, *items)
    hint = f"return ({', '.join(NAMES)}), or test batches: a DataLoader, a list of (x, y)"
    raise UnreadableInput(f"returned {type(made).__name__}, not a data set", where=spec, hint=hint)


def load_cifar(kind: Cifar, spec: str, text: str) -> DataSet:
    """CIFAR-10, or CIFAR-100 with its 100 fine labels: (N, 3, 32, 32) standardised per channel.

    Args:
        kind: which of the two.
        spec: the whole SPEC; the data set keeps it with an absolute path, so that it is found from
            anywhere.
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
    return DataSet(full, *read_cifar(kind, folder, **options), kind.classes, scaled_by(options))


_SIZE = Option(None, at_least(1))
"""What the shorter side is resized to; then the centre is cut out."""


def load_images(spec: str, text: str, train: bool = False) -> DataSet:
    """Images in a folder per class, DIR/test/CLASS (or ``val``; else DIR/CLASS) and
    DIR/train/CLASS.

    Args:
        spec: the whole SPEC.
        text: the folder and options, e.g. ``DIR,size=32,mean=0.5,std=0.25``.
        train: whether to read the training part; without it that part is empty.

    Returns:
        (N, 3, H, W) in [0, 1], or standardised; classes are numbered by their names in order.

    Raises:
        UsageError: no folder named, or an unknown option.
        UnreadableInput: as `read_images`, or other classes in the two parts.
    """
    root, options, full = folder_of(spec, text, {"size": _SIZE, **SCALING})
    place = next((root / part for part in ("test", "val") if (root / part).is_dir()), root)
    x, y, classes = read_images(place, options["size"])
    train_x, train_y, same = (
        read_images(root / "train", options["size"]) if train else (x[:0], y[:0], classes)
    )
    if same != classes:
        raise UnreadableInput("holds other classes than the training part", where=place)
    train_x, x = (standardised(part, options["mean"], options["std"]) for part in (train_x, x))
    return DataSet(full, train_x, train_y, x, y, len(classes), scaled_by(options))


SPECS: Mapping[str, Callable[[str, str], DataSet]] = {
    "synthetic": load_synthetic,
    "cifar10": partial(load_cifar, CIFAR10),
    "cifar100": partial(load_cifar, CIFAR100),
    "imagefolder": load_images,
    "digits": load_digits,
    "npz": load_npz,
}


def load_data(spec: str, *, allow_code: bool = False) -> DataSet:
    """The data set a SPEC names, with its training part.

    Args:
        spec: as above.
        allow_code: whether ``module:callable`` or a plugin may be imported: only for a SPEC that
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
    """What a SPEC names, to be measured on; the training part may be empty unless it is asked for.
    As `load_data`."""
    name, _, rest = spec.partition(":")
    if name == "imagefolder":
        return load_images(spec, rest, train)
    if name in SPECS:
        return SPECS[name](spec, rest)
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
