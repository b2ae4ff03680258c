"""Explorers in a real pseudo-terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.terminal import PseudoTerminal

Open = Callable[..., PseudoTerminal]


@pytest.fixture
def open_explorer() -> Iterator[Open]:
    """Opens the explorer on paths and waits until it has painted; all are closed afterwards."""
    opened: list[PseudoTerminal] = []

    def open_it(*paths: Path, ready: str = "walk back", **options: Any) -> PseudoTerminal:
        terminal = PseudoTerminal([sys.executable, "-m", "fa_tui", *map(str, paths)], **options)
        opened.append(terminal)
        terminal.wait_for(ready, limit=60)
        terminal.read(quiet=0.4)
        return terminal

    yield open_it
    for terminal in opened:
        terminal.close()
