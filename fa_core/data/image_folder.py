"""Images in a folder per class, as torchvision's ImageFolder reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fa_core.errors import UnreadableInput

SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"])
TEST_PARTS = ("test", "val", "valid")


def test_part(root: Path) -> Path:
    """Where the test images of a folder are: DIR/test, DIR/val or DIR/valid, else DIR itself."""
    return next((root / part for part in TEST_PARTS if (root / part).is_dir()), root)


def classes_in(place: Path) -> list[str]:
    """The classes, in the order of their numbers: a folder each.

    Raises:
        UnreadableInput: no such folder, or none in it.
    """
    if not place.is_dir():
        raise UnreadableInput("no such folder", where=place)
    found = sorted(entry.name for entry in place.iterdir() if entry.is_dir())
    if not found:
        raise UnreadableInput("has no folder per class", where=place, hint="write DIR/CLASS/IMAGE.png")
    return found


def read_images(place: Path, classes: list[str], size: int | None, limit: int | None) -> tuple[Tensor, Tensor]:
    """Bytes (N, 3, H, W) and labels (N,) of DIR/CLASS/…, of `limit` images at most, evenly spaced.

    Args:
        place: DIR.
        classes: their names, in the order of their numbers.
        size: what the shorter side is resized to before the square centre is cut out; None = images are one size.
        limit: None = all.

    Raises:
        UnreadableInput: no images, one that cannot be read, or several sizes.
    """
    files = [
        (path, label)
        for label, name in enumerate(classes)
        for path in sorted((place / name).rglob("*"))
        if path.suffix.lower() in SUFFIXES
    ]
    if not files:
        raise UnreadableInput("holds no images", where=place, hint=f"it reads {', '.join(sorted(SUFFIXES))}")
    if limit is not None and limit < len(files):
        files = [files[i * len(files) // limit] for i in range(limit)]
    pixels = [_pixels(path, size) for path, _ in files]
    for (path, _), image in zip(files, pixels, strict=True):
        if image.shape != pixels[0].shape:
            sizes = " and ".join("×".join(map(str, shape[1::-1])) for shape in (pixels[0].shape, image.shape))
            raise UnreadableInput(
                f"images of several sizes, {sizes}", where=path, hint="add a size: imagefolder:DIR,size=224"
            )
    x = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)
    return x, torch.tensor([label for _, label in files])


def _pixels(path: Path, size: int | None) -> Any:
    """One image, (H, W, 3) bytes, resized and cut as torchvision's Resize and CenterCrop do."""
    from PIL import Image  # matplotlib brings it

    try:
        with Image.open(path) as file:
            image = file.convert("RGB")
    except Exception as error:
        raise UnreadableInput(f"no image that Pillow reads ({error})", where=path) from error
    if size is not None:
        sides = [size * side // min(image.size) for side in image.size]
        left, top = (round((side - size) / 2) for side in sides)
        image = image.resize((sides[0], sides[1]), Image.Resampling.BILINEAR).crop((left, top, left + size, top + size))
    return np.asarray(image)
