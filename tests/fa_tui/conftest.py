"""Explorers on the published audits, and on checkpoints that a fake worker measures."""

from pathlib import Path

import msgspec
import pytest
from textual.scrollbar import ScrollBar, ScrollBarRender

from fa_core.audit.devices import Execution
from fa_core.audit.jobs import MeasureOptions
from fa_core.audit.worker import MEASURE
from fa_core.formats import scan
from fa_tui.app import ExplorerApp
from fa_tui.jobs.measuring import Setup
from fa_tui.session import Session
from fa_tui.settings import Loaded, Settings
from fa_tui.terminal import abilities
from fa_tui.terminal.abilities import Terminal
from tests.fa_core.rows import row_of

COLOURFUL = Terminal(term="xterm-256color", unicode=True, colours=1 << 24)
PLAIN = Terminal(term="vt100", unicode=False, colours=0)


@pytest.fixture
def session(published_table):
    """The published table: 5 methods, 3 seeds, 9 walk-backs; its source is the same in every checkout."""
    return Session(
        [
            msgspec.structs.replace(row, source="audit_table.json")
            for row in scan([published_table]).rows
        ]
    )


@pytest.fixture
def app(session):
    """An explorer on the published table."""
    return ExplorerApp(session, title="audit_table.json", terminal=COLOURFUL)


@pytest.fixture
def measuring_app(tmp_path, monkeypatch):
    """Makes an explorer on unmeasured checkpoints of the given names; `faults:measure_shown` measures them.

    Its jobs end with the test.
    """
    monkeypatch.chdir(
        Path(__file__).parents[1] / "fa_core" / "audit"
    )  # workers import `faults` from there
    monkeypatch.setenv(MEASURE, "faults:measure_shown")
    made = []

    def make(*names, **different):
        rows = [row_of(name, tmp_path / name, ..., seed=42) for name in names]
        options = MeasureOptions(data="synthetic")
        setup = Setup(Execution(device="cpu"), options)
        setup = msgspec.structs.replace(setup, **different)
        app = ExplorerApp(
            Session(rows),
            title="checkpoints",
            paths=[tmp_path],
            settings=Loaded(Settings(live="off")),  # no such files are there
            terminal=COLOURFUL,
            setup=setup,
        )
        made.append(app)
        return app

    yield make
    for app in made:
        app.jobs.close()


@pytest.fixture
def started(monkeypatch):
    """The explorers that commands start on a terminal, which do not run."""
    apps = []
    monkeypatch.setattr(abilities, "on_a_terminal", lambda: True)
    monkeypatch.setattr(ExplorerApp, "run", lambda app: apps.append(app) or 0)
    return apps


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A working folder of the test's own."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def copied(monkeypatch):
    """What was copied."""
    texts = []
    monkeypatch.setattr(ExplorerApp, "copy_to_clipboard", lambda app, text: texts.append(text))
    monkeypatch.delenv("TMUX", raising=False)
    return texts


@pytest.fixture(autouse=True)
def stock_scrollbars(monkeypatch):
    """An explorer in ASCII changes the scrollbars of the whole process."""
    monkeypatch.setattr(ScrollBar, "renderer", ScrollBarRender)
