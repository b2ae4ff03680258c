"""Addresses: what is refused, and that nothing keeps the caller waiting."""

import contextlib
import importlib.util
import socket
import threading

import psutil
import pytest

from fa_core.audit.cluster import ClusterPool, join
from fa_core.audit.devices import Execution, answering_cluster
from fa_core.audit.jobs import Job
from fa_core.audit.pool import JobCancelled
from fa_core.errors import MeasureError, UsageError


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))


def test_a_missing_ray_is_one_line_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs ray.*pip install 'ray>=2.49'"):
        answering_cluster("auto")


@pytest.mark.parametrize("address", [None, "head", "head:http"])
def test_no_address_and_what_is_none_are_refused(address):
    pytest.importorskip("ray")
    with pytest.raises(UsageError, match="is not HOST:PORT"):
        answering_cluster(address)


def test_what_only_a_cluster_has_is_refused_without_one():
    with pytest.raises(UsageError, match="add --engine ray"):
        Execution(address="auto").check()
    with pytest.raises(UsageError, match="--device cuda:1 with --engine ray; Ray picks it: auto"):
        Execution(engine="ray", device="cuda:1").check()


@pytest.fixture
def stuck():
    """The address of a server that begins as Ray's does, and then says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        kept = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    line, _ = listening.accept()
                    kept.append(line)
                    line.sendall(b"\0\0\0\x04\0\0\0\0\0")

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        for line in kept:
            line.close()


def joining():
    """The children that join a cluster."""
    here = psutil.Process().children()
    return [child for child in here if "fa_core.audit.cluster" in child.cmdline()]


def refusal(address, told):
    """The error of a job that cannot be placed."""
    with ClusterPool(Execution(engine="ray", address=address), told) as pool:
        future = pool.submit(Job(id="net", checkpoint="/net"))
        try:
            return str(future.exception(60))
        finally:
            assert joining() == []


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_is_given_up_in_one_line(stuck, told, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr("fa_core.audit.cluster.JOIN", 5.0)
    said = refusal(stuck, told)
    assert f"the Ray cluster at {stuck} does not answer within 5 s" in said
    assert "`ray start --address=HOST:PORT`" in said


def test_a_cluster_that_refuses_this_machine_says_why_and_how_to_join(monkeypatch):
    ray = pytest.importorskip("ray")

    def refuse(address, **options):
        raise ConnectionError("no node of this address\nand more")

    monkeypatch.setattr(ray, "init", refuse)
    words = (
        r"the Ray cluster at head:6379 cannot be joined \(no node of this address\); .*`ray start"
    )
    with pytest.raises(MeasureError, match=words):
        join("head:6379", "auto")


def test_leaving_while_nobody_answers_ends_the_child_at_once(stuck, told):
    pytest.importorskip("ray")
    pool = ClusterPool(Execution(engine="ray", address=stuck), told)
    future = pool.submit(Job(id="net", checkpoint="/net"))
    while not joining():
        assert not future.done()
    closing = threading.Thread(target=pool.close, daemon=True)
    closing.start()
    closing.join(30)
    assert not closing.is_alive()
    assert isinstance(future.exception(0), JobCancelled)
    assert joining() == []
