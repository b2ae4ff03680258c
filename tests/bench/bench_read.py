"""Reading many reports into an `AuditTable` over `json.load` alone, and what verdicts then cost.

Writes an audit table of N reports as the project writes it, reads it with each reader in a process of its own
(the two alternate, so that a busy machine hits both), and prints medians and the median ratio.

    python tests/bench/bench_read.py [--reports 100000 --pairs 5]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

from fa_core.formats import write_audit_table
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow

READ_BUDGET = 0.4
FLAGS_BUDGET_MS = 1.0
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
SCAN = _MEASURE.format(setup="from fa_core.formats import scan", read="scan([path])", after="")


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
    ran = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    times: dict[str, float] = json.loads(ran.stdout)
    return times


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--reports", type=int, default=100_000)
    arguments.add_argument("--pairs", type=int, default=5)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.json"
        # in a process of its own: peak memory is inherited
        writing = get_context("spawn").Process(target=table_of, args=(options.reports, path))
        writing.start()
        writing.join()
        print(f"{options.reports:,} reports, {path.stat().st_size / 1e6:.0f} MB")
        runs = [[measured(code, path) for code in (FLOOR, TABLE, SCAN)] for _ in range(options.pairs)]
    for position, name in enumerate(("json.load", "load_audits", "scan")):
        mine = [run[position] for run in runs]
        wall, cpu, size = (statistics.median(one[key] for one in mine) for key in ("wall", "cpu", "megabytes"))
        over = [statistics.median(run[position][key] / run[0][key] for run in runs) for key in ("wall", "cpu")]
        budget = f"  (budget {READ_BUDGET})" if name == "load_audits" else ""
        took = f"{wall:6.2f} s wall {cpu:6.2f} s cpu {size:5.0f} MB"
        print(f"{name:12} {took}  x{over[0]:.2f} wall x{over[1]:.2f} cpu{budget}")
    flags = statistics.median(run[1]["flags_ms"] for run in runs)
    print(f"flags of all rows: {flags:.2f} ms (budget {FLAGS_BUDGET_MS} ms)")


if __name__ == "__main__":
    main()
