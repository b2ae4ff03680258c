"""Columns in little memory hold what others hold."""

from __future__ import annotations

import numpy as np

from fa_core.table import Ragged, narrow


def test_places_take_four_bytes_until_they_are_too_large() -> None:
    most = 2**31 - 1
    assert narrow(np.array([0, most])).dtype == np.int32
    assert narrow(np.array([0, most + 1])).tolist() == [0, most + 1]
    assert Ragged.of([[1.0], [], [2.0, 3.0]]).offsets.dtype == np.int32
