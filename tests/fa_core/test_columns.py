"""Columns in little memory hold what others hold."""

from __future__ import annotations

import math
import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fa_core.columns import Ragged, narrow, thrifty

numbers = st.sampled_from([0.0, -0.0, 0.5, math.nan, math.inf])


@given(st.lists(numbers, min_size=1, max_size=4))
def test_a_column_in_the_room_of_one_number_holds_the_same_bits(values: list[float]) -> None:
    column = thrifty(np.array(values, np.float64))
    assert column.tobytes() == struct.pack(f"{len(values)}d", *values)
    alike = len({struct.pack("d", value) for value in values}) == 1
    assert (column.strides == (0,)) == (alike and len(values) > 1)


@given(st.lists(st.booleans(), min_size=1, max_size=4))
def test_marks_take_one_byte_where_all_are_alike(marks: list[bool]) -> None:
    column = thrifty(np.array(marks, np.bool_))
    assert column.tolist() == marks
    assert (column.strides == (0,)) == (len(marks) > 1 and len(set(marks)) == 1)


def test_places_take_four_bytes_until_they_are_too_large() -> None:
    most = 2**31 - 1
    assert narrow(np.array([0, most])).dtype == np.int32
    assert narrow(np.array([0, most + 1])).tolist() == [0, most + 1]
    assert Ragged.of([[1.0], [], [2.0, 3.0]]).offsets.dtype == np.int32
