import operator
import random
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

from fa_core import diagnose
from fa_core.errors import MeasureError
from fa_core.measure.diagnose import WRITES
from fa_core.measure.isolate import full_float32
from tests.fa_core.measure.nets import Residual, batches


class Awkward(Residual):
    """Counts its calls in a buffer, replaces another, binarises weights and draws in eval mode."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", torch.zeros(1))
        self.register_buffer("coo", torch.eye(2).to_sparse())
        self.register_buffer("csr", torch.eye(2).to_sparse_csr())
        self.fails = False

    def forward(self, x, return_hidden=False):
        self.calls += 1
        self.last = torch.ones(1)
        self.coo.mul_(2), self.csr.mul_(2)
        self.embed.weight.data = self.embed.weight.sign()
        self.head.weight.data.clamp_(-0.1, 0.1)
        torch.rand(3), random.random(), np.random.rand()
        x.mul_(1.0)
        if self.fails and self.calls > 3:
            raise RuntimeError("boom")
        return super().forward(x, return_hidden)


def as_bytes(tensors):
    return [None if t is None else t.to_dense().numpy().tobytes() for t in tensors]


def snapshot(net):
    return {
        "modes": [module.training for module in net.modules()],
        "requires_grad": [p.requires_grad for p in net.parameters()],
        "grad": as_bytes(p.grad for p in net.parameters()),
        "state": as_bytes(net.state_dict().values()),
        "identity": [id(b) for b in net.buffers()],
        "memory": [p.data_ptr() for p in net.parameters()],
        "hooks": [len(module._forward_hooks) for module in net.modules()],
        "random": [random.getstate(), str(np.random.get_state()), *torch.get_rng_state().tolist()],
    }


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("taps", [None, "embed, blocks.*"])
def test_the_model_comes_back_exactly_as_found(fails, taps):
    net = Awkward().train()
    net.norm.eval()
    net.head.weight.requires_grad_(False)
    net.embed.weight.grad = torch.ones_like(net.embed.weight)
    net.fails = fails
    data = batches(4)
    kept = [as_bytes(pair) for pair in data]
    before = snapshot(net)
    said = pytest.raises(MeasureError, match=r"eval batch 3: .*boom")
    with said if fails else nullcontext():
        assert WRITES in diagnose(net, data, taps=taps).notes
    assert snapshot(net) == before
    assert [as_bytes(pair) for pair in data] == kept


def test_an_interrupt_leaves_the_model_as_found():
    net = Residual().train()
    before = snapshot(net)

    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        diagnose(net, batches(3), on_batch=interrupt)
    assert snapshot(net) == before


def test_a_graph_of_the_caller_survives_the_measurement():
    net = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 4)).eval()
    x, y = batches(1)[0]
    loss = nn.functional.cross_entropy(net(x), y)
    diagnose(net, batches(2), taps="0,1")
    loss.backward()
    assert net[0].weight.grad is not None


def read(name):
    try:
        return operator.attrgetter(name)(torch.backends)
    except (RuntimeError, AttributeError) as error:
        return type(error).__name__


def precisions():
    """What each of torch's switches says, or the error of reading it."""
    return {name: read(name) for name in ("cudnn.allow_tf32", *FINE)}


FINE = [
    f"{kind}.fp32_precision" for kind in ("cuda.matmul", "cudnn.conv", "cudnn.rnn", "mkldnn.matmul")
]


@pytest.fixture
def default_switches():
    """PyTorch's precision switches as they are at start, before and after a test that moves them."""
    yield
    if hasattr(torch.backends, "fp32_precision"):
        torch.backends.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = True
    if hasattr(torch.backends, "fp32_precision"):
        torch.backends.cuda.matmul.fp32_precision = "none"
        torch.backends.mkldnn.matmul.fp32_precision = "none"
        torch.backends.cudnn.conv.fp32_precision = "tf32"
        torch.backends.cudnn.rnn.fp32_precision = "tf32"


@pytest.mark.usefixtures("default_switches")
def test_the_network_runs_with_tf32_off():
    class Watched(Residual):
        def forward(self, x, return_hidden=False):
            seen.append((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
            return super().forward(x, return_hidden)

    seen = []
    torch.set_float32_matmul_precision("high")
    diagnose(Watched(), batches(1))
    assert set(seen) == {("highest", False)}
    assert torch.get_float32_matmul_precision() == "high"


@pytest.mark.parametrize(
    "set_up",
    [
        lambda: None,
        lambda: torch.set_float32_matmul_precision("medium"),
        lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
        lambda: setattr(torch.backends.cudnn.conv, "fp32_precision", "ieee"),
        lambda: setattr(torch.backends, "fp32_precision", "tf32"),
    ],
    ids=["default", "legacy", "matmul", "conv", "global"],
)
@pytest.mark.usefixtures("default_switches")
def test_tf32_is_off_inside_and_restored_outside(set_up):
    if not hasattr(torch.backends, "fp32_precision"):
        pytest.skip("this PyTorch has the older switches only")
    set_up()
    before = precisions()
    with pytest.raises(ZeroDivisionError), full_float32():
        inside = precisions()
        raise ZeroDivisionError
    assert {inside[name] for name in FINE} == {"ieee"}
    assert precisions() == before
