"""Small networks and batches for the methods' tests."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fa_core.models import StreamNet, build

Batch = Callable[[StreamNet, int], tuple[Tensor, Tensor]]


@pytest.fixture(autouse=True)
def one_thread():
    """Small matrices are faster on one thread, and sums come in one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def net():
    """A small ResMLP."""
    return build("resmlp", input_dim=12, d=16, L=3, seed=0)


@pytest.fixture
def batch():
    """Draws (x, y) that fit a network."""

    def draw(net, size=6):
        generator = torch.Generator().manual_seed(1)
        dtype = net.head.weight.dtype
        x = torch.randn(size, *net.input_shape, generator=generator).to(dtype)
        return x, torch.randint(net.num_classes, (size,), generator=generator)

    return draw
