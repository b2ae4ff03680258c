"""Several ranks: one measures unless the weights are shared out, and all stop together."""

import json
import subprocess
import sys

import pytest

RANK = """
import json, sys, torch
from torch import distributed
from fa_core.report.thresholds import DiagnosticThresholds
from fa_core.zoo.models import build
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


SHARDED = """
import json, sys, torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from fa_core import diagnose
from fa_core.monitor import MonitorCallback

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
    def forward(self, x):
        return x + self.down(self.up(x).relu())

def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), Block(), Block(), Block(), nn.Linear(8, 3))

rank, place, kind = int(sys.argv[1]), sys.argv[2], sys.argv[3]
distributed.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(1)
batches = [(torch.randn(16, 6), torch.arange(16) % 3) for _ in range(8)]
net = network()
if kind == "fsdp":
    for block in net:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
else:
    plan = {}
    for block in "123":
        plan[f"{block}.up"], plan[f"{block}.down"] = ColwiseParallel(), RowwiseParallel()
    parallelize_module(net, mesh, plan)
sent = []
callback = MonitorCallback(batches, taps=["0", "1", "2", "3"], to=lambda *told: sent.append(told))
callback.begin(net, 1)
answer = callback.step()
(report,) = callback.monitor.reports
plain = diagnose(network(), batches, taps=["0", "1", "2", "3"])
print(json.dumps({
    "norms": [report.residual_norms, plain.residual_norms],
    "gradients": [report.bp_grad_norms, plain.bp_grad_norms],
    "drift": [report.cross_batch_stability, plain.cross_batch_stability],
    "custom": report.provenance.get("custom_backward"),
    "spoke": [answer is not None, len(sent)],
}))
distributed.destroy_process_group()
"""


def run_ranks(program, place, *arguments):
    """What two ranks of a program print."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(rank), str(place), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for rank in range(2)
    ]
    return [json.loads(rank.communicate(timeout=120)[0]) for rank in ranks]


def test_rank_0_measures_and_every_rank_gets_its_answer(tmp_path):
    assert run_ranks(RANK, tmp_path / "meet") == [[1, True], [0, True]]


@pytest.mark.parametrize("kind", ["fsdp", "tensor"])
def test_a_sharded_network_is_measured_as_the_plain_one(kind, tmp_path):
    found = run_ranks(SHARDED, tmp_path / "meet", kind)
    for of_rank in found:
        assert of_rank["custom"] is None
        for name in ("norms", "gradients", "drift"):
            sharded, plain = of_rank[name]
            assert plain
            assert sharded == pytest.approx(plain, rel=1e-5)
    assert [of_rank["spoke"] for of_rank in found] == [[True, 1], [False, 0]]
