"""What a big table takes of memory, over its file: measured in a process of its own, without what the process needs."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the system does not say"
)

REPORTS = 40_000
AT_MOST = 5.0
"""A program of 62 MB stays at four times a file of 40 MB if it takes so much of a table without a space in it (three
times one of 104 MB); a table as it is written has twice the text per report."""
AT_REST = 5.0
"""What stays, so that the analyses have memory to work in: their screen makes it a program of 82 MB."""

_MEASURE = """
import gc, os, sys
os.environ["OPENBLAS_NUM_THREADS"] = "1"

def now(name):
    line = next(line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) * 1024

{setup}
gc.disable()
kept = [opened(sys.argv[1])]
before = now("VmRSS")
kept.append(opened(sys.argv[2]))
assert len(kept[-1]) == int(sys.argv[3])
print((now("VmHWM") - before) / os.path.getsize(sys.argv[2]), (now("VmRSS") - before) / os.path.getsize(sys.argv[2]))
"""
LIBRARY = _MEASURE.format(setup="from fa_core import load_audits as opened")
EXPLORER = _MEASURE.format(
    setup="""
from fa_core.formats import scan
from fa_tui.session import Session
from fa_tui.views.grid import build_grid
from fa_tui.widgets.sliders_panel import SlidersPanel

held = []

def opened(path):
    session = Session(scan([path]).rows)
    panel = SlidersPanel()
    for letter in "abcd":
        panel.set_runs(letter, session.values(letter))
    held.extend([build_grid(session.rows), panel])
    return session
"""
)


SESSION = EXPLORER.replace(
    "return session",
    """from fa_core.analysis.seeds import over_seeds
    from fa_core.analysis.threshold_sweep import sensitivities, verdict_curve
    some = build_grid(session.rows, range(len(session) - 1))
    del some
    panel = SlidersPanel()
    for letter in "abcd":
        panel.set_runs(letter, session.values(letter))
    held.extend([panel, over_seeds(session.table, session.thresholds)])
    sensitivities(session.table), verdict_curve(session.table, "a", session.thresholds)
    return session""",
)


def compact_table(path: Path, count: int) -> Path:
    """An audit table without a space in it, and without a summary: as little text per report as there is."""
    chance = random.Random(0)
    reports = {
        f"dfa_s{seed}": {
            "method_name": "DFA",
            "notes": "4-block d=256 ResMLP",
            "residual_norms": [chance.lognormvariate(5, 5) for _ in range(5)],
            "bp_grad_norms": [chance.lognormvariate(-12, 5) for _ in range(5)],
            "stability_layer": 2,
            "cross_batch_stability": chance.uniform(-0.1, 1.0),
            "headline_acc": chance.random(),
            "frozen_baseline_acc": 0.349,
            "verdict": "needs walk-back: residual stream exploded; BP grad direction is drift-dominated",
            "thresholds": {
                "g_norm_floor": 1e-07,
                "h_norm_explosion_ratio": 50.0,
                "stability_drift_ceiling": 0.3,
                "frozen_acc_margin_pp": 2.0,
            },
            "seed": seed,
        }
        for seed in range(count)
    }
    path.write_text(json.dumps({"reports": reports}, separators=(",", ":")))
    return path


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tables")
    return compact_table(folder / "small.json", 3000), compact_table(folder / "big.json", REPORTS)


def over_the_file(code: str, tables: tuple[Path, Path]) -> tuple[float, float]:
    """Memory that opening takes over the file's size, at its peak and in the end."""
    command = [sys.executable, "-c", code, *map(str, tables), str(REPORTS)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    peak, rest = map(float, ran.stdout.split())
    return peak, rest


@pytest.mark.parametrize(
    "code", [LIBRARY, EXPLORER, SESSION], ids=["load_audits", "explorer", "analyses"]
)
def test_a_compact_table_takes_at_most_so_much_over_its_file(
    code: str, tables: tuple[Path, Path]
) -> None:
    peak, rest = over_the_file(code, tables)
    assert peak <= AT_MOST
    assert rest <= AT_REST
