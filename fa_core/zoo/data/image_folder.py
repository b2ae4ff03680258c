"""Images in a folder per class, read like torchvision's ImageFolder, Resize and CenterCrop."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fa_core.errors import UnreadableInput
from fa_core.files.decode import reading
from fa_core.files.opening import check_room, is_folder, open_file, real_path, size_of

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"])

READ_AS = ("PNG", "JPEG", "BMP", "PPM", "TIFF", "WEBP")
"""The formats that Pillow decodes by itself; for EPS, for example, it starts Ghostscript."""

COPIES, DECODED = 30, 6
"""Bytes of memory per pixel of an image that is kept (itself, the stack, and two tensors of
float32), and of one that is decoded and resized."""

BLOCK, MEMBER = 4096, 1024
"""Least bytes that a file takes on a disk, and in a tar archive that it came in."""

Pixels = NDArray[np.uint8]


def read_images(folder: Path, size: int | None, typed: bool) -> tuple[Tensor, Tensor, list[str]]:
    """Read ``DIR/CLASS/IMAGE``.

    Args:
        folder: DIR.
        size: of the square: the shorter side is resized to it, and the centre cut out; None = keep
            the images, which then must have one size.
        typed: whether the user typed the size.

    Returns:
        Bytes (N, 3, H, W), labels (N,), and the class names in the order of their numbers.

    Raises:
        UnreadableInput: no folder, no images, an unreadable image, several sizes, or too little
            memory.
    """
    classes, files = _listed(folder)
    if not files:
        raise UnreadableInput(
            "has no images in a folder per class", where=folder, hint="write DIR/CLASS/IMAGE.png"
        )
    images: list[Pixels] = []
    labels = []
    with reading(folder):
        there = sum(max(BLOCK if typed else MEMBER, path.stat().st_size) for path, _ in files)
        if size is not None:
            check_room(COPIES * len(files) * size**2, None if typed else there, _SMALLER)
    needed = 0
    for path, label in files:
        with reading(path, "no image that is read here"), open_file(path) as file:
            image, after = _opened(file, size)
            before = max(image.width * image.height, _tile(image))
            needed += DECODED * (before + math.prod(after))
            needed += COPIES * min(before, before if size is None else size**2)
            check_room(needed, there, _SMALLER)
            pixels = _pixels(image, after, size)
        images.append(pixels)
        if pixels.shape != images[0].shape:
            sizes = (f"{each.shape[1]}×{each.shape[0]}" for each in (images[0], pixels))
            raise UnreadableInput(
                f"images of several sizes, {' and '.join(sizes)}",
                where=path,
                hint="add a size: imagefolder:DIR,size=224",
            )
        labels.append(label)
    stacked = torch.from_numpy(np.stack(images))
    return stacked.permute(0, 3, 1, 2), torch.tensor(labels), classes


MOST_SCANS, MOST_STRIPS = 20, 1 << 14
"""Scans of a JPEG, each of which is decoded over all of its pixels (usual ones have up to ten), and
strips of a TIFF."""

_SMALLER = "add a smaller size: imagefolder:DIR,size=224"


def _listed(folder: Path) -> tuple[list[str], list[tuple[Path, int]]]:
    """The class names, and every image with its class number.

    Raises:
        UnreadableInput: two classes are one folder.
    """
    with reading(folder):
        places = sorted(filter(is_folder, folder.iterdir()))
        if len({*map(real_path, places)}) < len(places):
            raise UnreadableInput("two of its classes are links to one folder", where=folder)
        files = [
            (path, label)
            for label, place in enumerate(places)
            for path in sorted(each for each in place.rglob("*") if each.suffix.lower() in SUFFIXES)
        ]
    return [place.name for place in places], files


def _opened(file: BinaryIO, size: int | None) -> tuple[Image.Image, tuple[int, int]]:
    """An image that is not decoded yet, and its shape after resizing.

    Raises:
        ValueError: of another format.
    """
    from PIL import Image, UnidentifiedImageError  # matplotlib brings it
    from PIL.JpegImagePlugin import JpegImageFile

    try:
        image = Image.open(file, formats=READ_AS)
    except UnidentifiedImageError:
        raise ValueError(f"it is none of {', '.join(READ_AS)}") from None
    if isinstance(image, JpegImageFile):  # of whatever format, such as MPO
        file.seek(0)
        scans = file.read(size_of(file)).count(b"\xff\xda")
        if scans > MOST_SCANS:
            raise ValueError(f"it is drawn in {scans:,} scans")
    strips = len(getattr(image, "tag_v2", {}).get(273, ()))
    if strips > MOST_STRIPS:
        raise ValueError(f"it is drawn in {strips:,} strips")
    wide, high = image.size
    if size is None:
        return image, (0, 0)
    shorter = min(wide, high)
    return image, (size * wide // shorter, size * high // shorter)


def _tile(image: Image.Image) -> int:
    """Pixels of a tile, in which a TIFF is decoded and which may be larger than the image."""
    tags = getattr(image, "tag_v2", {})
    width, length = 322, 323
    pixels: int = tags.get(width, 0) * tags.get(length, 0)
    return pixels


def _pixels(image: Image.Image, after: tuple[int, int], size: int | None) -> Pixels:
    """The pixels of an image, (H, W, 3)."""
    from PIL.Image import Resampling

    image = image.convert("RGB")
    if size is None:
        return np.asarray(image)
    resized = image.resize(after, Resampling.BILINEAR)
    left, top = (round((side - size) / 2) for side in after)
    return np.asarray(resized.crop((left, top, left + size, top + size)))
