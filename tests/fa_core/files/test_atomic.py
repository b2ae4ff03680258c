import os
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from fa_core.errors import FaError, UsageError
from fa_core.files import atomic
from fa_core.files.atomic import keep_old, prepared, remove, write_bytes
from fa_core.formats.audit_table import Journal
from fa_core.training.run_files import RunWriter

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a link to another user")


def test_what_is_no_file_is_refused_and_kept(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    ends = os.pipe()
    for path in (tmp_path / "fifo", tmp_path / "link", Path(f"/dev/fd/{ends[1]}"), tmp_path):
        with pytest.raises(UsageError, match=r"is a (FIFO|folder), no file"):
            write_bytes(path, b"x")
    assert (tmp_path / "fifo").is_fifo()
    assert (tmp_path / "link").is_symlink()
    for end in ends:
        os.close(end)


@as_root
@pytest.mark.parametrize(
    ("owner", "mode", "refused"), [(12345, 0o755, True), (0, 0o1777, True), (0, 0o755, False)]
)
def test_nothing_is_written_through_a_link_that_another_user_may_have_put_there(
    tmp_path, monkeypatch, owner, mode, refused
):
    (tmp_path / "real").mkdir()
    (tmp_path / "folder").symlink_to("real")
    (tmp_path / "hop").symlink_to(f"../{tmp_path.name}/folder")
    os.lchown(tmp_path / "folder", owner, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    os.lchown(tmp_path / "hop", 4242, -1)
    tmp_path.chmod(mode)
    said = "folder: is a link to real, which another user may have put there"
    for write in (lambda path: write_bytes(path, b"x"), keep_old, remove):
        with pytest.raises(UsageError, match=said) if refused else nullcontext():
            write(tmp_path / "hop" / "file")
    assert bool(list((tmp_path / "real").iterdir())) != refused


@pytest.mark.parametrize("target", ["real", "nothing", "link"])
def test_a_file_that_is_a_link_is_not_written_and_its_folders_may_be_links(tmp_path, target):
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to(target)
    for write in (lambda path: write_bytes(path, b"x"), keep_old, remove, Journal, RunWriter):
        with pytest.raises(UsageError, match=rf"link: is a link to {target}, and is not"):
            write(tmp_path / "folder" / "link")
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "real", "link"}
    assert (tmp_path / "real").read_bytes() == b""


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
    long = b"1" + b"\0" * 5_000_000
    for content in (long, b"second", b"third"):
        keep_old(file)
        write_bytes(file, content)
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert kept == {"audit.json": b"third", "audit.json.~1~": long, "audit.json.~2~": b"second"}
    assert (tmp_path / "audit.json.~1~").stat().st_blocks * 512 < 3_000_000, "zeros take no room"


def test_what_becomes_a_link_after_the_look_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("private")
    (tmp_path / "file").chmod(0o600)
    assert stat.S_IMODE(keep_old(tmp_path / "file").stat().st_mode) == 0o600
    (tmp_path / "precious").mkdir()
    (tmp_path / "folder").symlink_to("precious")
    (tmp_path / "link").symlink_to("file")
    monkeypatch.setattr(atomic, "place_of", lambda path: path)
    with pytest.raises(FaError, match="cannot write"):
        write_bytes(tmp_path / "folder" / "made" / "file", b"x")
    with pytest.raises(FaError, match="cannot be kept"):
        keep_old(tmp_path / "link")
    assert not list((tmp_path / "precious").iterdir())


def test_a_folder_that_the_umask_makes_useless_is_not_left(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(FaError, match="the umask forbids it"):
        write_bytes(tmp_path / "a" / "b", b"")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("umask", [0o777, 0o222])
def test_a_umask_that_leaves_a_file_not_to_its_owner_is_said_before_there_is_one(tmp_path, umask):
    before = os.umask(umask)
    try:
        with pytest.raises(UsageError, match="the umask forbids it"):
            prepared(tmp_path / "out.json")
    finally:
        os.umask(before)
    assert not list(tmp_path.iterdir())
    assert prepared(tmp_path / "out.json") == tmp_path / "out.json"
