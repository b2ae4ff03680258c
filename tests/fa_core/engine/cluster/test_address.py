"""Addresses: what is refused, and that nothing keeps the caller waiting."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fa_core.engine import ray_pool
from fa_core.engine.audit import Measuring
from fa_core.engine.devices import Placement
from fa_core.engine.jobs import Job
from fa_core.engine.ray_pool import RayPool, find_cluster
from fa_core.errors import FaError, MeasureError, UsageError


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))


@pytest.fixture
def refusing():
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return f"127.0.0.1:{port}"


def test_a_missing_ray_is_one_line_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs ray.*pip install 'ray>=2.49'"):
        find_cluster("auto")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ray://head:10001", "is not HOST:PORT"),
        ("head", "is not HOST:PORT"),
        ("head:http", "is not HOST:PORT"),
        ("head:99999", "is not HOST:PORT"),
    ],
)
def test_an_address_that_is_none_is_refused(address, words):
    pytest.importorskip("ray")
    with pytest.raises(UsageError, match=words):
        Placement(engine="ray", address=address).check()


def test_an_address_where_nobody_listens_is_an_error_at_once(refusing):
    pytest.importorskip("ray")
    with pytest.raises(
        MeasureError, match=f"no Ray cluster answers at {refusing}.*ray start --head"
    ):
        find_cluster(refusing)


def test_ray_address_is_respected(refusing, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", refusing)
    with pytest.raises(MeasureError, match=f"no Ray cluster answers at {refusing}"):
        Measuring(Placement(engine="ray")).check()


def test_what_only_a_cluster_has_is_refused_without_one():
    for given in ({"address": "auto"}, {"patience": 5.0}):
        with pytest.raises(UsageError, match="add --engine ray"):
            Placement(**given).check()
    with pytest.raises(UsageError, match="unknown engine 'rai'; did you mean ray"):
        Placement(engine="rai").check()


def test_a_cluster_is_not_asked_for_one_of_its_devices():
    with pytest.raises(UsageError, match="--device cuda:1 with --engine ray; Ray picks it: auto"):
        Placement(engine="ray", device="cuda:1").check()


@contextlib.contextmanager
def answering_with(words: bytes, *, hang_up: bool = False) -> Iterator[str]:
    """The address of a server that sends this to every client, and then nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    line, _ = listening.accept()
                except OSError:
                    return
                kept.append(line)
                line.sendall(words)
                if hang_up:
                    line.close()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            for line in kept:
                line.close()


@pytest.fixture
def stuck() -> Iterator[str]:
    """The address of a server that begins as Ray's does, and then says nothing."""
    with answering_with(b"\0\0\0\x04\0\0\0\0\0") as address:
        yield address


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "hang_up"),
    [
        (b"\0\0\0\x04\0\0\0\0\0", False),
        (b"", False),
        (b"SSH-2.0-OpenSSH_9.6\r\n", False),
        (b"", True),
    ],
    ids=["begins as Ray does", "says nothing", "another server", "hangs up"],
)
def test_a_cluster_that_cannot_be_joined_is_refused_in_one_line_within_the_limit(
    words, hang_up, monkeypatch
):
    pytest.importorskip("ray")
    monkeypatch.setattr(ray_pool, "JOIN", 5.0)
    begun = time.monotonic()
    with (
        answering_with(words, hang_up=hang_up) as there,
        Measuring(Placement(engine="ray", address=there)).pool() as pool,
    ):
        says = rf"no Ray cluster answers at {there} within 5 s; is it up.*`ray start --address={there}`"
        with pytest.raises(FaError, match=says):
            pool.connect()
        assert pool.pids() == []
    assert time.monotonic() < begun + 20


def test_a_cluster_that_refuses_this_machine_says_why_and_how_to_join(monkeypatch):
    ray = pytest.importorskip("ray")
    from fa_core.engine import ray_driver

    def refuse(address, **options):
        raise ConnectionError("no node of this address\nand more")

    monkeypatch.setattr(ray, "init", refuse)
    words = r"the Ray cluster at head:6379 cannot be joined \(no node of this address\); .*`ray start --address=head"
    with pytest.raises(MeasureError, match=words):
        ray_driver.connect("head:6379")


@pytest.mark.slow
def test_a_token_that_is_promised_and_not_there_is_one_line(stuck, monkeypatch, tmp_path):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("HOME", str(tmp_path))
    with (
        Measuring(Placement(engine="ray", address=stuck)).pool() as pool,
        pytest.raises(FaError, match=r"token.*~/.ray/"),
    ):
        pool.connect()


def test_the_cluster_that_was_started_here_is_found_and_one_that_is_gone_is_refused_at_once(
    stuck, refusing, monkeypatch, tmp_path
):
    pytest.importorskip("ray")
    note = tmp_path / "ray" / "ray_current_cluster"
    note.parent.mkdir()
    note.write_text(stuck)
    assert (find_cluster("auto"), find_cluster(None)) == ("auto", "auto")
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert find_cluster(None) == "local"
    monkeypatch.delenv("RAY_ADDRESS")
    note.write_text(refusing)
    with pytest.raises(
        MeasureError, match=r"of this machine does not answer .*`ray stop` forgets one that is gone"
    ):
        find_cluster(None)


def test_another_users_cluster_is_joined_only_when_it_is_asked_for(stuck, monkeypatch, tmp_path):
    pytest.importorskip("ray")
    note = tmp_path / "ray" / "ray_current_cluster"
    note.parent.mkdir()
    note.write_text(stuck)
    monkeypatch.setattr(os, "getuid", lambda: note.stat().st_uid + 1)
    assert (find_cluster("auto"), find_cluster(None)) == ("auto", "local")


def test_a_log_that_an_error_names_is_kept(told, stuck, monkeypatch, tmp_path):
    pytest.importorskip("ray")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray_pool.messages, "encode", lambda setup: b"no setup")
    words = r"its driver exited with status 1; .*; log: "
    with (
        RayPool(Placement(engine="ray", address=stuck, device="cpu"), told, measure="x:y") as pool,
        pytest.raises(MeasureError, match=words) as caught,
    ):
        pool.connect()
    assert "JSONDecodeError" in Path(str(caught.value).rpartition("log: ")[2]).read_text()


def test_auto_without_a_cluster_says_how_to_start_one(told):
    pytest.importorskip("ray")
    with (
        RayPool(Placement(engine="ray", address="auto"), told) as pool,
        pytest.raises(FaError, match="no Ray cluster runs here; `ray start --head`"),
    ):
        pool.connect()


def test_leaving_while_nobody_answers_ends_the_driver_at_once(stuck, told, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(ray_pool, "GRACE", 600.0)
    pool = RayPool(Placement(engine="ray", address=stuck), told)
    future = pool.submit(Job(id="net", checkpoint="/net"))
    told.wait_for(lambda view: view.job.id == "net")
    while not pool.pids():
        assert not future.done()
    closing = threading.Thread(target=pool.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    assert future.cancelled()
    assert pool.pids() == []
