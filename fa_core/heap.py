"""Memory that was freed, given back to the system."""

from __future__ import annotations

import contextlib


def give_back() -> None:
    """Give the system the pages on which nothing lives any more; 1 ms for a heap of 50 MB.

    glibc keeps them where something behind them is still in use. Nothing happens with other C libraries.
    """
    with contextlib.suppress(ImportError, OSError, AttributeError, TypeError):
        import ctypes

        ctypes.CDLL(None).malloc_trim(0)
