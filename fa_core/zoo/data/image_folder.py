"""Images in a folder per class, read like torchvision's ImageFolder, Resize and CenterCrop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fa_core.errors import UnreadableInput
from fa_core.files.decode import reading
from fa_core.files.opening import free_ram, is_folder, open_file

SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"])

READ_AS = ("PNG", "JPEG", "BMP", "PPM", "TIFF", "WEBP")
"""The formats that Pillow decodes by itself; for EPS, for example, it starts Ghostscript."""

MOST_PIXELS = 1 << 25
"""Limit per image, before and after resizing; most cameras stay below it."""

COPIES = 10
"""Bytes of memory per byte of an image: the image, the stack, and two tensors of float32."""

Pixels = NDArray[np.uint8]


def read_images(folder: Path, size: int | None) -> tuple[Tensor, Tensor, list[str]]:
    """Read ``DIR/CLASS/IMAGE``.

    Args:
        folder: DIR.
        size: of the square: the shorter side is resized to it, and the centre cut out; None = keep
            the images, which then must have one size.

    Returns:
        Bytes (N, 3, H, W), labels (N,), and the class names in the order of their numbers.

    Raises:
        UnreadableInput: no folder, no images, an unreadable image, several sizes, or too little
            memory.
    """
    if not is_folder(folder):
        raise UnreadableInput("no such folder", where=folder)
    classes, files = _listed(folder)
    if not files:
        what = "has no images in a folder per class"
        raise UnreadableInput(what, where=folder, hint="write DIR/CLASS/IMAGE.png")
    images: list[Pixels] = []
    labels = []
    for path, label in files:
        image = _pixels(path, size)
        if not images:
            first = image
            _check_room(folder, len(files), first)
        if image.shape != first.shape:
            what = f"images of several sizes, {_size(first)} and {_size(image)}"
            raise UnreadableInput(what, where=path, hint="add a size: imagefolder:DIR,size=224")
        images.append(image)
        labels.append(label)
    stacked = torch.from_numpy(np.stack(images))
    return stacked.permute(0, 3, 1, 2), torch.tensor(labels), classes


def _size(image: Pixels) -> str:
    """Width and height of an image as text."""
    high, wide, _ = image.shape
    return f"{wide}×{high}"


def _listed(folder: Path) -> tuple[list[str], list[tuple[Path, int]]]:
    """The class names, and every image with its class number."""
    with reading(folder):
        places = sorted(filter(is_folder, folder.iterdir()))
        files = []
        for label, place in enumerate(places):
            for path in sorted(place.rglob("*")):
                if path.suffix.lower() in SUFFIXES:
                    files.append((path, label))
    names = [place.name for place in places]
    return names, files


def _check_room(folder: Path, count: int, first: Pixels) -> None:
    """Check that memory can hold `count` images of the size of the first.

    Raises:
        UnreadableInput: says the memory they need.
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
            image = Image.open(file, formats=READ_AS)
        except UnidentifiedImageError:
            raise ValueError(f"it is none of {', '.join(READ_AS)}") from None
        wide, high = image.size
        _check_pixels(wide, high)
        if size is None:
            return np.asarray(image.convert("RGB"))
        shorter = min(wide, high)
        wide = size * wide // shorter
        high = size * high // shorter
        _check_pixels(wide, high)
        resized = image.convert("RGB").resize((wide, high), Image.Resampling.BILINEAR)
    left = round((wide - size) / 2)
    top = round((high - size) / 2)
    box = (left, top, left + size, top + size)
    return np.asarray(resized.crop(box))


def _check_pixels(wide: int, high: int) -> None:
    """Check the size of an image before it is decoded: a small file may have a very large one.

    Raises:
        ValueError: more than `MOST_PIXELS`.
    """
    if wide * high > MOST_PIXELS:
        raise ValueError(f"{wide}×{high} pixels; up to {MOST_PIXELS:,} are read")
