"""Opening many run folders among unrelated files: scans with and without the index, and the explorer's first paint.

Synthesises them from the sample runs: a manifest and an audit each, weights and trace as links.

    python -m tests.bench.bench_folders [--folders 10000 --strangers 5000 --pairs 5]

off          scan without an index
first time   scan that reads everything and writes the index
again        scan that takes what did not change from the index
paint        the explorer's first paint on the folder over a bare Textual app's, without and with the index
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.bench.bench_explorer import BARE, EXPLORER, REPOSITORY, first_paint
from tests.bench.bench_read import SETTLED_SECONDS
from tests.bench.figures import amount, ratio_within, report, within

_SCAN = """
import json, sys, time, resource
from fa_core.formats import scan
wall, cpu = time.perf_counter(), time.process_time()
found = scan([sys.argv[1]], run_traces=False)
times = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "rows": len(found.rows)}
times["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(times))
"""
_GROUP = 100


def run_folders(folder: Path, runs: int, strangers: int) -> None:
    """Write run folders in groups, each run with a seed of its own, and files beside them that are none of ours."""
    samples = sorted(path.parent for path in (REPOSITORY / "sample_runs").rglob("audit.json"))
    names = ("manifest.json", "audit.json")
    texts = [[json.loads((sample / name).read_text()) for name in names] for sample in samples]
    for number in range(runs):
        sample = samples[number % len(samples)]
        run = folder / f"group_{number // _GROUP}" / f"{sample.name.rpartition('_s')[0]}_s{number}"
        run.mkdir(parents=True)
        for name, text in zip(names, texts[number % len(samples)], strict=True):
            (run / name).write_text(json.dumps({**text, "seed": number}, indent=2))
        for name in ("model.safetensors", "trace.jsonl"):
            if (sample / name).exists():
                (run / name).symlink_to(sample / name)
    contents = {"yaml": "lr: 0.1\n", "txt": "words\n", "json": '{"config": {"lr": 0.1}}'}
    for number in range(strangers):
        suffix = list(contents)[number % len(contents)]
        beside = folder / f"group_{number % max(1, runs // _GROUP)}" / f"other_{number}.{suffix}"
        beside.write_text(contents[suffix])


def scanned(folder: Path, index: str) -> Mapping[str, float]:
    """One scan in a process of its own."""
    environment = {**os.environ, "FA_TUI_INDEX": index}
    command = [sys.executable, "-c", _SCAN, str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    times: Mapping[str, float] = json.loads(ran.stdout)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", type=int, default=10_000)
    parser.add_argument("--strangers", type=int, default=5_000)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "runs"
        run_folders(folder, options.folders, options.strangers)
        time.sleep(SETTLED_SECONDS)
        scans, paints = [], []
        for number in range(options.pairs):
            index = str(Path(place) / f"index {number}")
            scans.append([scanned(folder, where) for where in ("off", index, index)])
            bare = first_paint(BARE)
            painted = []
            for where in ("off", index):
                os.environ["FA_TUI_INDEX"] = where
                painted.append(first_paint([*EXPLORER, str(folder)]))
            paints.append([bare, *painted])
        size = sum(path.stat().st_size for path in Path(index).iterdir()) / 1e6
    figures = []
    plain = statistics.median(run[0]["cpu"] for run in scans)
    for position, name in ((1, "scan, the first time"), (2, "scan, again")):
        cpu = amount(statistics.median(run[position]["cpu"] for run in scans), "s")
        over = statistics.median(run[position]["cpu"] / run[0]["cpu"] for run in scans)
        figures.append(ratio_within(f"{name}, processor", over, None, cpu, f"without an index {amount(plain, 's')}"))
    bare = statistics.median(run[0][0] for run in paints)
    for position, name in ((1, "first paint without an index"), (2, "first paint with it")):
        wall = amount(statistics.median(run[position][0] for run in paints), "s")
        over = statistics.median(run[position][0] / run[0][0] for run in paints)
        figures.append(ratio_within(name, over, None, wall, f"bare Textual app {amount(bare, 's')}"))
    figures.append(within("index", size, "MB", None))
    report(f"{options.folders:,} run folders among {options.strangers:,} other files", figures)


if __name__ == "__main__":
    main()
