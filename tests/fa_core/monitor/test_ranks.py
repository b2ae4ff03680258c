"""Several ranks: one measures, all stop together."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

RANK = """
import json, sys, torch
from torch import distributed
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.models import build
from fa_core.monitor import MonitorCallback
rank, place = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2)
net = build("resmlp", input_dim=6, d=8, L=2, seed=0, num_classes=3)
batches = [(torch.randn(16, 6), torch.arange(16) % 3)]
always = DiagnosticThresholds(h_norm_explosion_ratio=0.0)
callback = MonitorCallback(batches, stop_on="a", thresholds=always)
callback.begin(net, 1)
stops = callback.stops(callback.step())
print(json.dumps([len(callback.monitor.reports), stops]))
distributed.destroy_process_group()
"""


def test_rank_0_measures_and_every_rank_gets_its_answer(tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(tmp_path / "meet")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for rank in range(2)
    ]
    found = [json.loads(rank.communicate(timeout=120)[0]) for rank in ranks]
    assert found == [[1, True], [0, True]]
