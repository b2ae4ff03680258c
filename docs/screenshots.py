"""Make the screenshots of README again: ``python docs/screenshots.py``.

Each is the real explorer on the sample runs, driven by keys and exported by Textual.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
SAMPLES = Path("sample_runs")


class Shot(NamedTuple):
    """A screenshot: what is opened, the keys pressed, and the size of the terminal."""

    name: str
    opened: Path
    keys: tuple[str, ...]
    size: tuple[int, int] = (120, 40)


PUBLISHED = SAMPLES / "audit_table_s42_s123_s456.json"
SHOTS = (
    Shot("explorer", PUBLISHED, ("down", "right", "a", "5", "enter")),
    Shot("compare", PUBLISHED, ("down", "down", "C")),
    Shot("timeline", SAMPLES / "main", ("down", "down", "T")),
    Shot("analysis", PUBLISHED, ("A",)),
)


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
        await pilot.pause(0.3)
        for key in shot.keys:
            await pilot.press(key)
            await pilot.pause(0.1)
        await pilot.pause(0.3)
        app.save_screenshot(f"{shot.name}.svg", str(HERE))
    print(HERE / f"{shot.name}.svg")


def main() -> None:
    os.environ.pop("NO_COLOR", None)
    os.chdir(HERE.parent)
    for shot in SHOTS:
        asyncio.run(take(shot))


if __name__ == "__main__":
    main()
