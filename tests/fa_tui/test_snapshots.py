"""How the explorer looks. `pytest --snapshot-update` after looking at what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from textual.pilot import Pilot

from fa_core.rows import Problem
from fa_tui.app import ExplorerApp
from fa_tui.jobs.machine import MachineWatch
from fa_tui.session import Session
from tests.fa_tui.conftest import COLOURFUL, PLAIN
from tests.fa_tui.test_explorer import screen_text, until

Snap = Callable[..., bool]
Before = Callable[[Pilot[Any]], Any]


@pytest.fixture(autouse=True)
def nobody_looks_at_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """How busy this machine is differs from picture to picture."""
    monkeypatch.setattr(MachineWatch, "start", lambda watch: None)


SMALL, MEDIUM, LARGE = (80, 24), (120, 40), (200, 60)


def press(*keys: str, shows: str = "walk back") -> Before:
    """Wait for the panes that come after the first paint, press keys, wait until the screen shows a text."""

    async def run(pilot: Pilot[Any]) -> None:
        app = pilot.app
        assert isinstance(app, ExplorerApp)
        await until(pilot, lambda: app.explorer.sliders is not None and app.explorer.sliders.is_mounted)
        await pilot.pause()
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await until(pilot, lambda: not app.explorer.busy and shows in screen_text(app))
        await pilot.pause()

    return run


@pytest.mark.parametrize("size", [SMALL, MEDIUM, LARGE], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("theme", ["fa-dark", "fa-light"])
def test_matrix(snap_compare: Snap, app: ExplorerApp, size: tuple[int, int], theme: str) -> None:
    app.theme = theme
    assert snap_compare(app, terminal_size=size, run_before=press("down", shows="DFA"))


@pytest.mark.parametrize("size", [SMALL, MEDIUM], ids=lambda size: f"{size[0]}x{size[1]}")
def test_matrix_in_ascii_without_colour(snap_compare: Snap, session: Session, size: tuple[int, int]) -> None:
    app = ExplorerApp(session, title="audit_table.json", terminal=PLAIN)
    assert snap_compare(app, terminal_size=size, run_before=press("down", shows="DFA"))


VIEWS: dict[str, tuple[Iterable[str], str]] = {
    "two_ep_seeds_flipped_by_slider_a": (("a", "5", "enter"), "11 of 15"),
    "growth_instead_of_letters": (("v",), "showing growth"),
    "marked_runs": (("space", "down", "right", "space"), "2 marked"),
    "long_view_sorted_by_growth": (("t", "right", "s", "s"), "growth↓"),
    "filter_while_typing": (("slash", *"flag:c seed>50"), "flag:c seed>50 (/)"),
    "filter_that_means_nothing": (("slash", *"growth>x"), "'x' is not a number"),
    "help_of_the_matrix": (("question_mark",), "one line per method"),
    "help_of_a_slider": (("a", "question_mark"), "The threshold of one"),
    "no_jobs_yet": (("J",), "none yet"),
}


@pytest.mark.parametrize("view", VIEWS)
def test_view(snap_compare: Snap, app: ExplorerApp, view: str) -> None:
    keys, shows = VIEWS[view]
    assert snap_compare(app, terminal_size=MEDIUM, run_before=press(*keys, shows=shows))


def test_problems(snap_compare: Snap, session: Session) -> None:
    problems = [
        Problem("runs/cut.json", "runs/cut.json: truncated at line 3, column 17; write it again"),
        Problem("runs/model.pt", "runs/model.pt: wants to load os.system; convert it with safetensors"),
    ]
    app = ExplorerApp(Session(session.rows, problems=problems), title="runs", terminal=COLOURFUL)
    assert snap_compare(app, terminal_size=SMALL, run_before=press("P", shows="2 not opened"))


def test_too_small(snap_compare: Snap, app: ExplorerApp) -> None:
    assert snap_compare(app, terminal_size=(20, 5))
