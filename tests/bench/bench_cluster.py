"""Checkpoints per second on a Ray cluster of 1…4 nodes, over as many worker processes of the local engine.

    python -m tests.bench.bench_cluster [--nodes 4 --checkpoints 8]

Networks of the published size (ResMLP d=256 L=4, 3,072 inputs), K = 10 batches of 128, accuracy on 10,000 samples. Each
node is a raylet on this machine with one core, so that the curve ends where the machine's cores end. Workers are warm:
torch is imported and the data loaded before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from safetensors.torch import save_file

from fa_core.engine.cluster import ClusterPool
from fa_core.engine.devices import Execution
from fa_core.engine.jobs import Job
from fa_core.engine.pool import Pool, WorkerPool
from fa_core.facts.manifest import MANIFEST, WEIGHTS, Manifest
from fa_core.models import build
from tests.bench.figures import table
from tests.fa_core.engine.cluster.nodes_for_tests import TestCluster

DATA = "synthetic:input=3072,train=256,test=10000"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--checkpoints", type=int, default=8)
    given = parser.parse_args()
    cluster = TestCluster()
    try:
        with tempfile.TemporaryDirectory() as folder:
            runs = checkpoints(Path(folder), given.checkpoints)
            rows = []
            first = 0.0
            for nodes in range(1, given.nodes + 1):
                cluster.add(f"n{nodes}")
                with WorkerPool(["cpu"] * nodes) as pool:
                    here = rate(pool, runs, nodes)
                with ClusterPool(Execution(engine="ray", address=cluster.address)) as pool:
                    there = rate(pool, runs, nodes)
                first = first or there
                over = (f"{there / here:.2f}×", f"{there / first:.2f}×")
                rows.append((str(nodes), f"{there:.2f}", f"{here:.2f}", *over))
                print(f"{nodes} measured", file=sys.stderr, flush=True)
    finally:
        cluster.close()
    head = ("nodes", "checkpoints/s", "local workers", "over local", "over 1 node")
    table(head, rows, f"Checkpoints per second on {os.cpu_count()} cores")


def checkpoints(folder: Path, count: int) -> list[Path]:
    """Run folders of one untrained network."""
    net = build("resmlp", input_dim=3072, d=256, L=4, num_classes=10, seed=42)
    manifest = Manifest(method="bp", arch="resmlp", arch_args=net.arch_args, data=DATA, seed=42)
    runs = [folder / f"run{number}" for number in range(count)]
    for run in runs:
        run.mkdir()
        (run / MANIFEST).write_text(json.dumps(msgspec.to_builtins(manifest)))
        save_file(net.state_dict(), run / WEIGHTS)
    return runs


def rate(pool: Pool, runs: Sequence[Path], workers: int) -> float:
    """Checkpoints per second, every worker warm."""
    for future in [
        pool.submit(Job(id=f"warm {n}", checkpoint=str(runs[0]))) for n in range(2 * workers)
    ]:
        future.result()
    begun = time.perf_counter()
    for future in [pool.submit(Job(id=str(run), checkpoint=str(run))) for run in runs]:
        future.result()
    return len(runs) / (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
