"""Weights shared out over several ranks: each measures the numbers of the plain network."""

import json
import subprocess
import sys

import pytest

SHARDED = """
import json, sys, torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from fa_core import diagnose

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
report = diagnose(net, batches, taps=["0", "1", "2", "3"])
plain = diagnose(network(), batches, taps=["0", "1", "2", "3"])
print(json.dumps({
    "norms": [report.residual_norms, plain.residual_norms],
    "gradients": [report.bp_grad_norms, plain.bp_grad_norms],
    "drift": [report.cross_batch_stability, plain.cross_batch_stability],
    "custom": report.provenance.get("custom_backward"),
}))
distributed.destroy_process_group()
"""


@pytest.mark.parametrize("kind", ["fsdp", "tensor"])
def test_a_sharded_network_is_measured_as_the_plain_one(kind, tmp_path):
    command = [sys.executable, "-c", SHARDED]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "meet"), kind], stdout=subprocess.PIPE
        )
        for rank in range(2)
    ]
    for rank in ranks:
        of_rank = json.loads(rank.communicate(timeout=120)[0])
        assert of_rank["custom"] is None
        for name in ("norms", "gradients", "drift"):
            sharded, plain = of_rank[name]
            assert plain
            assert sharded == pytest.approx(plain, rel=1e-5)
