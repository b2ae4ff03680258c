"""A data set from four arrays of anybody's making."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fa_core.data.dataset import DataSet
from fa_core.errors import UnreadableInput


def from_arrays(spec: str, train_x: Any, train_y: Any, test_x: Any, test_y: Any) -> DataSet:
    """A data set from arrays or tensors; bytes (uint8) become numbers in [0, 1], labels int64.

    Raises:
        UnreadableInput: samples that are no numbers, labels that are not whole numbers, sizes that do not fit.
    """
    labels = [_labels(spec, part) for part in (train_y, test_y)]
    classes = 1 + max((int(y.max()) for y in labels if y.numel()), default=0)
    return DataSet(spec, _samples(spec, train_x), labels[0], _samples(spec, test_x), labels[1], classes)


def _samples(spec: str, values: Any) -> Tensor:
    x = _tensor(spec, values)
    return x.float() / 255.0 if x.dtype == torch.uint8 else x.float()


def _labels(spec: str, values: Any) -> Tensor:
    y = _tensor(spec, values)
    if y.is_floating_point() or y.is_complex():
        raise UnreadableInput(f"labels are {y.dtype}, not whole numbers", where=spec, hint="give class indices 0..C-1")
    return y.squeeze(-1).long() if y.ndim == 2 and y.shape[-1] == 1 else y.long()


def _tensor(spec: str, values: Any) -> Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnreadableInput(f"not an array of numbers ({error})", where=spec) from None
