"""A small network for the rules' tests."""

import pytest
import torch

from tests.fa_core.zoo.methods.credits import network


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
    return network("resmlp")
