"""The longest that one key keeps the explorer's screen from anything else, with 10,000 runs open.

    python -m tests.bench.bench_blocks [--runs 10000 --tries 3 --shape methods] [--only filter]

The explorer runs in this process, without a terminal. While it handles a key, a timer ticks beside it: the longest
gap between two ticks is the block, and of it the longest that one garbage collection took is named.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.events import Key
from textual.pilot import Pilot

from fa_core.formats import scan
from fa_tui.app import ExplorerApp
from fa_tui.session import Session
from fa_tui.terminal.abilities import Terminal
from tests.bench.figures import table
from tests.e2e.synthetic import PUBLISHED, audit_table

_TICK_SECONDS = 0.001
_REST_SECONDS = 0.3
"""The explorer is at rest when for so long it did nothing that took more than a few milliseconds."""
_SHORT_SECONDS = 0.005
_PATIENCE = 30.0


def seeds_table(path: Path, runs: int) -> Path:
    """Write an audit table of the published five methods over many seeds."""
    reports = [
        report
        for key, report in json.loads(PUBLISHED.read_bytes())["reports"].items()
        if key.endswith("_s42")
    ]
    many = {}
    for number in range(runs):
        report = reports[number % len(reports)]
        seed = number // len(reports)
        many[f"{report['method_name']}_s{seed}"] = {**report, "seed": seed}
    path.write_text(json.dumps({"reports": many}))
    return path


SHAPES = {"methods": audit_table, "seeds": seeds_table}
"""A line of the matrix for every run, or five lines."""


@dataclass(frozen=True)
class Step:
    """Keys whose longest block is measured, and keys around them.

    Attributes:
        what: what the table calls it.
        keys: pressed one after the other, each when the last one's work is done; the longest block counts.
        before: pressed first, not measured.
        after: pressed afterwards, not measured.
    """

    what: str
    keys: Sequence[str]
    before: Sequence[str] = ()
    after: Sequence[str] = ()


def typed(text: str) -> list[str]:
    """The keys that type a text."""
    names = {
        ">": "greater_than_sign",
        ".": "full_stop",
        ":": "colon",
        "-": "minus",
        "/": "slash",
        " ": "space",
    }
    return [names.get(character, character) for character in text]


EMPTIED = ["slash", "ctrl+u", "enter"]
STEPS = (
    Step("row down (down)", ["down"]),
    Step("slider step (a, left)", ["left"], ["a"], ["home", "escape"]),
    Step("slider to the next flip (])", ["right_square_bracket"], ["a"], ["home", "escape"]),
    Step("slider to the next verdict (})", ["right_curly_bracket"], ["a"], ["home", "escape"]),
    Step("slider to a typed value (a 1000 enter)", ["enter"], ["a", *"1000"], ["home", "escape"]),
    Step("undo a threshold (u)", ["u"], ["a", *"1000", "enter"], ["escape"]),
    Step("redo a threshold (U)", ["U"], ["a", *"1000", "enter", "u"], ["home", "escape"]),
    Step("all thresholds at their defaults (R)", ["R"], ["a", *"1000", "enter"], ["escape"]),
    Step("open the filter line (/)", ["slash"], [], ["escape"]),
    Step("a filter's first letter (/ d)", ["d"], ["slash"], ["escape"]),
    Step("a filter's letter: word (/ dfa)", ["a"], ["slash", "d", "f"], ["escape"]),
    Step("a filter's letter: number (/ growth>100)", ["0"], ["slash", *typed("growth>10")], ["escape"]),
    Step("a filter's letter: verdict (/ is:walkback)", ["k"], ["slash", *typed("is:walkbac")], ["escape"]),
    Step("keep a filter (enter)", ["enter"], ["slash", *typed("dfa")], EMPTIED),
    Step("drop a filter (esc)", ["escape"], ["slash", *typed("dfa")]),
    Step("put the filter aside (f)", ["f"], ["slash", *typed("dfa"), "enter"], EMPTIED),
    Step("and apply it again (f)", ["f"], ["slash", *typed("dfa"), "enter", "f"], EMPTIED),
    Step("slider step under a filter (is:walkback)", ["left"], ["slash", *typed("is:walkback"), "enter", "a"],
         ["home", "escape", *EMPTIED]),
    Step("mark a run under a filter (is:marked)", ["space"], ["slash", *typed("-is:marked"), "enter"],
         [*EMPTIED, "asterisk"]),
    Step("mark a run (space)", ["space"], [], ["asterisk"]),
    Step("mark all in scope (+)", ["plus"], [], ["asterisk"]),
    Step("unmark all (*)", ["asterisk"], ["plus"]),
    Step("numbers instead of letters (v)", ["v"], [], ["v", "v"]),
    Step("bars instead of letters (v, v)", ["v"], ["v"], ["v"]),
    Step("the long view (t)", ["t"], [], ["t"]),
    Step("back to the matrix (t)", ["t"], ["t"]),
    Step("sort the long view (s)", ["s"], ["t"], ["s", "s", "t"]),
    Step("sort by: the list (S)", ["S"], ["t"], ["escape", "t"]),
    Step("a page of the long view (pagedown)", ["pagedown"], ["t"], ["t"]),
    Step("the last line of the long view (end)", ["end"], ["t"], ["home", "t"]),
    Step("columns: the list (x)", ["x"], [], ["escape"]),
    Step("the matrix along other columns (x, enter)", ["enter"], ["x", "down"], ["x", "enter"]),
    Step("compare (C)", ["C"], [], ["escape"]),
    Step("back from compare (esc)", ["escape"], ["C"]),
    Step("the next method there (n)", ["n"], ["C"], ["escape"]),
    Step("its scale (z)", ["z"], ["C"], ["escape"]),
    Step("compare all, marked (C)", ["C"], ["plus"], ["escape", "asterisk"]),
    Step("timeline (T)", ["T"], [], ["escape"]),
    Step("back from the timeline (esc)", ["escape"], ["T"]),
    Step("analysis: sweep (A)", ["A"], [], ["escape"]),
    Step("back from analysis (esc)", ["escape"], ["A"]),
    Step("analysis: utility (2)", ["2"], ["A"], ["escape"]),
    Step("analysis: seeds (3)", ["3"], ["A"], ["escape"]),
    Step("a slider step in the sweep (a, left)", ["left"], ["A", "a"], ["home", "escape", "escape"]),
    Step("a slider step in utility (2, a, left)", ["left"], ["A", "2", "a"], ["home", "escape", "escape"]),
    Step("a slider step in seeds (3, a, left)", ["left"], ["A", "3", "a"], ["home", "escape", "escape"]),
    Step("the list of groups (M)", ["M"], ["A"], ["escape", "escape"]),
    Step("ask for a baseline (w)", ["w"], [], ["escape"]),
    Step("assume a baseline (w 0.349 enter)", ["enter"], ["w", *typed("0.349")], ["u"]),
    Step("undo a baseline (u)", ["u"], ["w", *typed("0.349"), "enter"]),
    Step("redo a baseline (U)", ["U"], ["w", *typed("0.349"), "enter", "u"], ["u"]),
    Step("every run that flipped (F)", ["F"], ["a", *"1000", "enter"], ["escape", "home", "escape"]),
    Step("copy: the list (y)", ["y"], [], ["escape"]),
    Step("copy of all, marked: the list (y)", ["y"], ["plus"], ["escape", "asterisk"]),
    Step("export: the list (e)", ["e"], [], ["escape"]),
    Step("presets: the list (p)", ["p"], [], ["escape"]),
    Step("measure this run (m)", ["m"]),
    Step("measure all, marked (m)", ["m"], ["plus"], ["asterisk"]),
    Step("jobs (J)", ["J"], [], ["escape"]),
    Step("help (?)", ["question_mark"], [], ["escape"]),
    Step("palette (ctrl+p)", ["ctrl+p"], [], ["escape"]),
    Step("a letter in the palette", ["e"], ["ctrl+p", "r"], ["escape"]),
    Step("where to jump (ctrl+o)", ["ctrl+o"], [], ["escape"]),
)  # fmt: skip


@dataclass
class Blocks:
    """What kept the event loop while something was watched.

    Attributes:
        longest: the most processor time of the event loop's thread between two ticks, in seconds.
        gap: the longest time between two ticks by the clock: also what other threads and programs kept it.
        collection: the longest single garbage collection, in seconds.
    """

    longest: float = 0.0
    gap: float = 0.0
    collection: float = 0.0


class Watch:
    """Ticks on the event loop and remembers gaps and garbage collections."""

    def __init__(self) -> None:
        self._began = 0.0
        self.blocks = Blocks()
        self.last_long = time.perf_counter()

    def collected(self, phase: str, about: dict[str, int]) -> None:
        """A callback of `gc.callbacks`."""
        now = time.perf_counter()
        if phase == "start":
            self._began = now
        else:
            self.blocks.collection = max(self.blocks.collection, now - self._began)

    async def tick(self) -> None:
        """Run until cancelled."""
        last, used = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now, using = time.perf_counter(), time.thread_time()
            self.blocks.gap = max(self.blocks.gap, now - last - _TICK_SECONDS)
            self.blocks.longest = max(self.blocks.longest, using - used)
            if using - used > _SHORT_SECONDS:
                self.last_long = now
            last, used = now, using

    async def rest(self, pilot: Pilot[Any]) -> None:
        """Wait until nothing keeps the event loop any more."""
        self.last_long = began = time.perf_counter()
        while time.perf_counter() - began < _PATIENCE:
            await asyncio.sleep(_TICK_SECONDS)
            if time.perf_counter() - self.last_long > _REST_SECONDS and not at_work(pilot.app):
                return


def at_work(app: Any) -> bool:
    """Whether a thread of the explorer still computes something for its screen."""
    return any(worker.is_running and worker._thread_worker for worker in app.workers)


@contextmanager
def watching() -> Iterator[Watch]:
    """A watch on garbage collections; its ticks are started on the event loop."""
    watch = Watch()
    gc.callbacks.append(watch.collected)
    try:
        yield watch
    finally:
        gc.callbacks.remove(watch.collected)


async def measured(path: Path, steps: Sequence[Step], tries: int) -> dict[str, list[Blocks]]:
    """The blocks of every step, each tried so often."""
    gc.disable()  # as `open_explorer` does until the first paint
    app = ExplorerApp(
        Session(scan([path]).rows),
        title=path.name,
        terminal=Terminal("xterm-256color", True, 1 << 24),
    )
    found: dict[str, list[Blocks]] = {step.what: [] for step in steps}
    with watching() as watch:
        async with app.run_test(size=(120, 40)) as pilot:
            ticking = asyncio.create_task(watch.tick())
            while app.explorer.sliders is None or not app.explorer.sliders.is_mounted:
                await pilot.pause(0.01)
            await asyncio.sleep(2)  # memory is given back
            for _ in range(tries):
                for step in steps:
                    found[step.what].append(await tried(step, pilot, watch))
                    print(step.what, *shown(found[step.what]), file=sys.__stderr__, flush=True)
            ticking.cancel()
    return found


async def tried(step: Step, pilot: Pilot[Any], watch: Watch) -> Blocks:
    """The longest block of one step."""
    for key in step.before:
        await press(pilot, key)
        await watch.rest(pilot)
    worst = Blocks()
    for key in step.keys:
        watch.blocks = Blocks()
        await press(pilot, key)
        await watch.rest(pilot)
        if watch.blocks.longest >= worst.longest:
            worst = watch.blocks
    watch.blocks = Blocks()
    for key in step.after:
        await press(pilot, key)
        await watch.rest(pilot)
    at = type(pilot.app.screen).__name__
    if at != "ExplorerScreen":
        print(f"{step.what} left {at} open", file=sys.__stderr__)
    return worst


async def press(pilot: Pilot[Any], key: str) -> None:
    """Press a key; not `Pilot.press`, which waits for more than the key."""
    character = CHARACTERS.get(key, key if len(key) == 1 else None)
    pilot.app.post_message(Key(key, character))
    await asyncio.sleep(0)


CHARACTERS = {
    "space": " ", "slash": "/", "plus": "+", "asterisk": "*", "greater_than_sign": ">", "full_stop": ".",
    "colon": ":", "minus": "-", "question_mark": "?", "right_square_bracket": "]", "right_curly_bracket": "}",
    "enter": "\r", "escape": "\x1b",
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--shape", choices=SHAPES, default="methods")
    parser.add_argument("--only", default="", help="steps whose words hold this")
    parser.add_argument("--without", default="-", help="steps whose words do not hold this")
    options = parser.parse_args(argv)
    steps = [
        step for step in STEPS if options.only in step.what and options.without not in step.what
    ]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CONFIG_HOME"] = folder  # settings are not this user's
        path = SHAPES[options.shape](Path(folder) / "runs.json", options.runs)
        found = asyncio.run(measured(path, steps, options.tries))
    lines = [(what, *shown(blocks)) for what, blocks in found.items()]
    load = os.getloadavg()[0]
    title = (
        f"One key at {options.runs:,} runs ({options.shape}), the longest block, load {load:.1f}"
    )
    table(("key", "median", "longest", "gap", "collection"), lines, title)


def shown(blocks: Sequence[Blocks]) -> list[str]:
    """Milliseconds: the median block, the longest, the median gap, and the longest garbage collection."""
    longest = [each.longest for each in blocks]
    numbers = (
        statistics.median(longest),
        max(longest),
        statistics.median(each.gap for each in blocks),
        max(each.collection for each in blocks),
    )
    return [f"{1000 * number:.0f} ms" for number in numbers]


if __name__ == "__main__":
    main()
