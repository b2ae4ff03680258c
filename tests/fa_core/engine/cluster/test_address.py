from __future__ import annotations

import importlib.util
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from fa_core.engine import Job
from fa_core.engine.audit import check_reachable, make_pool
from fa_core.engine.cluster import RayPool, address, line
from fa_core.engine.cluster.address import check_address
from fa_core.engine.devices import Placement
from fa_core.errors import FaError, MeasureError, UsageError

from .servers import NOT_FOUND, OK, RESIZED_OK, SETTINGS, answering_with


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))


@pytest.fixture
def silent():
    """An address that accepts connections, and then says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def refusing(silent):
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return f"127.0.0.1:{port}"


def test_a_missing_ray_is_one_line_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs ray.*pip install 'ray>=2.49'"):
        check_address("auto")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ray://head:10001", "cannot stream results; run on a node of the cluster"),
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
    with pytest.raises(MeasureError, match=f"no Ray cluster answers at {refusing}.*ray start --head"):
        check_address(refusing)


def test_ray_address_is_respected(refusing, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", refusing)
    with pytest.raises(MeasureError, match=f"no Ray cluster answers at {refusing}"):
        check_reachable(Placement(engine="ray"))


def test_what_only_a_cluster_has_is_refused_without_one():
    for given in ({"address": "auto"}, {"patience": 5.0}):
        with pytest.raises(UsageError, match="add --engine ray"):
            Placement(**given).check()
    with pytest.raises(UsageError, match="unknown engine 'rai'; did you mean ray"):
        Placement(engine="rai").check()


def test_a_cluster_is_not_asked_for_one_of_its_devices():
    with pytest.raises(UsageError, match="--device cuda:1 with --engine ray; Ray picks it: auto"):
        Placement(engine="ray", device="cuda:1").check()


def test_an_address_that_accepts_and_says_nothing_is_an_error_before_anything_of_ray_starts(silent, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(address, "KNOCK", 0.3)
    monkeypatch.setattr(line, "ChildProcess", None)
    words = rf"no Ray cluster answers at {silent} \(something listens there and says nothing\)"
    with make_pool(Placement(engine="ray", address=silent)) as pool, pytest.raises(FaError, match=words):
        pool.connect()


@pytest.mark.parametrize(
    ("words", "hang_up"),
    [
        (b"HTTP/1.0 505 HTTP Version Not Supported\r\n\r\n", True),
        (b"SSH-2.0-OpenSSH_9.6\r\n", False),
        (b"", True),
        (SETTINGS + NOT_FOUND, False),
    ],
    ids=["a web server", "another server", "hangs up", "a proxy"],
)
def test_what_answers_and_is_no_cluster_is_called_so_at_once(words, hang_up, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(address, "KNOCK", 60.0)  # nobody is waited for
    with (
        answering_with(words, hang_up=hang_up) as there,
        pytest.raises(MeasureError, match=rf"what answers at {there} is not a Ray cluster; .*`ray start --head`"),
    ):
        check_address(there)


@pytest.mark.parametrize("words", [SETTINGS + OK, SETTINGS + RESIZED_OK], ids=["plain", "resized"])
def test_whatever_answers_in_grpc_may_be_a_cluster(words):
    pytest.importorskip("ray")
    with answering_with(words) as there:
        check_address(there)


@pytest.mark.parametrize(
    ("words", "code"), [("RPC error: ", 12), ("RPC error: Received http2 header with status: 404", 14)]
)
def test_a_server_of_grpc_that_knows_no_call_of_ray_is_no_cluster(words, code, monkeypatch):
    exceptions = pytest.importorskip("ray").exceptions
    from fa_core.engine.cluster import connect

    def refuse(named):
        raise exceptions.RpcError(words, rpc_code=code)

    monkeypatch.setattr(connect, "_await_head", refuse)
    with pytest.raises(MeasureError, match=r"what answers at proxy:80 is not a Ray cluster; .*`ray start --head`"):
        connect.connect("proxy:80", lambda where: None)


def test_a_token_that_is_promised_and_not_there_is_one_line(monkeypatch):
    exceptions = pytest.importorskip("ray").exceptions
    tokens = pytest.importorskip("ray._private.authentication.authentication_token_setup")
    from fa_core.engine.cluster import connect

    def missing(**options):
        raise exceptions.AuthenticationError("no token")

    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setattr(tokens, "ensure_token_if_auth_enabled", missing)
    with pytest.raises(MeasureError, match=r"no token here, and RAY_AUTH_MODE is token; ~/.ray/auth_token must be"):
        connect.connect("head:6379", lambda where: None)


def test_a_log_that_an_error_names_is_kept(told, monkeypatch, tmp_path):
    pytest.importorskip("ray")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(line, "check_address", lambda named: None)
    with RayPool(Placement(engine="ray", address="head:6379", device="cpu"), told, measure="x:y") as pool:
        monkeypatch.setattr(pool, "_arguments", [])
        with pytest.raises(MeasureError, match=r"its driver exited with status 2; .*; log: ") as caught:
            pool.connect()
    assert "arguments are required" in Path(str(caught.value).rpartition("log: ")[2]).read_text()


def test_a_cluster_that_wants_a_certificate_is_only_knocked_at(silent, refusing, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_USE_TLS", "1")
    check_address(silent)
    with pytest.raises(MeasureError, match=f"no Ray cluster answers at {refusing}"):
        check_address(refusing)


@pytest.mark.slow
def test_auto_without_a_cluster_says_how_to_start_one(told):
    pytest.importorskip("ray")
    with (
        RayPool(Placement(engine="ray", address="auto"), told) as pool,
        pytest.raises(FaError, match="no Ray cluster runs here; `ray start --head`"),
    ):
        pool.connect()


def test_leaving_while_nobody_answers_ends_the_driver_at_once(silent, told, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(line, "check_address", lambda named: None)  # one that fell silent after it was asked
    pool = RayPool(Placement(engine="ray", address=silent), told, grace=600.0)
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
