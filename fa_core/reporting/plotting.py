"""Matplotlib, imported here only: it reads ./matplotlibrc first of all when it is imported.

That file may be of others: escape sequences reach the terminal, a FIFO is waited for.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fa_core.files.opening import flags_of

STYLE = Path(__file__).with_name("figures.mplstyle")
"""The style of every figure, read in place of a matplotlibrc."""


@contextmanager
def _away() -> Iterator[None]:
    """In this folder, which has no matplotlibrc, and with `STYLE` named as the user's own."""
    here = os.open(".", os.O_RDONLY | flags_of("O_PATH", "O_CLOEXEC"))
    before = os.environ.get("MATPLOTLIBRC")
    os.environ["MATPLOTLIBRC"] = str(STYLE)
    os.chdir(STYLE.parent)
    try:
        yield
    finally:
        os.fchdir(here)
        os.close(here)
        del os.environ["MATPLOTLIBRC"]
        if before is not None:
            os.environ["MATPLOTLIBRC"] = before


# a home that cannot be written costs its cache of fonts, nothing else
logging.getLogger("matplotlib").setLevel(logging.ERROR)
with _away():
    import matplotlib
    from matplotlib.backend_bases import get_registered_canvas_class
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = [
    "Figure",
    "Line2D",
    "get_registered_canvas_class",
    "matplotlib",
]
