from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fa_core.atomic import keep_old, write_bytes
from fa_core.errors import UsageError


def test_a_fifo_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    fifo = tmp_path / "out"
    os.mkfifo(fifo)
    with pytest.raises(UsageError, match="is a device, FIFO or socket"):
        write_bytes(fifo, b"x")
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert list(tmp_path.iterdir()) == [fifo]


def test_a_link_to_a_fifo_is_refused_and_kept(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    link = tmp_path / "out"
    link.symlink_to("fifo")
    with pytest.raises(UsageError, match="is a device, FIFO or socket"):
        write_bytes(link, b"x")
    assert link.is_symlink()
    assert stat.S_ISFIFO(link.stat().st_mode)


def test_a_pipe_named_by_its_descriptor_is_refused(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(UsageError, match="is a device, FIFO or socket"):
            write_bytes(Path(f"/dev/fd/{writing}"), b"x")
    finally:
        os.close(reading)
        os.close(writing)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        write_bytes(tmp_path, b"x")


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_one_and_its_target_is_written(tmp_path: Path, there: bool) -> None:
    target, link = tmp_path / "real" / "file", tmp_path / "link"
    target.parent.mkdir()
    if there:
        target.write_bytes(b"old")
    link.symlink_to(target)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_an_old_file_keeps_a_numbered_name_that_no_later_one_takes(tmp_path: Path) -> None:
    file = tmp_path / "audit.json"
    assert keep_old(file) is None
    for content in (b"first", b"second", b"third"):
        keep_old(file)
        write_bytes(file, content)
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert kept == {"audit.json": b"third", "audit.json.~1~": b"first", "audit.json.~2~": b"second"}
