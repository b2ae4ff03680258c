"""Reading many reports into an `AuditTable` over `json.load` alone, and what verdicts and the explorer then cost.

Writes an audit table of N reports as the project writes it, reads it with each reader in a process of its own
(they take turns, so that a busy machine hits all), and prints medians, median ratios, and the peak of memory.

    python -m tests.bench.bench_read [--reports 100000 --pairs 5]

memory       of the whole program over the file's size: `load_audits`, and the explorer after its first paint, in
             the long view, and at its peak; on the table as it is written, and without a space and a summary
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
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

from fa_core.formats.audit_table_writer import write_audit_table
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from tests.bench.bench_explorer import EXPLORER
from tests.bench.figures import Figure, amount, ratio_within, report, within
from tests.e2e.terminal import PseudoTerminal

READ_BUDGET = 1.2
FLAGS_BUDGET_MS = 1.0
SHOW_BUDGET = 4.0
"""Seconds of processor time."""
MEMORY_BUDGET = 5.0
"""Over the file's size, at the peak too."""
METHODS = ("bp", "dfa", "state_bridge", "credit_bridge", "ep")

_MEASURE = """
import json, sys, time, resource
path = sys.argv[1]
{setup}
wall, cpu = time.perf_counter(), time.process_time()
read = {read}
times = {{"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}}
{after}
times["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1.024e-3
print(json.dumps(times))
"""
FLOOR = _MEASURE.format(setup="", read="json.load(open(path))", after="")
TABLE = _MEASURE.format(
    setup="import fa_core.table; from fa_core import load_audits",
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
SCAN = _MEASURE.format(
    setup="from fa_core.formats import scan; import numpy", read="scan([path])", after=""
)


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


def measured(code: str, path: Path) -> dict[str, float]:
    """One reading in a process of its own."""
    command = [sys.executable, "-c", code, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    times: dict[str, float] = json.loads(ran.stdout)
    return times


def compacted(path: Path, to: Path) -> None:
    """Write a table's reports alone, without a space between them: the least text for as many reports."""
    to.write_text(
        json.dumps({"reports": json.loads(path.read_text())["reports"]}, separators=(",", ":"))
    )


def explorer_megabytes(path: Path) -> dict[str, float]:
    """What the explorer takes after its first paint, in the long view, and at most."""
    with PseudoTerminal([*EXPLORER, str(path)]) as terminal:
        terminal.wait_for("walk-back", limit=120)
        terminal.read(quiet=2.5)  # what opening left is collected after a pause
        resident = _megabytes(terminal, "VmRSS")
        terminal.press("t", quiet=1.0)
        return {
            "explorer, resident": resident,
            "explorer, in the long view": _megabytes(terminal, "VmRSS"),
            "explorer, at its peak": _megabytes(terminal, "VmHWM"),
        }


def _megabytes(terminal: PseudoTerminal, name: str) -> float:
    status = Path(f"/proc/{terminal.process.pid}/status").read_text()
    return (
        next(int(line.split()[1]) for line in status.splitlines() if line.startswith(name))
        * 1.024e-3
    )


def shown(path: Path) -> float:
    """Processor seconds of `fa-tui show`."""
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "fa_tui", "show", str(path)], stdout=subprocess.DEVNULL, check=True
    )
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def memory(path: Path) -> Iterator[Figure]:
    """Memory over the file's size."""
    size = path.stat().st_size / 1e6
    taken = {"load_audits, at its peak": measured(TABLE, path)["megabytes"]}
    for name, megabytes in {**taken, **explorer_megabytes(path)}.items():
        yield ratio_within(
            name, megabytes / size, MEMORY_BUDGET, amount(megabytes, "MB"), f"file {size:.0f} MB"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--reports", type=int, default=100_000)
    arguments.add_argument("--pairs", type=int, default=5)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.json"
        compact = Path(folder) / "compact.json"
        # in processes of their own: peak memory is inherited
        for work, what in ((table_of, (options.reports, path)), (compacted, (path, compact))):
            writing = get_context("spawn").Process(target=work, args=what)
            writing.start()
            writing.join()
        size = path.stat().st_size / 1e6
        runs = [
            [measured(code, path) for code in (FLOOR, TABLE, SCAN)] for _ in range(options.pairs)
        ]
        show = statistics.median(shown(path) for _ in range(3))
        as_written, without_spaces = list(memory(path)), list(memory(compact))
    figures = []
    floor = statistics.median(run[0]["wall"] for run in runs)
    for position, name in enumerate(("load_audits", "scan"), 1):
        wall = amount(statistics.median(run[position]["wall"] for run in runs), "s")
        over = statistics.median(run[position]["wall"] / run[0]["wall"] for run in runs)
        budget = READ_BUDGET if name == "load_audits" else None
        figures.append(ratio_within(name, over, budget, wall, f"json.load {amount(floor, 's')}"))
    flags = statistics.median(run[1]["flags_ms"] for run in runs)
    figures.append(within("flags of all rows", flags, "ms", FLAGS_BUDGET_MS))
    figures.append(within("fa-tui show, processor time", show, "s", SHOW_BUDGET))
    report(f"{options.reports:,} reports, {size:.0f} MB", figures)
    report(f"Memory of {options.reports:,} reports", as_written)
    report(f"Memory of {options.reports:,} reports without spaces", without_spaces)


if __name__ == "__main__":
    main()
