"""Changed files of every kind, networks of known states, and a monkey at the explorer."""

from contextlib import suppress
from itertools import product
from string import punctuation

import pytest

from fa_core.errors import FaError
from fa_core.formats import given_columns
from fa_core.option_values import check_data_set, network_spec
from fa_core.zoo.data import load_test_data
from fa_tui.options import numbers
from fa_tui.views.filters import Filter
from tests.fuzz import monkey
from tests.fuzz.readers import KINDS

CASES = {
    "json": 800,
    "logs": 200,
    "run folders": 200,
    "checkpoints": 400,
    "measured runs": 40,
    "toml": 200,
    "streams": 40,
    "pickles": 800,
}
BLOCKS = 2


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("kind", KINDS)
def test_no_case_raises_anything_but_the_projects_own_errors(tmp_path, kind, block):
    for number in range(block, CASES[kind], BLOCKS):
        (tmp_path / "number").write_text(str(number))
        KINDS[kind](tmp_path, number)


def test_a_monkey_finds_no_defect_and_changes_no_file():
    ran, lost = monkey.run(200, seed=2, life=100)
    assert not ran.errors
    assert not lost


def test_no_row_of_one_character_raises_anything_but_the_projects_own_errors():
    readers = (
        Filter,
        network_spec,
        check_data_set,
        lambda text: given_columns([text]),
        lambda text: numbers("--seeds", [text], int),
        lambda text: load_test_data(f"synthetic:{text}"),
        # "/" alone would search this machine
        lambda text: load_test_data(f"imagefolder:x{text}"),
    )
    for sign, count in product(f"{punctuation}9x \t\x1b\udcff", (3, 1000)):
        for row in (sign * count, f"a={sign * count}", f"a:b(c={sign * count})"):
            for read in readers:
                with suppress(FaError):
                    read(row)
