"""Images in a folder per class, as torchvision's ImageFolder, Resize and CenterCrop read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fa_core.decode import reading
from fa_core.errors import UnreadableInput

SUFFIXES = frozenset([".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"])


def read_images(folder: Path, size: int | None) -> tuple[Tensor, Tensor, list[str]]:
    """Bytes (N, 3, H, W), labels (N,) and the names of the classes, which are numbered in their order.

    Args:
        folder: DIR of ``DIR/CLASS/IMAGE``.
        size: what the shorter side is resized to before the square centre is cut out; None = images are one size.

    Raises:
        UnreadableInput: no folder, no images, one that cannot be read, or several sizes.
    """
    if not folder.is_dir():
        raise UnreadableInput("no such folder", where=folder)
    with reading(folder):
        classes = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
        found = [(path, label) for label, name in enumerate(classes) for path in sorted((folder / name).rglob("*"))]
    files = [(path, label) for path, label in found if path.suffix.lower() in SUFFIXES]
    if not files:
        raise UnreadableInput("has no images in a folder per class", where=folder, hint="write DIR/CLASS/IMAGE.png")
    pixels = [_pixels(path, size) for path, _ in files]
    odd = next((i for i, image in enumerate(pixels) if image.shape != pixels[0].shape), None)
    if odd is not None:
        sizes = " and ".join("×".join(map(str, pixels[i].shape[1::-1])) for i in (0, odd))
        hint = "add a size: imagefolder:DIR,size=224"
        raise UnreadableInput(f"images of several sizes, {sizes}", where=files[odd][0], hint=hint)
    x = torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)
    return x, torch.tensor([label for _, label in files]), classes


def _pixels(path: Path, size: int | None) -> Any:
    """One image, (H, W, 3) bytes."""
    from PIL import Image  # matplotlib brings it

    with reading(path, "no image that Pillow reads"), Image.open(path) as file:
        image = file.convert("RGB")
    if size is not None:
        wide, high = (size * side // min(image.size) for side in image.size)
        left, top = round((wide - size) / 2), round((high - size) / 2)
        image = image.resize((wide, high), Image.Resampling.BILINEAR).crop((left, top, left + size, top + size))
    return np.asarray(image)
