"""torchvision beside a torch that it was not built for."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import torch

_KEPT: list[Any] = []


def declare_operators() -> None:
    """Make ``import torchvision`` work where its compiled operators do not load, as with a CPU build of torch.

    Its Python part registers shapes of operators that its library would have declared: they are declared here,
    without an implementation. Networks that classify use none of them.
    """
    spec = importlib.util.find_spec("torchvision")
    if _KEPT or spec is None or spec.origin is None:
        return
    text = (Path(spec.origin).parent / "_meta_registrations.py").read_text()
    library = torch.library.Library("torchvision", "DEF")
    _KEPT.append(library)
    for name in dict.fromkeys(re.findall(r'register_(?:meta|fake)\("(?:torchvision::)?(\w+)"', text)):
        library.define(f"{name}(Tensor x) -> Tensor")
