"""Which of this project's files one action passes, in the order in which they are entered.

    python -m tests.bench.trace_walk [diagnose] [slider] [audit]

Only functions that are called count, not what runs while a module is imported. ``diagnose`` measures a small network;
``slider`` presses an arrow on a threshold of the explorer; ``audit`` is `fa-tui audit` of one sample run, its worker
process listed apart.
"""

import os
import subprocess
import sys
import tempfile
import threading
from inspect import CO_OPTIMIZED
from pathlib import Path

ROOT = Path(__file__).parents[2]
OWN = tuple(f"{ROOT / package}{os.sep}" for package in ("fa_core", "fa_tui"))
LOG = "FA_WALK_LOG"
"""Names the file to which a followed process appends what it enters."""

DIAGNOSE = """
import torch
from torch import nn
from fa_core import diagnose
from tests.bench.trace_walk import follow
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
batches = [(torch.randn(16, 4), torch.arange(16) % 3) for _ in range(8)]
follow()
diagnose(net, batches, taps=["0", "1"], frozen_baseline_acc=0.3)
"""

SLIDER = """
import asyncio, sys
from fa_core.formats import scan
from fa_tui.app import ExplorerApp
from fa_tui.session import Session
from tests.bench.trace_walk import follow
async def press():
    app = ExplorerApp(Session(scan([sys.argv[1]]).rows), title="audit_table.json")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("a", "right", "right")
        await pilot.pause(0.5)
        follow()
        await pilot.press("right")
        await pilot.pause()
        sys.setprofile(None)
asyncio.run(press())
"""

SAMPLES = ROOT / "sample_runs"
AUDIT = ("-m", "fa_tui", "audit", str(SAMPLES / "main" / "dfa_s42"), "--device", "cpu", "--out")
WALKS = {
    "diagnose": ("-c", DIAGNOSE),
    "slider": ("-c", SLIDER, str(SAMPLES / "audit_table_s42_s123_s456.json")),
    "audit": (*AUDIT, os.devnull),
}


def follow():
    """Log every own file that this process enters from now on, with the first function called in it."""
    log = Path(os.environ[LOG]).open("a", buffering=1, encoding="utf-8")  # noqa: SIM115
    seen, importing = set(), threading.local()

    def entered(frame, event, _):
        code, depth = frame.f_code, getattr(importing, "depth", 0)
        if event not in ("call", "return"):
            return
        if code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            importing.depth = max(0, depth + (1 if event == "call" else -1))
        # the bodies of modules and classes are not optimized
        elif event == "call" and not depth and code.co_flags & CO_OPTIMIZED:
            file = code.co_filename
            if file.startswith(OWN) and file not in seen:
                seen.add(file)
                log.write(f"{os.getpid()} {os.path.relpath(file, ROOT)} {code.co_name}\n")

    threading.setprofile(entered)
    sys.setprofile(entered)


def walked(name):
    """Process → lines of the files that it entered."""
    with tempfile.TemporaryDirectory() as folder:
        log, start = Path(folder, "walk.log"), Path(folder, "sitecustomize.py")
        if name == "audit":
            start.write_text("from tests.bench.trace_walk import follow\nfollow()\n")
        path = os.pathsep.join([folder, str(ROOT)])
        environment = os.environ | {"PYTHONPATH": path, LOG: str(log), "FA_TUI_INDEX": folder}
        command = [sys.executable, *WALKS[name]]
        command = [
            str(Path(folder, "audit.json")) if word == os.devnull else word for word in command
        ]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        found = {}
        for line in log.read_text(encoding="utf-8").splitlines():
            pid, _, entry = line.partition(" ")
            found.setdefault(pid, []).append(entry)
    return found


def main(names):
    """Print the walks that are named, all for none."""
    for name in names or WALKS:
        found = walked(name)
        files = {entry.split()[0] for entries in found.values() for entry in entries}
        print(f"{name}: {len(files)} own files")
        for number, entries in enumerate(found.values(), start=1):
            print(f"process {number}: {len(entries)}", *entries, sep="\n    ")


if __name__ == "__main__":
    main(sys.argv[1:])
