"""Quantities and recorded verdicts of a session are those of the reports."""

from __future__ import annotations

from typing import get_args

from fa_tui.settings import Quantity
from fa_tui.views.columns import CELLS
from fa_tui.views.filters import meant


def test_the_matrix_can_begin_with_every_quantity_and_with_their_older_names() -> None:
    names = {*get_args(Quantity)} - {"letters", "stability"}
    assert names == {*CELLS} - {"null"}
    typed = {"accuracy": "acc", "‖g_L‖": "g_L", "stability": "drift", "c": "drift", "Γ": "gamma"}
    assert {name: meant(name, names) for name in typed} == typed
