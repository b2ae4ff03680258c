"""Reading many reports into an `AuditTable` over `json.load` alone, and judging them.

Writes an audit table of N reports as the project writes it, reads it with each reader in a process of its own
(they take turns, so that a busy machine hits both), and prints medians and the median ratio.

    python -m tests.bench.bench_read [--reports 10000 --pairs 5]
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from fa_core.formats.audit_table import write_audit_table
from fa_core.formats.rows import AuditRow
from fa_core.report.diagnostic_report import DiagnosticReport
from tests.bench.figures import amount, ratio_within, report, within

READ_BUDGET = 2.0
JUDGE_BUDGET_MS = 15.0
"""A judgement of all runs by other thresholds."""
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
    setup="import fa_core.formats.table; from fa_core import load_audits",
    read="load_audits([path])",
    after="""
read.flags()
took = []
for _ in range(50):
    start = time.perf_counter()
    read.flags()
    read.undecided()
    took.append(time.perf_counter() - start)
times["judge_ms"] = 1000 * sorted(took)[len(took) // 2]
""",
)


def table_of(count, path):
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


def measured(code, path):
    """One reading in a process of its own."""
    command = [sys.executable, "-c", code, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--reports", type=int, default=10_000)
    arguments.add_argument("--pairs", type=int, default=5)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.json"
        table_of(options.reports, path)
        size = path.stat().st_size / 1e6
        runs = [[measured(code, path) for code in (FLOOR, TABLE)] for _ in range(options.pairs)]
    floor, wall = (statistics.median(run[place]["wall"] for run in runs) for place in (0, 1))
    over = statistics.median(ours["wall"] / least["wall"] for least, ours in runs)
    least = f"json.load {amount(floor, 's')}"
    judge = statistics.median(ours["judge_ms"] for _, ours in runs)
    figures = [
        ratio_within("load_audits", over, READ_BUDGET, amount(wall, "s"), least),
        within("flags of all runs by other thresholds", judge, "ms", JUDGE_BUDGET_MS),
    ]
    report(f"{options.reports:,} reports, {size:.0f} MB", figures)


if __name__ == "__main__":
    main()
