"""FA's and DFA's updates are those of a step written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fa_core.methods import make_method
from fa_core.models import StreamNet
from tests.fa_core.methods.conftest import Batch
from tests.fa_core.methods.numpy_step import gradients


@pytest.mark.parametrize("lam", [0.0, 1e-2])
@pytest.mark.parametrize("name", ["fa", "dfa"])
def test_an_sgd_step_equals_the_numpy_step(
    name: str, lam: float, net: StreamNet, batch: Batch
) -> None:
    net = net.double()
    method = make_method(name, net, seed=5).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(
                0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2))
            )
    x, y = batch(net, 7)
    before = {key: value.detach().numpy().copy() for key, value in net.named_parameters()}
    feedback = [matrix.numpy() for matrix in method.buffers()]
    by_hand = gradients(before, feedback, name, x.numpy(), y.numpy(), lam)

    optimizer = torch.optim.SGD(method.trained_parameters(net), lr=0.5)
    loss, _ = method.loss(net, x, y, lam)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()

    assert set(by_hand) == set(before)
    for key, value in net.named_parameters():
        np.testing.assert_allclose(
            value.detach().numpy(),
            before[key] - 0.5 * by_hand[key],
            rtol=1e-9,
            atol=1e-12,
            err_msg=key,
        )
