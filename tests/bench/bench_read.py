"""Reading many reports into an `AuditTable` over `json.load` alone, and what verdicts and the explorer then cost.

Writes an audit table of N reports as the project writes it, reads it with each reader in a process of its own
(they take turns, so that a busy machine hits all), and prints medians, median ratios, and the peak of memory.

    python -m tests.bench.bench_read [--reports 100000 --pairs 5]

first time   reads the table and remembers it in the index
again        takes it from the index
explorer     memory of the whole program over the file's size, after the first paint and at its peak
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

from fa_core.formats import write_audit_table
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from tests.bench.bench_explorer import EXPLORER
from tests.bench.figures import amount, ratio_within, report, within
from tests.e2e.terminal import PseudoTerminal

READ_BUDGET = 0.4
FLAGS_BUDGET_MS = 1.0
EXPLORER_BUDGET_MB = 600
SETTLED_SECONDS = 2.5
"""A table that was just written is not remembered yet."""
METHODS = ("bp", "dfa", "state_bridge", "credit_bridge", "ep")

_MEASURE = """
import json, sys, time, resource
path = sys.argv[1]
{setup}
wall, cpu = time.perf_counter(), time.process_time()
read = {read}
times = {{"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}}
{after}
times["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(times))
"""
FLOOR = _MEASURE.format(setup="", read="json.load(open(path))", after="")
TABLE = _MEASURE.format(
    setup="import fa_core.table_builder; from fa_core import load_audits",
    read="load_audits([path])",
    after="""
took = []
for _ in range(50):
    start = time.perf_counter()
    read.flags()
    took.append(time.perf_counter() - start)
times["flags_ms"] = 1000 * sorted(took)[len(took) // 2]
""",
)
SCAN = _MEASURE.format(setup="from fa_core.formats import scan; import numpy", read="scan([path])", after="")


def table_of(count: int, path: Path) -> None:
    """Write `count` reports of five layers with numbers of full precision."""
    chance = random.Random(0)
    write_audit_table(
        path,
        (
            AuditRow(
                source="",
                key="",
                method=METHODS[index % len(METHODS)],
                seed=index,
                report=DiagnosticReport(
                    method_name=METHODS[index % len(METHODS)].upper(),
                    notes="4-block d=256 ResMLP",
                    residual_norms=[chance.lognormvariate(5, 5) for _ in range(5)],
                    bp_grad_norms=[chance.lognormvariate(-12, 5) for _ in range(5)],
                    stability_layer=2,
                    cross_batch_stability=chance.uniform(-0.1, 1.0),
                    headline_acc=chance.random(),
                    frozen_baseline_acc=0.349,
                ),
            )
            for index in range(count)
        ),
    )


def measured(code: str, path: Path, index: str) -> dict[str, float]:
    """One reading in a process of its own, with an index in a folder (or ``off``)."""
    environment = {**os.environ, "FA_TUI_INDEX": index}
    command = [sys.executable, "-c", code, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    times: dict[str, float] = json.loads(ran.stdout)
    return times


def explorer_megabytes(path: Path) -> tuple[float, float]:
    """What the explorer takes a moment after its first paint, and what it took at most."""
    with PseudoTerminal([*EXPLORER, str(path)]) as terminal:
        terminal.wait_for("walk back", limit=120)
        terminal.read(quiet=1.0)
        status = Path(f"/proc/{terminal.process.pid}/status").read_text()
    lines = dict(line.split(":", 1) for line in status.splitlines() if line.startswith("Vm"))
    return int(lines["VmRSS"].split()[0]) * 1.024e-3, int(lines["VmHWM"].split()[0]) * 1.024e-3


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--reports", type=int, default=100_000)
    arguments.add_argument("--pairs", type=int, default=5)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.json"
        # in a process of its own: peak memory is inherited
        writing = get_context("spawn").Process(target=table_of, args=(options.reports, path))
        writing.start()
        writing.join()
        size = path.stat().st_size / 1e6
        time.sleep(SETTLED_SECONDS)
        runs = []
        for number in range(options.pairs):
            index = str(Path(folder) / f"index {number}")
            readers = [(FLOOR, "off"), (TABLE, "off"), (TABLE, index), (TABLE, index), (SCAN, "off")]
            runs.append([measured(code, path, where) for code, where in readers])
        os.environ["FA_TUI_INDEX"] = "off"
        resident, peak = explorer_megabytes(path)
    figures = []
    floor = statistics.median(run[0]["wall"] for run in runs)
    for position, name in enumerate(("load_audits", "first time", "again", "scan"), 1):
        wall = amount(statistics.median(run[position]["wall"] for run in runs), "s")
        over = statistics.median(run[position]["wall"] / run[0]["wall"] for run in runs)
        budget = READ_BUDGET if name == "load_audits" else None
        figures.append(ratio_within(name, over, budget, wall, f"json.load {amount(floor, 's')}"))
    flags = statistics.median(run[1]["flags_ms"] for run in runs)
    figures.append(within("flags of all rows", flags, "ms", FLAGS_BUDGET_MS))
    for name, megabytes in (("resident", resident), ("at its peak", peak)):
        against = f"file {size:.0f} MB"
        figures.append(within(f"explorer, {name}", megabytes, "MB", EXPLORER_BUDGET_MB, against, size))
    report(f"{options.reports:,} reports, {size:.0f} MB", figures)


if __name__ == "__main__":
    main()
