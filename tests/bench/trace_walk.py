"""Which of this project's files one action passes, in the order in which they are entered.

    python -m tests.bench.trace_walk [diagnose] [slider] [audit]

Only functions that are called count, not what runs while a module is imported. ``diagnose`` measures a small network;
``slider`` presses an arrow on a threshold of the explorer; ``audit`` is `fa-tui audit` of one sample run, its worker
process listed apart.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
OWN = tuple(f"{ROOT / package}{os.sep}" for package in ("fa_core", "fa_tui"))
LOG = "FA_WALK_LOG"
"""Names the file to which a traced child process appends what it enters."""

Entered = Callable[[str, str], None]


class Walk:
    """The own files that were entered since the start, each with the first function called in it.

    Attributes:
        files: path below the project's root → function, in order.
        calls: how many own functions were called.
    """

    def __init__(self, entered: Entered | None = None) -> None:
        self.files: dict[str, str] = {}
        self.calls = 0
        self._entered = entered
        self._importing = threading.local()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """The profile function; the depth of nested imports is counted per thread."""
        if event not in ("call", "return"):
            return
        code = frame.f_code
        depth: int = getattr(self._importing, "depth", 0)
        if code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            self._importing.depth = max(0, depth + (1 if event == "call" else -1))
        # the bodies of modules and classes are not optimized
        elif (
            event == "call"
            and not depth
            and code.co_flags & CO_OPTIMIZED
            and code.co_filename.startswith(OWN)
        ):
            self.calls += 1
            file = os.path.relpath(code.co_filename, ROOT)
            if file not in self.files:
                self.files[file] = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
                if self._entered is not None:
                    self._entered(file, self.files[file])

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """Follow this thread, and those that are started meanwhile."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]


def follow_child() -> None:
    """Trace this whole process into the file that LOG names, line by line: it may be ended at any moment."""
    log = Path(os.environ[LOG])

    def entered(file: str, function: str) -> None:
        with log.open("a", encoding="utf-8") as lines:
            lines.write(f"{os.getpid()} {file} {function}\n")

    walk = Walk(entered)
    threading.setprofile(walk)
    sys.setprofile(walk)


def walk_diagnose() -> Mapping[str, Walk]:
    """`diagnose` of two tapped layers on eight batches."""
    import torch
    from torch import nn

    from fa_core import diagnose

    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
    batches = [(torch.randn(16, 4), torch.arange(16) % 3) for _ in range(8)]
    walk = Walk()
    with walk.traced():
        diagnose(net, batches, taps=["0", "1"], frozen_baseline_acc=0.3)
    return {"diagnose": walk}


def walk_slider() -> Mapping[str, Walk]:
    """One arrow key on the slider of (a), the published table open; the same key was pressed before."""
    from fa_core.formats import scan
    from fa_tui.app import ExplorerApp
    from fa_tui.session import Session

    walk = Walk()

    async def press() -> None:
        rows = scan([ROOT / "sample_runs" / "audit_table_s42_s123_s456.json"]).rows
        app = ExplorerApp(Session(rows), title="audit_table.json")
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.press("a", "right", "right")
            await pilot.pause(0.5)
            with walk.traced():
                await pilot.press("right")
                await pilot.pause()

    asyncio.run(press())
    return {"slider key": walk}


def walk_audit() -> Mapping[str, Walk]:
    """`fa-tui audit` of one sample run: the parent process, and its worker."""
    from fa_tui.cli import main as fa_tui

    walk = Walk()
    run = ROOT / "sample_runs" / "main" / "dfa_s42"
    with tempfile.TemporaryDirectory() as folder:
        log, start = Path(folder, "walk.log"), Path(folder, "sitecustomize.py")
        start.write_text(
            "from tests.bench.trace_walk import follow_child\nfollow_child()\n", encoding="utf-8"
        )
        log.touch()
        path = os.pathsep.join(filter(None, [folder, str(ROOT), os.environ.get("PYTHONPATH")]))
        os.environ.update(
            {"PYTHONPATH": path, LOG: str(log), "FA_TUI_INDEX": str(Path(folder, "index"))}
        )
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), walk.traced():
            code = fa_tui(
                ["audit", str(run), "--device", "cpu", "--out", str(Path(folder, "audit.json"))]
            )
        if code:
            raise SystemExit(f"fa-tui audit ended with {code}: {quiet.getvalue()}")
        worker = Walk()
        for line in log.read_text(encoding="utf-8").splitlines():
            _, file, function = line.split(" ", 2)
            worker.files.setdefault(file, function)
    both = Walk()
    both.files = {**walk.files, **worker.files}
    return {"audit, parent process": walk, "audit, worker process": worker, "audit, both": both}


WALKS: Mapping[str, Callable[[], Mapping[str, Walk]]] = {
    "diagnose": walk_diagnose,
    "slider": walk_slider,
    "audit": walk_audit,
}


def main(argv: Sequence[str]) -> None:
    """Print the walks that are named, all for none."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(WALKS))
    names = parser.parse_args(argv).names
    if unknown := [name for name in names if name not in WALKS]:
        parser.error(f"no walk {', '.join(unknown)}; there are: {', '.join(WALKS)}")
    for name in names or WALKS:
        for title, walk in WALKS[name]().items():
            calls = f", {walk.calls:,} own calls" if walk.calls else ""
            print(f"{title}: {len(walk.files)} own files{calls}")
            if title != "audit, both":
                for place, (file, function) in enumerate(walk.files.items(), start=1):
                    print(f"  {place:3} {file:<48} {function}")


if __name__ == "__main__":
    main(sys.argv[1:])
