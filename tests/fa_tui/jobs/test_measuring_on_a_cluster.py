"""Measuring from the explorer on a cluster: what it is told of one, without one."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from fa_core.engine import audit
from fa_core.engine.devices import Placement
from fa_core.engine.pool import Pool
from fa_tui.app import ExplorerApp
from fa_tui.jobs.measuring import Setup
from fa_tui.screens.jobs import JobsScreen
from tests.fa_tui.looks import SIZE, screen_text
from tests.fa_tui.waiting import until

MakeApp = Callable[..., ExplorerApp]
CPU = Placement(device="cpu")
CLUSTER = Placement(engine="ray", address="head:6379", patience=60.0, group=4, jobs=2)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Placement]:
    """Placements that a pool was asked for; workers of this machine stand in for the cluster."""
    found: list[Placement] = []
    real = audit.Measuring.pool

    def pool(how: audit.Measuring, runs: int) -> Pool:
        found.append(how.placement)
        how.on_notice("Ray cluster at head:6379: 3 nodes")
        seen = how.on_event
        assert seen is not None
        here = replace(
            how, placement=CPU, on_event=lambda view: seen(replace(view, device="a/cpu"))
        )
        return real(here, runs)

    monkeypatch.setattr(audit.Measuring, "pool", pool)
    return found


@pytest.fixture
def nobody() -> Placement:
    """A cluster whose address nobody listens at."""
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return Placement(engine="ray", address=f"127.0.0.1:{port}")


async def test_the_key_measures_where_the_explorer_was_told_to(
    measuring_app: MakeApp, asked: list[Placement], tmp_path: Path
) -> None:
    app = measuring_app("wait", placement=CLUSTER)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("m")
        await until(pilot, lambda: "Ray cluster at head:6379: 3 nodes" in screen_text(app))
        (tmp_path / "go").touch()
        await until(pilot, lambda: app.session.walk_backs() == 1)
        assert asked == [CLUSTER]
    app.close_jobs()


async def test_a_cluster_that_does_not_answer_is_one_line_and_the_rest_works(
    measuring_app: MakeApp, nobody: Placement
) -> None:
    app = measuring_app("one", "two", placement=nobody)
    # whichever of the two is said last
    lines = [f"{name} s42: no Ray cluster answers at {nobody.address}" for name in ("one", "two")]
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.press("asterisk", "m")
        await until(pilot, lambda: any(line in screen_text(app) for line in lines))
        await until(pilot, lambda: "2 failed (J)" in screen_text(app))
        await pilot.press("a", *"5", "enter")
        await until(pilot, lambda: app.session.thresholds.h_norm_explosion_ratio == 5.0)
        await pilot.press("J")
        await until(pilot, lambda: isinstance(app.screen, JobsScreen))
        before = len(app.jobs.listed())
        await pilot.press("r")
        await until(pilot, lambda: not app.jobs.unfinished() and len(app.jobs.listed()) == before)
        assert all(job.state == "failed" for job in app.jobs.listed())
        await pilot.press("escape", "q")
    assert app.return_value == 0
    app.close_jobs()


async def test_a_run_that_cannot_be_measured_says_why(measuring_app: MakeApp) -> None:
    app = measuring_app("broken")
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("m")
        await until(pilot, lambda: "broken s42: the weights are empty" in screen_text(app))
    app.close_jobs()


def test_the_preferred_device_is_one_of_this_machine() -> None:
    def placed(said: Placement | None) -> Placement | None:
        return Setup(said).preferring("cuda:1").placement

    assert placed(None) == Placement(device="cuda:1")
    assert placed(Placement(jobs=3)) == Placement(device="cuda:1", jobs=3)
    assert placed(Placement(device="cpu")) == Placement(device="cpu")
    assert placed(CLUSTER) == CLUSTER
