"""The one way into a file that a file or a folder names."""

import inspect
import os
import socket
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from fa_core.errors import FaError, UnreadableInput
from fa_core.files.opening import MissingFile, open_file, read_file, real_path
from fa_core.formats import scan
from fa_core.formats.checkpoint_file import input_hashes
from tests.json_files import put_json


def unix_socket(path):
    # a socket's own name is limited to a hundred characters
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(path.name)
    finally:
        os.chdir(before)


ODD = {
    "FIFO": (os.mkfifo, "is a FIFO, not a file"),
    "socket": (unix_socket, "is a socket, not a file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "is a device, not a file"),
    "system": (
        lambda path: path.symlink_to("/proc/self/status"),
        "is a view of the system, not a file",
    ),
    "loop": (lambda path: path.symlink_to(path), "cannot be read"),
    "folder": (Path.mkdir, "is a folder, not a file"),
}


@pytest.fixture(params=ODD)
def odd(request, tmp_path):
    return ODD[request.param]


def test_only_regular_files_are_opened(odd, tmp_path):
    make, message = odd
    make(tmp_path / "x")
    with pytest.raises(UnreadableInput, match=f"x: {message}"):
        open_file(tmp_path / "x")


@pytest.mark.parametrize("name", ["x" * 300, "d/" * 2100 + "x", "nul\0", "\ud800"])
def test_a_name_that_no_system_allows_is_one_line(name):
    with pytest.raises(UnreadableInput):
        read_file(f"/tmp/{name}")


def test_what_replaces_a_file_between_the_look_and_the_opening_is_not_waited_for(
    tmp_path, monkeypatch
):
    path = tmp_path / "x"
    path.write_bytes(b"x")
    status = path.stat()
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(os, "stat", lambda path: status)
    with pytest.raises(UnreadableInput, match="is a FIFO"):
        open_file(path)


def weights(path):
    """What a checkpoint holds, as text."""
    from fa_core.measure.checkpoint import load_checkpoint

    return str(load_checkpoint(path).tensors["w"].tolist())


def keys(path):
    found = scan([path])
    return " ".join([*(row.key for row in found.rows), *(trace.key for trace in found.traces)])


def samples(path):
    from fa_core.zoo.data import load_data

    return load_data(f"npz:{path}").hash


def arrays(path):
    x, y = np.zeros((4, 2), np.float32), np.zeros(4, np.int64)
    np.savez(path, train_x=x, train_y=y, test_x=x, test_y=y)


READ = {
    "a.safetensors": (lambda path: save_file({"w": torch.ones(2)}, path), weights),
    "a.json": (lambda path: path.write_text('{"residual_norms": [1.0, 2.0]}'), keys),
    "a.npz": (arrays, samples),
}


@pytest.mark.parametrize("name", READ)
def test_what_was_looked_at_is_what_is_read(name, tmp_path, monkeypatch):
    write, read = READ[name]
    path = tmp_path / "run" / name
    path.parent.mkdir()
    write(path)
    expected = read(path)
    assert expected
    opened = os.fdopen

    def swap(descriptor, mode):
        path.unlink(missing_ok=True)
        path.symlink_to("/dev/null")  # a FIFO would hang the tests
        return opened(descriptor, mode)

    monkeypatch.setattr(os, "fdopen", swap)
    assert read(path) == expected


def test_links_are_followed_to_a_file(tmp_path):
    (tmp_path / "blob").write_bytes(b"abc")
    (tmp_path / "x").symlink_to("blob")
    assert read_file(tmp_path / "x") == b"abc"


def test_a_real_path_has_no_links_and_nothing_is_resolved_that_is_not_there(tmp_path):
    (tmp_path / "folder").symlink_to(".")
    (tmp_path / "gone").symlink_to("folder/nothing")
    assert real_path(tmp_path / "folder" / "folder") == tmp_path
    assert real_path(tmp_path / "gone") == tmp_path / "gone"


def test_a_larger_file_than_is_read_is_refused(tmp_path):
    path = tmp_path / "x"
    with path.open("wb") as file:
        file.truncate(10 << 30)
    with pytest.raises(UnreadableInput, match="has 10,485,760 KiB; such a file has at most 1,024"):
        read_file(path, 1 << 20)
    with path.open("r+b") as file:
        file.truncate(1 << 43)
    with pytest.raises(UnreadableInput, match="x: needs 33,554,432 MiB of memory, and"):
        read_file(path)


def test_a_missing_file_is_told_apart_and_the_nearest_folder_is_named(tmp_path):
    with pytest.raises(MissingFile, match=f"no such file or folder; the nearest.*{tmp_path}"):
        read_file(tmp_path / "a" / "b")


@pytest.mark.parametrize("name", ["audit.json", "manifest.json", "model.safetensors", "x.tfevents"])
def test_nothing_odd_in_a_run_folder_stops_a_search(odd, tmp_path, name):
    run = tmp_path / "dfa_s42"
    run.mkdir()
    (run / "manifest.json").write_text(
        '{"method": "dfa", "arch": "resmlp", "data": "synthetic", "seed": 42}'
    )
    (run / "model.safetensors").write_bytes(b"")
    (run / name).unlink(missing_ok=True)
    odd[0](run / name)
    found = scan([tmp_path])
    assert all("\n" not in problem.message for problem in found.problems)


@contextmanager
def nested(start, name, depth):
    """Folders within folders; they are removed one by one, since others remove them with a stack."""
    before = Path.cwd()
    os.chdir(start)
    for _ in range(depth):
        os.mkdir(name)  # noqa: PTH102
        os.chdir(name)
    Path("a.json").write_text('{"residual_norms": [1.0, 2.0]}')
    os.chdir(start)
    try:
        yield
    finally:
        for _ in range(depth):
            os.chdir(name)
        Path("a.json").unlink()
        for _ in range(depth):
            os.chdir("..")
            os.rmdir(name)  # noqa: PTH106
        os.chdir(before)


def test_folders_nested_deeper_than_the_stack_are_searched(tmp_path):
    limit, frames = sys.getrecursionlimit(), len(inspect.stack(0))
    with nested(tmp_path, "d", 250):
        sys.setrecursionlimit(frames + 200)
        try:
            assert [row.key for row in scan(["d"]).rows] == ["a"]
        finally:
            sys.setrecursionlimit(limit)


def test_folders_beyond_the_longest_name_are_one_problem(tmp_path):
    with nested(tmp_path, "d" * 200, 30):
        (problem,) = scan(["."]).problems
    assert "File name too long" in problem.message


def test_an_audit_whose_checkpoint_is_no_file_opens(odd, tmp_path):
    from fa_core.formats import load_audits

    make, message = odd
    make(tmp_path / "weights")
    facts = {
        "checkpoint": str(tmp_path / "weights"),
        "files": [[0, 1]],
        "hashes": {"weights": "sha256:0"},
    }
    put_json(tmp_path / "audit.json", {"residual_norms": [1.0, 2.0], "provenance": facts})
    row = load_audits(tmp_path / "audit.json").row(0)
    no_weights = message in ("cannot be read", "is a folder, not a file")
    assert row.report.changed == ("" if no_weights else "its weights cannot be read")
    with pytest.raises(FaError):
        input_hashes(tmp_path / "weights")
