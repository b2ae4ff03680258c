"""Changed files of every kind, and a monkey at the explorer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import monkey
from tests.fuzz.readers import KINDS

CASES = {
    "json": 800,
    "run folders": 200,
    "checkpoints": 400,
    "measured runs": 40,
    "toml": 200,
}
BLOCKS = 2


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("kind", KINDS)
def test_no_file_and_no_option_raises_anything_but_the_projects_own_errors(
    tmp_path: Path, kind: str, block: int
) -> None:
    for number in range(block, CASES[kind], BLOCKS):
        (tmp_path / "number").write_text(str(number))
        KINDS[kind](tmp_path, number)


def test_a_monkey_finds_no_defect_and_changes_no_file() -> None:
    ran, lost = monkey.run(200, seed=2, life=100)
    assert not ran.errors
    assert not lost
