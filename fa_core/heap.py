"""Memory that was freed, given back to the system."""

from __future__ import annotations

import contextlib
import gc
from functools import cache

_BIG = 1 << 18
"""Bytes from which an array gets pages of its own."""
_MMAP_THRESHOLD = -3
"""What `mallopt` calls it (malloc.h)."""


def give_back(*, cycles: bool = False) -> None:
    """Give the system the pages on which nothing lives any more; 1 ms for a heap of 50 MB.

    glibc keeps them where something behind them is still in use. From the first call on it gives every array of
    256 KB and more pages of its own, so that they go when it goes; until then it does so with ever larger ones only.
    Nothing happens with other C libraries.

    Args:
        cycles: first free what only refers to itself, as a screen does that was closed: 10 ms.
    """
    if cycles:
        gc.collect()
    with contextlib.suppress(ImportError, OSError, AttributeError, TypeError):
        _own_pages()
        _library().malloc_trim(0)


@cache
def _library():  # type: ignore[no-untyped-def]  # ctypes is imported with the first call
    import ctypes

    return ctypes.CDLL(None)


@cache
def _own_pages() -> None:
    _library().mallopt(_MMAP_THRESHOLD, _BIG)
