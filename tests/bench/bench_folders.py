"""Opening many run folders among unrelated files: a scan, and the explorer's first paint.

Synthesises them from the sample runs: a manifest and an audit each, weights and trace as links.

    python -m tests.bench.bench_folders [--folders 10000 --strangers 5000 --pairs 5]

scan         all of them, without traces
paint        the explorer's first paint on the folder over a bare Textual app's
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.bench.bench_explorer import BARE, EXPLORER, REPOSITORY, first_paint
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


def scanned(folder: Path) -> Mapping[str, float]:
    """One scan in a process of its own."""
    command = [sys.executable, "-c", _SCAN, str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    times: Mapping[str, float] = json.loads(ran.stdout)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folders", type=int, default=10_000)
    parser.add_argument("--strangers", type=int, default=5_000)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "runs"
        run_folders(folder, options.folders, options.strangers)
        scans, paints = [], []
        for _ in range(options.pairs):
            scans.append(scanned(folder))
            paints.append((first_paint(BARE), first_paint([*EXPLORER, str(folder)])))
    bare = amount(statistics.median(floor[0] for floor, _ in paints), "s")
    wall = amount(statistics.median(painted[0] for _, painted in paints), "s")
    over = statistics.median(painted[0] / floor[0] for floor, painted in paints)
    figures = [
        within("scan, processor", statistics.median(run["cpu"] for run in scans), "s", None),
        ratio_within("first paint", over, None, wall, f"bare Textual app {bare}"),
    ]
    report(f"{options.folders:,} run folders among {options.strangers:,} other files", figures)


if __name__ == "__main__":
    main()
