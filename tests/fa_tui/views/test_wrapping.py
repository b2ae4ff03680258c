"""Lists fitted to a width."""

from __future__ import annotations

import pytest

from fa_tui.views.text import wrapped


@pytest.mark.parametrize("width", [20, 30, 76])
def test_what_goes_on_stands_under_the_second_column_and_nothing_is_lost(width: int) -> None:
    line = "  ↑ ↓      move from one line to the next one, and around the end"
    pieces = wrapped(line, width)
    assert all(len(piece) <= width for piece in pieces)
    assert " ".join(piece.strip() for piece in pieces).split() == line.split()
    assert {len(piece) - len(piece.lstrip()) for piece in pieces[1:]} <= {11 if width > 21 else 4}
