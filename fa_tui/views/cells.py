"""One run in five characters: the verdict and its four diagnostics, readable without colour."""

from __future__ import annotations

from collections.abc import Container

from fa_core.report import LETTERS

LEGEND = "✗: letter fires, - passes   ✓: letter passes   · not measured"
ASCII_LEGEND = "x: letter fires, - passes   v: letter passes   . not measured"


def cell_text(flags: Container[str], coverage: Container[str], *, ascii_only: bool = False) -> str:
    """The verdict of a run as one cell.

    Args:
        flags: letters that fire.
        coverage: letters that were measured.
        ascii_only: for terminals without Unicode.

    >>> cell_text("abd", "abd"), cell_text("", "abc"), cell_text("a", "ab"), cell_text("", "")
    ('✗ab·d', '✓abc·', '✗a-··', '?····')
    """
    dot, cross, tick = (".", "x", "v") if ascii_only else ("·", "✗", "✓")
    fires = any(letter in flags for letter in LETTERS)
    measured = any(letter in coverage for letter in LETTERS)
    letters = "".join(
        letter if letter in flags or (letter in coverage and not fires) else "-" if letter in coverage else dot
        for letter in LETTERS
    )
    return (cross if fires else tick if measured else "?") + letters
