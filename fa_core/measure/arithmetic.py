"""Plain IEEE float32: TF32 and its kin switched off for a while, then put back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch


def _knobs() -> list[Any]:
    """The objects whose ``fp32_precision`` decides how a float32 product is computed (torch ≥ 2.9)."""
    backends: Any = torch.backends
    owners = [getattr(backends.cuda, "matmul", None)]
    for library in (backends.cudnn, backends.mkldnn):
        owners += [getattr(library, kind, None) for kind in ("matmul", "conv", "rnn")]
    return [owner for owner in owners if hasattr(owner, "fp32_precision")]


def _legacy_state() -> tuple[str | None, bool | None]:
    """What the older switches say; None where torch refuses to say because the newer ones were used."""
    matmul: str | None = None
    cudnn: bool | None = None
    with suppress(RuntimeError):
        matmul = torch.get_float32_matmul_precision()
    with suppress(RuntimeError):
        cudnn = bool(torch.backends.cudnn.allow_tf32)
    return matmul, cudnn


def _set_legacy(matmul: str | None, cudnn: bool | None) -> None:
    if matmul is not None:
        torch.set_float32_matmul_precision(matmul)
    if cudnn is not None:
        torch.backends.cudnn.allow_tf32 = cudnn


@contextmanager
def full_float32() -> Iterator[None]:
    """Compute float32 products in float32: no TF32 in matmul, convolution or RNN, no bf16 on CPUs.

    Both generations of PyTorch's switches are set and restored, because either may have been used by
    the caller and reading one after setting the other is an error there.

    Source: PROTOCOL §3 ("fp32 forward and backward with TF32 off").

    >>> before = torch.backends.cudnn.allow_tf32
    >>> with full_float32():
    ...     torch.backends.cudnn.allow_tf32
    False
    >>> torch.backends.cudnn.allow_tf32 == before
    True
    """
    matmul, cudnn = _legacy_state()
    saved = [(owner, owner.fp32_precision) for owner in _knobs()]
    try:
        _set_legacy(None if matmul is None else "highest", None if cudnn is None else False)
        for owner, _ in saved:
            owner.fp32_precision = "ieee"
        yield
    finally:
        _set_legacy(matmul, cudnn)
        for owner, precision in saved:
            owner.fp32_precision = precision
