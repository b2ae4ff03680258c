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

def in_blocks():
    net = network()
    for block in net:
        fully_shard(block, mesh=mesh)
    return fully_shard(net, mesh=mesh)

def in_columns_and_rows():
    plan = {}
    for block in "123":
        plan[f"{block}.up"], plan[f"{block}.down"] = ColwiseParallel(), RowwiseParallel()
    return parallelize_module(network(), mesh, plan)

rank, place = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2)
mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(1)
batches = [(torch.randn(16, 6), torch.arange(16) % 3) for _ in range(8)]
for make in (network, in_blocks, in_columns_and_rows):
    report = diagnose(make(), batches, taps=["0", "1", "2", "3"])
    drift, custom = report.cross_batch_stability, report.provenance.get("custom_backward")
    print(json.dumps([report.residual_norms, report.bp_grad_norms, drift, custom]))
distributed.destroy_process_group()
"""


def test_a_sharded_network_is_measured_as_the_plain_one(tmp_path):
    command = [sys.executable, "-c", SHARDED]
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "meet")], stdout=subprocess.PIPE)
        for rank in range(2)
    ]
    for rank in ranks:
        lines = rank.communicate(timeout=120)[0].splitlines()
        plain, *sharded = map(json.loads, lines)
        assert len(sharded) == 2 and all(plain[:3]) and plain[3] is None
        for *numbers, custom in sharded:
            assert custom is None
            for found, expected in zip(numbers, plain, strict=False):
                assert found == pytest.approx(expected, rel=1e-5)
