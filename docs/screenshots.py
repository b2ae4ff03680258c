"""Make the screenshots of README and docs/ again: ``python docs/screenshots.py``.

Each is the real explorer on the sample runs, driven by keys and exported by Textual.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from fa_tui.app import ExplorerApp

HERE = Path(__file__).parent
SAMPLES = Path("sample_runs")
_PATIENCE = 60.0
"""Seconds after which words that are not on screen are given up."""


class Shot(NamedTuple):
    """A screenshot: what is opened, the keys pressed, the words that are then on screen, the size of the terminal."""

    name: str
    opened: Path
    keys: tuple[str, ...]
    shows: tuple[str, ...]
    size: tuple[int, int] = (120, 40)


PUBLISHED = SAMPLES / "audit_table_s42_s123_s456.json"
SHOTS = (
    Shot(
        "explorer",
        PUBLISHED,
        ("down", "right", "a", "5", "enter"),
        ("fires > 5×", "To flip (F)"),
    ),
    Shot("compare", PUBLISHED, ("down", "down", "C", "down", "down"), ("‖h_1‖ = ", "walk-back")),
    Shot(
        "timeline",
        SAMPLES / "main",
        ("down", "down", "T"),
        ("would stop", "walk-back"),
    ),
    Shot(
        "analysis",
        PUBLISHED,
        ("A",),
        ("Threshold sensitivity", "24,338×", "fires on", "of 15 need walk-back"),
    ),
)


async def until(pilot: Pilot[int], app: ExplorerApp, *words: str) -> None:
    """Let the explorer run until it shows some words and has shown them for a moment.

    Raises:
        TimeoutError: it never did.
    """
    shown, deadline = "", time.monotonic() + _PATIENCE
    while missing := [word for word in words if word not in shown]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the screen never showed {missing}")
        await pilot.pause(0.25)
        shown = "\n".join(
            strip.text for strip in app.screen._compositor.render_strips(app.screen.size)
        )
    await pilot.pause(0.25)


async def take(shot: Shot) -> None:
    """Run the explorer without a terminal and save what it shows."""
    from fa_core.formats import scan
    from fa_tui.app import ExplorerApp
    from fa_tui.session import Session
    from fa_tui.terminal.abilities import detect

    found = scan([shot.opened])
    terminal = detect({"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"})
    session = Session(found.rows, problems=found.problems, traces=found.traces)
    app = ExplorerApp(session, title=str(shot.opened), terminal=terminal)
    async with app.run_test(size=shot.size) as pilot:
        for key in shot.keys:
            await until(pilot, app, "Quit")
            await pilot.press(key)
        await until(pilot, app, *shot.shows)
        app.save_screenshot(f"{shot.name}.svg", str(HERE))
    print(HERE / f"{shot.name}.svg")


def main() -> None:
    os.environ.pop("NO_COLOR", None)
    os.chdir(HERE.parent)
    for shot in SHOTS:
        asyncio.run(take(shot))


if __name__ == "__main__":
    main()
