import os
import stat
from pathlib import Path

import pytest

from fa_core.errors import FaError, UsageError
from fa_core.files import atomic
from fa_core.files.atomic import keep_old, remove, write_bytes
from fa_core.formats.audit_table import Journal
from fa_core.training.run_files import RunWriter

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a link to another user")


def test_what_is_no_file_is_refused_and_kept(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    reading, writing = os.pipe()
    before = sorted(tmp_path.iterdir())
    pipe = Path(f"/dev/fd/{writing}")
    for path in (tmp_path / "fifo", tmp_path / "link", pipe):
        with pytest.raises(UsageError, match="is a FIFO, no file"):
            write_bytes(path, b"x")
    with pytest.raises(UsageError, match="is a folder"):
        write_bytes(tmp_path / "folder", b"x")
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "link").is_symlink()
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)
    os.close(reading)
    os.close(writing)


@as_root
@pytest.mark.parametrize("named", ["folder/file", "hop/file", "../{}/folder/file"])
def test_nothing_is_written_through_a_link_of_another_user(tmp_path, named):
    (tmp_path / "real").mkdir()
    (tmp_path / "folder").symlink_to("real")
    (tmp_path / "hop").symlink_to("folder")
    os.lchown(tmp_path / "folder", 12345, -1)
    for write in (lambda path: write_bytes(path, b"x"), keep_old, remove):
        with pytest.raises(
            UsageError, match=r"is a link that another user may have put there, to .*real"
        ):
            write(tmp_path / named.format(tmp_path.name))
    assert not list((tmp_path / "real").iterdir())


@as_root
def test_a_link_of_the_system_counts_only_where_nobody_else_can_put_one(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "folder").symlink_to("real")
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    tmp_path.chmod(0o755)
    write_bytes(tmp_path / "folder" / "file", b"x")
    tmp_path.chmod(0o1777)
    with pytest.raises(UsageError, match="another user"):
        write_bytes(tmp_path / "folder" / "file", b"x")


@pytest.mark.parametrize("target", ["real", "nothing", "link", "folder/real"])
def test_a_file_that_is_a_link_is_not_written_and_its_folders_may_be_links(tmp_path, target):
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "real").write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to(target)
    for write in (lambda path: write_bytes(path, b"x"), keep_old, remove, Journal, RunWriter):
        for path in (link, tmp_path / "folder" / "link"):
            with pytest.raises(UsageError, match=rf"link: is a link to {target}, and is not"):
                write(path)
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "real", "link"}
    write_bytes(tmp_path / "folder" / "real", b"new")
    assert (tmp_path / "real").read_bytes() == b"new"


def test_an_open_file_may_be_named_as_the_system_does(tmp_path):
    with (tmp_path / "file").open("w") as file:
        write_bytes(Path(f"/dev/fd/{file.fileno()}"), b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    write_bytes(tmp_path / "file", b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FaError, match="No space left"):
        write_bytes(tmp_path / "file", b"new")
    with pytest.raises(FaError, match="No space left"):
        keep_old(tmp_path / "file")
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [b"old"]


def test_an_old_file_keeps_a_numbered_name_that_no_later_one_takes(tmp_path):
    file = tmp_path / "audit.json"
    assert keep_old(file) is None
    for content in (b"first", b"second", b"third"):
        keep_old(file)
        write_bytes(file, content)
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert kept == {"audit.json": b"third", "audit.json.~1~": b"first", "audit.json.~2~": b"second"}


def test_a_folder_that_becomes_a_link_after_the_look_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "precious").mkdir()
    (tmp_path / "folder").symlink_to("precious")
    monkeypatch.setattr(atomic, "place_of", lambda path: path)
    with pytest.raises(FaError, match="cannot write"):
        write_bytes(tmp_path / "folder" / "file", b"x")
    assert not list((tmp_path / "precious").iterdir())


def test_an_old_file_keeps_its_mode_and_is_not_read_through_a_new_link(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("private")
    (tmp_path / "file").chmod(0o600)
    (tmp_path / "link").symlink_to("file")
    assert stat.S_IMODE(keep_old(tmp_path / "file").stat().st_mode) == 0o600
    monkeypatch.setattr(atomic, "place_of", lambda path: path)
    with pytest.raises(FaError, match="cannot be kept"):
        keep_old(tmp_path / "link")
