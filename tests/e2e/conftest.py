"""Explorers in a real pseudo-terminal."""

import sys
from collections.abc import Callable

import pytest

from tests.e2e.synthetic import audit_table
from tests.e2e.terminal import PseudoTerminal

Open = Callable[..., PseudoTerminal]


@pytest.fixture
def open_explorer():
    """Opens explorers on paths and waits until each has painted; all are closed afterwards."""
    opened = []

    def open_it(*paths, ready="walk-back", **options):
        terminal = PseudoTerminal([sys.executable, "-m", "fa_tui", *map(str, paths)], **options)
        opened.append(terminal)
        terminal.wait_for(ready, limit=60)
        terminal.read(quiet=0.4)
        return terminal

    try:
        yield open_it
    finally:
        for terminal in opened:
            terminal.close()


@pytest.fixture(scope="session")
def ten_thousand(tmp_path_factory):
    """An audit table of 10,000 runs."""
    return audit_table(tmp_path_factory.mktemp("many") / "many.json", 10_000)
