"""A fixed part of what `python -m tests.fuzz` goes on with."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest
import textual
from rich.traceback import Traceback

from tests.fuzz import monkey
from tests.fuzz.readers import KINDS

CASES = {
    "json": 1200,
    "run folders": 300,
    "checkpoints": 600,
    "measured runs": 100,
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


def test_the_monkey_hears_of_errors_that_are_only_logged() -> None:
    def fails(_: object = None) -> None:
        raise ZeroDivisionError("a defect")

    def swallowed() -> Traceback:
        try:
            fails()
        except ZeroDivisionError:
            return Traceback()
        raise AssertionError

    async def in_a_callback() -> None:
        asyncio.get_running_loop().call_soon(fails)
        await asyncio.sleep(0)

    errors: list[str] = []
    with monkey.Complaints(errors).listening():
        future: Future[None] = Future()
        future.add_done_callback(fails)
        future.set_result(None)
        thread = threading.Thread(target=fails)
        thread.start()
        thread.join()
        asyncio.run(in_a_callback())
        textual.log.error("a defect")
        textual.log.worker(swallowed())
        textual.log.info("no defect")
    assert len(errors) == 5
    assert all("a defect" in error for error in errors)


def test_the_monkey_sees_changed_files(tmp_path: Path) -> None:
    names = ("weights.pt", "other.pt", "a/audit.json", "b/audit.json", "c/audit.json")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    before = monkey.hashes(tmp_path)
    assert monkey.lost(before, monkey.hashes(tmp_path)) == []
    (tmp_path / "weights.pt").write_text("changed")
    (tmp_path / "weights.pt.~1~").write_text("weights.pt")
    (tmp_path / "other.pt").unlink()
    (tmp_path / "a/audit.json").rename(tmp_path / "a/audit.json.~1~")
    (tmp_path / "a/audit.json").write_text("a new one")
    (tmp_path / "b/audit.json").write_text("a new one")
    gone = monkey.lost(before, monkey.hashes(tmp_path))
    assert [str(path.relative_to(tmp_path)) for path in sorted(gone)] == [
        "b/audit.json",
        "other.pt",
        "weights.pt",
    ]
