"""Network arguments that follow from the data."""

from __future__ import annotations

import math
from inspect import signature
from typing import Any

from fa_core.data import DataSet
from fa_core.errors import UsageError
from fa_core.models import ARCHS
from fa_core.naming import unknown_name


def fitted_args(arch: str, given: dict[str, Any], data: DataSet) -> dict[str, Any]:
    """The given arguments, completed by those that the data decide: input size, classes.

    Args:
        arch: built-in network name.
        given: what the person chose; it is kept.
        data: the data set.

    Raises:
        UsageError: unknown network, or data of a kind it does not take (both shapes are said).
    """
    if arch not in ARCHS:
        raise unknown_name("network", arch, ARCHS)
    known = signature(ARCHS[arch]).parameters
    decided: dict[str, Any] = {"num_classes": data.num_classes}
    if "input_dim" in known:
        decided["input_dim"] = math.prod(data.input_shape)
    else:
        shape = data.input_shape
        if len(shape) != 3 or shape[1] != shape[2]:
            raise UsageError(
                f"{arch} takes square images (channels, size, size), {data.spec} gives samples of shape {shape}",
                hint="choose image data such as cifar10:DIR, or --arch resmlp",
            )
        decided |= {"channels": shape[0], "image": shape[1]}
    return {name: value for name, value in decided.items() if name in known} | given
