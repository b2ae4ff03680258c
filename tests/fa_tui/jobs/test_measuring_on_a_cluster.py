"""Measuring from the explorer on a cluster: what it is told of one, without one."""

import socket

import pytest
from msgspec.structs import replace

from fa_core.audit import audit
from fa_core.audit.devices import Execution
from fa_tui.jobs.measuring import Setup
from tests.fa_tui.looks import on_page, ratio_is, running, screen_text, set_a_to, shows, walked
from tests.fa_tui.waiting import until

CPU = Execution(device="cpu")
CLUSTER = Execution(engine="ray", address="head:6379", jobs=2)


@pytest.fixture
def asked(monkeypatch):
    """Executions that a pool was asked for; workers of this machine stand in for the cluster."""
    pytest.importorskip("ray")
    found = []
    real = audit.Measuring.pool

    def pool(how, runs):
        found.append(how.execution)
        how.on_notice("Ray cluster at head:6379: 3 nodes")
        seen = how.on_event
        here = replace(
            how, execution=CPU, on_event=lambda view: seen(replace(view, device="a/cpu"))
        )
        return real(here, runs)

    monkeypatch.setattr(audit.Measuring, "pool", pool)
    return found


@pytest.fixture
def nobody():
    """A cluster whose address nobody listens at."""
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return Execution(engine="ray", address=f"127.0.0.1:{port}")


async def test_the_key_measures_where_the_explorer_was_told_to(measuring_app, asked, tmp_path):
    app = measuring_app("wait", execution=CLUSTER)
    async with running(app) as pilot:
        await pilot.press("m")
        await shows(pilot, "Ray cluster at head:6379: 3 nodes")
        (tmp_path / "go").touch()
        await walked(pilot, 1)
        assert asked == [CLUSTER]


async def test_a_cluster_that_does_not_answer_is_one_line_and_the_rest_works(measuring_app, nobody):
    app = measuring_app("one", "two", execution=nobody)
    # whichever of the two is said last
    lines = [f"{name} s42: no Ray cluster answers at {nobody.address}" for name in ("one", "two")]
    async with running(app, (160, 40)) as pilot:
        await pilot.press("asterisk", "m")
        await until(pilot, lambda: any(line in screen_text(app) for line in lines))
        await shows(pilot, "2 failed (J)")
        await set_a_to(pilot, "5")
        await ratio_is(pilot, 5.0)
        await pilot.press("J")
        await on_page(pilot, "Jobs")
        before = len(app.jobs.listed())
        await pilot.press("m")
        await until(pilot, lambda: not app.jobs.unfinished() and len(app.jobs.listed()) == before)
        assert all(job.state == "failed" for job in app.jobs.listed())
        await pilot.press("escape", "q")
    assert app.return_value == 0


def test_the_preferred_device_is_one_of_this_machine():
    def placed(said):
        return Setup(said).preferring("cuda:1").execution

    assert placed(Execution(jobs=3)) == Execution(device="cuda:1", jobs=3)
    assert placed(Execution(device="cpu")) == Execution(device="cpu")
    assert placed(CLUSTER) == CLUSTER
