"""Images in a folder per class, as torchvision's ImageFolder, Resize and CenterCrop read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fa_core.decode import reading
from fa_core.errors import UnreadableInput
from fa_core.files import free_ram, is_folder, open_file

SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"])

READ_AS = ("PNG", "JPEG", "BMP", "PPM", "TIFF", "WEBP")
"""The formats that Pillow may take a file for, whatever its name: it decodes these by itself, and
starts another program for some others (Ghostscript for EPS)."""

MOST_PIXELS = 1 << 25
"""Of one image, as it is and as it is resized; cameras make fewer, mostly."""

COPIES = 10
"""Bytes of memory that a byte of an image needs until it is standardised: the image, the stack of
all, and four for each of two tensors of float32."""

Pixels = NDArray[np.uint8]


def read_images(folder: Path, size: int | None) -> tuple[Tensor, Tensor, list[str]]:
    """Bytes (N, 3, H, W), labels (N,) and the names of the classes, numbered in their order.

    Args:
        folder: DIR of ``DIR/CLASS/IMAGE``.
        size: of the shorter side before the square centre is cut out; None = images are one size.

    Raises:
        UnreadableInput: no folder, no images, one that cannot be read, several sizes, or more than
            fits into memory.
    """
    if not is_folder(folder):
        raise UnreadableInput("no such folder", where=folder)
    classes, files = _listed(folder)
    if not files:
        raise UnreadableInput(
            "has no images in a folder per class", where=folder, hint="write DIR/CLASS/IMAGE.png"
        )
    first = _pixels(files[0][0], size)
    _check_room(folder, len(files), first)
    images = [first]
    labels = [label for _, label in files]
    for path, _ in files[1:]:
        image = _pixels(path, size)
        if image.shape != first.shape:
            raise UnreadableInput(
                f"images of several sizes, {_size(first)} and {_size(image)}",
                where=path,
                hint="add a size: imagefolder:DIR,size=224",
            )
        images.append(image)
    x = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
    return x, torch.tensor(labels), classes


def _size(image: Pixels) -> str:
    """Width and height of an image, for messages."""
    high, wide, _ = image.shape
    return f"{wide}×{high}"


def _listed(folder: Path) -> tuple[list[str], list[tuple[Path, int]]]:
    """The classes, and every image with the number of its class."""
    with reading(folder):
        classes = sorted(entry.name for entry in folder.iterdir() if is_folder(entry))
        files: list[tuple[Path, int]] = []
        for label, name in enumerate(classes):
            for path in sorted((folder / name).rglob("*")):
                if path.suffix.lower() in SUFFIXES:
                    files.append((path, label))
    return classes, files


def _check_room(folder: Path, count: int, first: Pixels) -> None:
    """Refuse more images than memory holds, which are as large as the first one.

    Raises:
        UnreadableInput: says what they need.
    """
    needed = COPIES * count * first.nbytes
    if needed > free_ram():
        what = f"{count} images of {_size(first)} need {needed / 1e9:.3g} GB of memory"
        hint = "add a smaller size: imagefolder:DIR,size=224"
        raise UnreadableInput(what, where=folder, hint=hint)


def _pixels(path: Path, size: int | None) -> Pixels:
    """One image, (H, W, 3)."""
    from PIL import Image, UnidentifiedImageError  # matplotlib brings it

    with reading(path, "no image that is read here"), open_file(path) as file:
        try:
            image: Any = Image.open(file, formats=READ_AS)
        except UnidentifiedImageError:
            raise ValueError(f"it is none of {', '.join(READ_AS)}") from None
        _check_pixels(*image.size)
        if size is None:
            return np.asarray(image.convert("RGB"))
        shorter = min(image.size)
        wide = size * image.size[0] // shorter
        high = size * image.size[1] // shorter
        _check_pixels(wide, high)
        image = image.convert("RGB").resize((wide, high), Image.Resampling.BILINEAR)
    left, top = round((wide - size) / 2), round((high - size) / 2)
    return np.asarray(image.crop((left, top, left + size, top + size)))


def _check_pixels(wide: int, high: int) -> None:
    """Refuse an image before it is decoded: a small file may hold a very large one.

    Raises:
        ValueError: says the size.
    """
    if wide * high > MOST_PIXELS:
        raise ValueError(f"{wide}×{high} pixels; up to {MOST_PIXELS:,} are read")
