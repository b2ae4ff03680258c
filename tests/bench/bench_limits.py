"""How far it goes: files and folders beyond all use, and a terminal that does not stop.

    python -m tests.bench.bench_limits [--runs 1400000 --layers 1000000 --files 50000 --keys 20000]

Each input is shown by `fa-tui show --format json` in a process of its own: its time, and what it had in memory at
its peak. Then the explorer is opened, and its terminal misused. Needs 3 GB of temporary space.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.bench.bench_explorer import opened, pressed, resident
from tests.bench.figures import Figure, amount, report, within
from tests.e2e.synthetic import PUBLISHED, audit_table, unmeasured_runs

LIMIT = 600
"""Seconds after which an input counts as one that hangs."""
SECONDS = 10


def huge_file(folder: Path, options: argparse.Namespace) -> Path:
    """One audit table of about 1 GB."""
    return audit_table(folder / "huge.json", options.runs)


def many_layers(folder: Path, options: argparse.Namespace) -> Path:
    """One report of a network with as many layers as are read."""
    norms = [1.0 + number / options.layers for number in range(options.layers)]
    whole = {
        "method_name": "DFA",
        "seed": 42,
        "residual_norms": norms,
        "bp_grad_norms": norms,
        "headline_acc": 0.5,
    }
    path = folder / "deep.json"
    path.write_text(json.dumps({"reports": {"dfa_s42": whole}}))
    return path


def many_seeds(folder: Path, options: argparse.Namespace) -> Path:
    """Ten thousand seeds of one method."""
    _, one = next(iter(json.loads(PUBLISHED.read_bytes())["reports"].items()))
    path = folder / "seeds.json"
    path.write_text(
        json.dumps(
            {"reports": {f"dfa_s{seed}": one | {"method_name": "DFA"} for seed in range(10_000)}}
        )
    )
    return path


def many_files(folder: Path, options: argparse.Namespace) -> Path:
    """Files of other programs, and one audit among them."""
    (folder / "audit.json").write_bytes(PUBLISHED.read_bytes())
    for number in range(options.files):
        (folder / f"note_{number}.{('txt', 'yaml', 'json')[number % 3]}").write_text('{"lr": 0.1}')
    return folder


def long_names(folder: Path, options: argparse.Namespace) -> Path:
    """Methods, notes and layers whose names have 10,000 characters."""
    _, one = next(iter(json.loads(PUBLISHED.read_bytes())["reports"].items()))
    long = {
        f"{'x' * 10_000}{number}_s{number}": one | {"notes": "y" * 10_000} for number in range(15)
    }
    (folder / "long.json").write_text(json.dumps({"reports": long}))
    return folder / "long.json"


def odd_files(folder: Path, options: argparse.Namespace) -> Path:
    """Loops of links, a FIFO, a socket and links to devices next to an audit, all under names that are read."""
    (folder / "audit.json").write_bytes(PUBLISHED.read_bytes())
    (folder / "inner").mkdir()
    (folder / "inner" / "loop").symlink_to(folder)
    (folder / "self.json").symlink_to(folder / "self.json")
    os.mkfifo(folder / "pipe.json")
    (folder / "zero.json").symlink_to("/dev/zero")
    (folder / "random.pt").symlink_to("/dev/urandom")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / "socket.json"))
    listening.close()
    return folder


INPUTS: Mapping[str, Callable[[Path, argparse.Namespace], Path]] = {
    "1 GB of reports": huge_file,
    "10,000 layers": many_layers,
    "10,000 seeds": many_seeds,
    "50,000 other files": many_files,
    "names of 10,000 characters": long_names,
    "loops, FIFO, devices": odd_files,
}


def inputs(options: argparse.Namespace) -> Iterator[Figure]:
    """Each input, shown and opened."""
    for name, make in INPUTS.items():
        with tempfile.TemporaryDirectory() as place:
            path = make(Path(place), options)
            size = f"file {path.stat().st_size / 1e6:,.0f} MB" if path.is_file() else "folder"
            wall, megabytes = shown(path)
            yield Figure(f"show, {name}", amount(wall, "s"), size)
            yield Figure(f"show, {name}, at its peak", amount(megabytes, "MB"), size)
            begun = time.perf_counter()
            with opened(path) as terminal:
                # its second of silence is part of `opened`
                yield Figure(
                    f"explorer, {name}, opened", amount(time.perf_counter() - begun - 1, "s"), size
                )
                terminal.press("a", quiet=0.5)
                step = pressed(terminal, ["left", "right"] * 5)
                yield Figure(
                    f"explorer, {name}, a slider step", amount(step.milliseconds, "ms"), size
                )
                yield Figure(f"explorer, {name}, resident", amount(resident(terminal), "MB"), size)


def shown(path: Path) -> tuple[float, float]:
    """Seconds of `fa-tui show`, and megabytes at its peak."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL,"
        " stderr=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [
        sys.executable,
        "-c",
        code,
        sys.executable,
        "-m",
        "fa_tui",
        "show",
        str(path),
        "--format",
        "json",
    ]
    begun = time.perf_counter()
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT)
    return time.perf_counter() - begun, int(ran.stdout) / 1024


def misuse(options: argparse.Namespace) -> Iterator[Figure]:
    """Keys, sizes and changes faster than anyone makes them; and nothing at all."""
    with opened(PUBLISHED) as terminal:
        used = terminal.cpu_seconds()
        terminal.read(quiet=2 * SECONDS, limit=2 * SECONDS)
        share = 100 * (terminal.cpu_seconds() - used) / (2 * SECONDS)
        yield within("idle, share of a core", share, "%", 0.5)
        # every kind of key once, so that what is loaded when it is first needed is loaded
        kinds = ["a", *["left", "right"] * 20, "escape", *["down", "up", "v", "v"] * 5]
        terminal.press(*kinds, quiet=1.0)
        before = resident(terminal)
        terminal.hold(
            (kinds * (options.keys // len(kinds)))[: options.keys], per_second=250, limit=120
        )
        yield within(
            f"resident after {options.keys:,} keys over before",
            resident(terminal) / before,
            "×",
            1.1,
        )
        for name, keys in {"down": ["down"] * 5000, "down and up": ["down", "up"] * 2500}.items():
            held = terminal.hold(keys, per_second=1000)
            yield within(
                f"{name} 1,000 times a second for 5 s, after the last", held.after.last, "s", None
            )
        begun = time.perf_counter()
        for step in range(500):
            terminal.resize(100 + step % 40, 30 + step % 20)
            terminal.read(quiet=0.01, limit=0.01)
        let_go = time.perf_counter()
        terminal.resize(120, 40)
        settled = terminal.read(quiet=0.7, since=let_go)
        yield within(
            f"500 resizes in {let_go - begun:.0f} s, after the last",
            1000 * settled.last,
            "ms",
            None,
        )
        terminal.wait_for("walk-back")
    with tempfile.TemporaryDirectory() as place:
        folder = unmeasured_runs(Path(place), 20)
        (folder / "audit.json").write_bytes(PUBLISHED.read_bytes())
        with opened(folder) as terminal:
            used, end, changes = terminal.cpu_seconds(), time.perf_counter() + SECONDS, 0
            while time.perf_counter() < end:
                changed = folder / f"dfa_s{changes % 20}" / "manifest.json"
                changed.write_text(changed.read_text() + " ")
                changes += 1
                terminal.read(quiet=0.01, limit=0.01)
            share = 100 * (terminal.cpu_seconds() - used) / SECONDS
            step = pressed(terminal, ["down", "up"] * 5)
            yield within(
                f"{changes / SECONDS:.0f} changed files a second, share of a core", share, "%", None
            )
            yield within("a row down right after", step.milliseconds, "ms", None)


def main(argv: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=1_400_000)
    parser.add_argument("--layers", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--keys", type=int, default=20_000)
    options = parser.parse_args(argv)
    report("Limits: inputs", inputs(options))
    report("Limits: the terminal and the folder", misuse(options))


if __name__ == "__main__":
    main()
